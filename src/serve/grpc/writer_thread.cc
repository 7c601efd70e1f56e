#include "serve/grpc/writer_thread.h"

#include <utility>

#include "base/thread_name.h"

namespace skipjack {

WriterThread::WriterThread() : thread_([this] { Run(); }) {}

WriterThread::~WriterThread() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void WriterThread::Post(std::shared_ptr<Writable> writable) {
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(writable));
  }
  // While there are some it is awake, or being woken.
  if (first) wake_.notify_one();
}

void WriterThread::Run() {
  SetThreadName("grpc-write");
  std::vector<std::shared_ptr<Writable>> batch;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !posted_.empty(); });
    if (posted_.empty()) return;
    batch.swap(posted_);
    lock.unlock();
    for (std::shared_ptr<Writable>& writable : batch) {
      writable->WriteNext();
      writable.reset();
    }
    batch.clear();
    lock.lock();
  }
}

}  // namespace skipjack
