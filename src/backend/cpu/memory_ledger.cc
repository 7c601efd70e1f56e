#include "backend/cpu/memory_ledger.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <utility>

#include "backend/cpu/machine_memory.h"

namespace skipjack {
namespace {

struct MappedRange {
  std::byte* data = nullptr;
  std::int64_t size = 0;
};

// Bytes of the range's pages that are in memory; 0 where the system does not say.
std::int64_t ResidentBytes(const MappedRange& range) {
  constexpr std::int64_t kPagesAtOnce = 1 << 14;
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  std::array<unsigned char, kPagesAtOnce> in_memory;
  std::int64_t pages = 0;
  for (std::int64_t done = 0; done < range.size; done += kPagesAtOnce * page) {
    const std::int64_t bytes = std::min(range.size - done, kPagesAtOnce * page);
    if (mincore(range.data + done, static_cast<std::size_t>(bytes), in_memory.data()) != 0) return 0;
    const auto end = in_memory.begin() + (bytes + page - 1) / page;
    pages += std::count_if(in_memory.begin(), end, [](unsigned char flags) { return (flags & 1) != 0; });
  }
  return std::min(pages * page, range.size);
}

}  // namespace

struct MemoryPromise::Entry {
  std::int64_t bytes = 0;
  std::vector<MappedRange> ranges;
};

struct MemoryPromise::Book {
  std::string root;
  std::mutex mutex;
  std::vector<std::shared_ptr<Entry>> entries;

  // With `mutex` held.
  std::int64_t Outstanding() const {
    std::int64_t outstanding = 0;
    for (const auto& entry : entries) {
      std::int64_t touched = 0;
      for (const MappedRange& range : entry->ranges) touched += ResidentBytes(range);
      outstanding += std::max<std::int64_t>(0, entry->bytes - touched);
    }
    return outstanding;
  }
};

MemoryPromise::MemoryPromise(std::shared_ptr<Book> book, std::shared_ptr<Entry> entry)
    : book_(std::move(book)), entry_(std::move(entry)) {}

MemoryPromise::~MemoryPromise() {
  if (book_ == nullptr) return;
  std::lock_guard lock(book_->mutex);
  std::erase(book_->entries, entry_);
}

MemoryPromise& MemoryPromise::operator=(MemoryPromise&& other) noexcept {
  std::swap(book_, other.book_);
  std::swap(entry_, other.entry_);
  return *this;
}

Result<HugeBuffer> MemoryPromise::Allocate(std::int64_t bytes, const char* purpose) {
  Result<HugeBuffer> buffer = HugeBuffer::Allocate(bytes, purpose);
  if (!buffer.ok() || book_ == nullptr) return buffer;
  std::lock_guard lock(book_->mutex);
  entry_->ranges.push_back({buffer->data(), buffer->size()});
  return buffer;
}

MemoryLedger::MemoryLedger(std::string root) : book_(std::make_shared<MemoryPromise::Book>()) {
  book_->root = std::move(root);
}

Result<MemoryPromise> MemoryLedger::Promise(std::int64_t bytes, const std::string& what,
                                            const std::string& parts) const {
  std::lock_guard lock(book_->mutex);
  const std::int64_t available = ReadMachineMemory(book_->root).available;
  const std::int64_t outstanding = book_->Outstanding();
  if (bytes > available - outstanding) {
    std::string message = what + " needs " + std::to_string(bytes) + " bytes (" + parts +
                          "), but the machine has " + std::to_string(available) + " available";
    if (outstanding > 0) {
      message += ", of which " + std::to_string(outstanding) + " are promised to models that are loaded";
    }
    return Status::ResourceExhausted(std::move(message));
  }
  auto entry = std::make_shared<MemoryPromise::Entry>();
  entry->bytes = bytes;
  book_->entries.push_back(entry);
  return MemoryPromise(book_, std::move(entry));
}

std::int64_t MemoryLedger::machine_bytes() const {
  return ReadMachineMemory(book_->root).total;
}

std::int64_t MemoryLedger::outstanding_bytes() const {
  std::lock_guard lock(book_->mutex);
  return book_->Outstanding();
}

}  // namespace skipjack
