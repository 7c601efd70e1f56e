// A cursor over bytes that never leaves them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read in place as little-endian");

namespace skipjack {

// After a read that does not fit, nothing moves and needed() says how long the bytes would have to be.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t size() const { return bytes_.size(); }
  std::uint64_t remaining() const { return bytes_.size() - offset_; }
  std::uint64_t needed() const { return needed_; }

  // The next `count` bytes.
  bool Take(std::uint64_t count, std::span<const std::byte>* out) {
    if (count > remaining()) {
      needed_ = count > std::numeric_limits<std::uint64_t>::max() - offset_
                    ? std::numeric_limits<std::uint64_t>::max()
                    : offset_ + count;
      return false;
    }
    *out = bytes_.subspan(offset_, static_cast<std::size_t>(count));
    offset_ += static_cast<std::size_t>(count);
    return true;
  }

  template <typename T>
  bool Read(T* out) {
    std::span<const std::byte> raw;
    if (!Take(sizeof(T), &raw)) return false;
    std::memcpy(out, raw.data(), sizeof(T));
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
  std::uint64_t needed_ = 0;
};

}  // namespace skipjack
