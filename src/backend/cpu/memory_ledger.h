// Who has been promised how much of the machine's memory. The KV cache is mapped when a model loads, but its
// pages are taken only as sequences grow into them: until then the kernel calls them available, and a second
// model would be promised the same bytes. Whoever loads models owns one ledger and hands it to all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/huge_buffer.h"
#include "base/status.h"

namespace skipjack {

// Bytes that a model may take, and the buffers it maps for them. Gives the bytes back when it is destroyed,
// which must come before its buffers are. One thread at a time.
class MemoryPromise {
 public:
  MemoryPromise() = default;
  ~MemoryPromise();
  MemoryPromise(MemoryPromise&& other) noexcept = default;
  MemoryPromise& operator=(MemoryPromise&& other) noexcept;

  // Maps part of the promise: its pages count as taken once they are touched.
  Result<HugeBuffer> Allocate(std::int64_t bytes, const char* purpose);

 private:
  friend class MemoryLedger;
  struct Entry;
  struct Book;
  MemoryPromise(std::shared_ptr<Book> book, std::shared_ptr<Entry> entry);

  std::shared_ptr<Book> book_;  // null: promises nothing
  std::shared_ptr<Entry> entry_;
};

// Thread-safe. Promises may outlive it.
class MemoryLedger {
 public:
  // `root` is put before /proc and /sys ("" on the live system).
  explicit MemoryLedger(std::string root = "");

  // ResourceExhausted when not as much is left, with all numbers: "`what` needs N bytes (`parts`), but ...".
  Result<MemoryPromise> Promise(std::int64_t bytes, const std::string& what, const std::string& parts) const;

  // RAM, or the limit of our control groups.
  std::int64_t machine_bytes() const;
  // Promised bytes whose pages nobody has touched so far.
  std::int64_t outstanding_bytes() const;

 private:
  std::shared_ptr<MemoryPromise::Book> book_;
};

}  // namespace skipjack
