#include "backend/cpu/huge_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <utility>

namespace skipjack {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

HugeBuffer::~HugeBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)) {}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  return *this;
}

Result<HugeBuffer> HugeBuffer::Allocate(std::int64_t bytes, const char* purpose) {
  HugeBuffer buffer;
  buffer.size_ = std::max<std::int64_t>(bytes, 1);
  const bool huge = static_cast<std::size_t>(buffer.size_) >= kHugePage;
  buffer.mapping_bytes_ = static_cast<std::size_t>(buffer.size_) + (huge ? kHugePage : 0);
  void* mapping = mmap(nullptr, buffer.mapping_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return Status::ResourceExhausted("cannot map " + std::to_string(bytes) + " bytes for " + purpose);
  }
  buffer.mapping_ = mapping;
  buffer.data_ = static_cast<std::byte*>(mapping);
  if (huge) {
    const auto address = reinterpret_cast<std::uintptr_t>(mapping);
    buffer.data_ += (kHugePage - address % kHugePage) % kHugePage;
    madvise(buffer.data_, static_cast<std::size_t>(buffer.size_),
            MADV_HUGEPAGE);  // advice: failure is no error
  }
  return buffer;
}

}  // namespace skipjack
