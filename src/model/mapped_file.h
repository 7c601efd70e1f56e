// A regular file mapped read-only.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace skipjack {

class MappedFile {
 public:
  // NotFound, PermissionDenied or InvalidArgument (no regular file) with the path. An empty file maps to an
  // empty span.
  static Result<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

  // Asks the kernel to begin reading `part` of bytes() from the disk, and returns without waiting for it:
  // reading a page later that is not there yet stops for that page alone otherwise. Bytes outside the file
  // are ignored.
  void Prefetch(std::span<const std::byte> part) const;

  // Lets the kernel take the pages back; later reads fault them in again.
  void DropPages() const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace skipjack
