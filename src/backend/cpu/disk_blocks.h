// KV blocks in a file that has no name: it is gone with the process, however that ends.
//
// Reads and writes go past the page cache (O_DIRECT) where the file system can, many at a time through
// io_uring; where the kernel does not let us use that, one after the other. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace skipjack {

struct DiskTransfer {
  std::int32_t block = 0;
  std::byte* memory = nullptr;  // block_bytes
  bool write = false;
  Status status = {};  // of this transfer, after Run()
};

class DiskBlocks {
 public:
  virtual ~DiskBlocks() = default;

  // Takes the whole space at once. ResourceExhausted when the file system has not as much, InvalidArgument
  // when the folder cannot be written to; both name the folder.
  static Result<std::unique_ptr<DiskBlocks>> Create(const std::string& folder, std::int32_t blocks,
                                                    std::int64_t block_bytes);

  // In any order; no two of them may touch the same block or memory unless both only read it.
  virtual void Run(std::span<DiskTransfer> transfers) = 0;

  // "io_uring, direct" for the log.
  virtual std::string description() const = 0;
};

}  // namespace skipjack
