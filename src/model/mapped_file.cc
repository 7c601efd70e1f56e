#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/file_descriptor.h"

namespace skipjack {
namespace {

Status FromErrno(const std::string& path, int error) {
  const std::string message = path + ": " + std::strerror(error);
  if (error == ENOENT || error == ENOTDIR) return Status::NotFound(message);
  if (error == EACCES || error == EPERM) return {StatusCode::kPermissionDenied, message};
  if (error == ENOMEM || error == EMFILE || error == ENFILE) return Status::ResourceExhausted(message);
  return Status::InvalidArgument(message);
}

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer. It has no effect on regular files.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return FromErrno(path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return FromErrno(path, errno);
  if (!S_ISREG(info.st_mode)) return Status::InvalidArgument(path + ": not a regular file");

  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return std::unique_ptr<MappedFile>(new MappedFile({}));
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) return FromErrno(path, errno);
  return std::unique_ptr<MappedFile>(new MappedFile({static_cast<const std::byte*>(address), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Prefetch(std::span<const std::byte> part) const {
  // The kernel reads ahead no more than a device's limit for one request, however long the range is.
  constexpr std::uintptr_t kRequest = 128 * 1024;
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes_.data());
  const auto first = std::max(reinterpret_cast<std::uintptr_t>(part.data()), begin);
  const auto end =
      std::min(reinterpret_cast<std::uintptr_t>(part.data()) + part.size(), begin + bytes_.size());
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (std::uintptr_t at = first / page * page; at < end; at += kRequest) {
    ::madvise(reinterpret_cast<void*>(at), std::min(kRequest, end - at), MADV_WILLNEED);
  }
}

void MappedFile::DropPages() const {
  if (!bytes_.empty()) ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

}  // namespace skipjack
