#include "engine/copy_thread.h"

#include "base/thread_name.h"

namespace skipjack {

CopyThread::CopyThread(ModelRunner* runner) : runner_(*runner), thread_([this] { Work(); }) {}

CopyThread::~CopyThread() {
  {
    std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CopyThread::Start(std::span<const BlockCopy> copies, CopyReport* report) {
  if (copies.empty()) return;
  {
    std::lock_guard guard(mutex_);
    copies_ = copies;
    report_ = report;
  }
  changed_.notify_all();
}

void CopyThread::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return report_ == nullptr; });
}

void CopyThread::Work() {
  SetThreadName("kv-copies");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || report_ != nullptr; });
    if (report_ == nullptr) return;
    lock.unlock();
    runner_.CopyBlocks(copies_, report_);
    lock.lock();
    report_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace skipjack
