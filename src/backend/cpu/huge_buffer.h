// Anonymous memory for weights, KV and activations: aligned to 2 MiB and advised towards huge pages, zero
// until written, and placed by first touch (NUMA node of the thread that writes it first).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace skipjack {

class HugeBuffer {
 public:
  HugeBuffer() = default;
  ~HugeBuffer();
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;

  // ResourceExhausted, naming `purpose` and the size, when the system refuses.
  static Result<HugeBuffer> Allocate(std::int64_t bytes, const char* purpose);

  std::byte* data() const { return data_; }
  std::int64_t size() const { return size_; }

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
};

}  // namespace skipjack
