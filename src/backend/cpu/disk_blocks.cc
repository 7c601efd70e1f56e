#include "backend/cpu/disk_blocks.h"

#include <fcntl.h>
#include <liburing.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"

namespace skipjack {
namespace {

// Of offsets, lengths and memory, for O_DIRECT on every disk there is.
constexpr std::int64_t kAlignment = 4096;
// Transfers under way at a time.
constexpr unsigned kDepth = 32;

std::int64_t RoundUp(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::string Reason(int error) {
  return std::strerror(error);
}

bool IsAligned(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % static_cast<std::uintptr_t>(kAlignment) == 0;
}

struct FreeDeleter {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// A file without a name in `folder`. Where the file system cannot bypass the page cache, it is used.
Result<FileDescriptor> OpenUnnamed(const std::string& folder, bool* direct) {
  const int flags = O_TMPFILE | O_RDWR | O_CLOEXEC;
  *direct = true;
  FileDescriptor file(open(folder.c_str(), flags | O_DIRECT, 0600));
  if (file.get() < 0) {
    *direct = false;
    file = FileDescriptor(open(folder.c_str(), flags, 0600));
  }
  if (file.get() >= 0) return file;
  return Status::InvalidArgument("kv.disk.path: no file can be made in '" + folder + "': " + Reason(errno));
}

class FileBlocks final : public DiskBlocks {
 public:
  FileBlocks(FileDescriptor file, bool direct, std::int64_t block_bytes)
      : file_(std::move(file)), direct_(direct), block_bytes_(block_bytes), stride_(RoundUp(block_bytes)) {
    has_ring_ = io_uring_queue_init(kDepth, &ring_, 0) == 0;
    for (unsigned i = 0; i < kDepth; ++i) {
      bounce_.emplace_back(static_cast<std::byte*>(
          std::aligned_alloc(static_cast<std::size_t>(kAlignment), static_cast<std::size_t>(stride_))));
    }
  }
  ~FileBlocks() override {
    if (has_ring_) io_uring_queue_exit(&ring_);
  }
  FileBlocks(const FileBlocks&) = delete;
  FileBlocks& operator=(const FileBlocks&) = delete;

  void Run(std::span<DiskTransfer> transfers) override {
    while (!transfers.empty()) {
      const std::size_t count = std::min<std::size_t>(transfers.size(), kDepth);
      RunWave(transfers.first(count));
      transfers = transfers.subspan(count);
    }
  }

  std::string description() const override {
    return std::string(has_ring_ ? "io_uring" : "one transfer at a time") +
           (direct_ ? ", direct" : ", page cache");
  }

 private:
  void RunWave(std::span<DiskTransfer> transfers);
  bool Bounces(const DiskTransfer& transfer) const {
    return direct_ && (stride_ != block_bytes_ || !IsAligned(transfer.memory));
  }
  std::byte* MemoryOf(const DiskTransfer& transfer, std::size_t slot) const {
    return Bounces(transfer) ? bounce_[slot].get() : transfer.memory;
  }
  std::int64_t BytesOf(const DiskTransfer& transfer) const {
    return Bounces(transfer) ? stride_ : block_bytes_;
  }
  // Moves what is left after `done` bytes, waiting for it.
  Status Finish(const DiskTransfer& transfer, std::byte* memory, std::int64_t done) const;

  const FileDescriptor file_;
  const bool direct_;
  const std::int64_t block_bytes_;
  const std::int64_t stride_;
  bool has_ring_ = false;
  io_uring ring_{};
  std::vector<std::unique_ptr<std::byte, FreeDeleter>> bounce_;
};

void FileBlocks::RunWave(std::span<DiskTransfer> transfers) {
  // Bytes moved by the ring, or minus an error; the rest is done one by one.
  std::vector<std::int64_t> moved(transfers.size(), 0);
  unsigned queued = 0;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const DiskTransfer& transfer = transfers[i];
    std::byte* memory = MemoryOf(transfer, i);
    if (transfer.write && memory != transfer.memory)
      std::memcpy(memory, transfer.memory, static_cast<std::size_t>(block_bytes_));
    io_uring_sqe* entry = has_ring_ ? io_uring_get_sqe(&ring_) : nullptr;
    if (entry == nullptr) continue;
    const auto bytes = static_cast<unsigned>(BytesOf(transfer));
    const auto offset = static_cast<std::uint64_t>(transfer.block * stride_);
    transfer.write ? io_uring_prep_write(entry, file_.get(), memory, bytes, offset)
                   : io_uring_prep_read(entry, file_.get(), memory, bytes, offset);
    io_uring_sqe_set_data64(entry, i);
    ++queued;
  }
  // Whatever was submitted must come back before its memory may be used again.
  unsigned submitted = 0;
  while (submitted < queued) {
    const int now = io_uring_submit(&ring_);
    if (now == -EINTR) continue;
    if (now <= 0) break;
    submitted += static_cast<unsigned>(now);
  }
  for (unsigned i = 0; i < submitted;) {
    io_uring_cqe* done = nullptr;
    if (io_uring_wait_cqe(&ring_, &done) != 0) continue;
    moved[io_uring_cqe_get_data64(done)] = done->res;
    io_uring_cqe_seen(&ring_, done);
    ++i;
  }
  if (submitted < queued) {
    // What it still holds must never be submitted later.
    io_uring_queue_exit(&ring_);
    has_ring_ = false;
  }
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    DiskTransfer& transfer = transfers[i];
    std::byte* memory = MemoryOf(transfer, i);
    const bool again = moved[i] >= 0 || moved[i] == -EAGAIN || moved[i] == -EINTR;
    transfer.status =
        again ? Finish(transfer, memory, std::max<std::int64_t>(moved[i], 0))
              : Status::Unavailable(std::string(transfer.write ? "writing" : "reading") +
                                    " a KV block on disk: " + Reason(static_cast<int>(-moved[i])));
    if (transfer.status.ok() && !transfer.write && memory != transfer.memory)
      std::memcpy(transfer.memory, memory, static_cast<std::size_t>(block_bytes_));
  }
}

Status FileBlocks::Finish(const DiskTransfer& transfer, std::byte* memory, std::int64_t done) const {
  while (done < BytesOf(transfer)) {
    const auto left = static_cast<std::size_t>(BytesOf(transfer) - done);
    const auto offset = static_cast<off_t>(transfer.block * stride_ + done);
    const ssize_t now = transfer.write ? pwrite(file_.get(), memory + done, left, offset)
                                       : pread(file_.get(), memory + done, left, offset);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) {
      return Status::Unavailable(
          std::string(transfer.write ? "writing" : "reading") +
          " a KV block on disk: " + (now < 0 ? Reason(errno) : "the file is shorter than it should be"));
    }
    done += now;
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<DiskBlocks>> DiskBlocks::Create(const std::string& folder, std::int32_t blocks,
                                                       std::int64_t block_bytes) {
  bool direct = false;
  Result<FileDescriptor> file = OpenUnnamed(folder, &direct);
  if (!file.ok()) return file.status();
  const std::int64_t bytes = blocks * RoundUp(block_bytes);
  int error = posix_fallocate(file->get(), 0, bytes);
  if (error == EOPNOTSUPP || error == EINVAL) error = ftruncate(file->get(), bytes) == 0 ? 0 : errno;
  if (error != 0) {
    return Status::ResourceExhausted("kv.disk: " + std::to_string(bytes) + " bytes cannot be had in '" +
                                     folder + "': " + Reason(error));
  }
  auto made = std::make_unique<FileBlocks>(std::move(*file), direct, block_bytes);
  spdlog::info("KV blocks on disk: {} bytes in '{}' ({})", bytes, folder, made->description());
  return std::unique_ptr<DiskBlocks>(std::move(made));
}

}  // namespace skipjack
