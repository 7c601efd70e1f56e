// Makes the copies of a step beside its computing, on a thread of its own.
#pragma once

#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>

#include "backend/model_runner.h"
#include "base/block_copy.h"

namespace skipjack {

// Start() and Wait() belong to the step loop's thread and take turns.
class CopyThread {
 public:
  explicit CopyThread(ModelRunner* runner);
  ~CopyThread();  // waits for what was started
  CopyThread(const CopyThread&) = delete;
  CopyThread& operator=(const CopyThread&) = delete;

  // Both must stay as they are until Wait() has returned.
  void Start(std::span<const BlockCopy> copies, CopyReport* report);
  // Until what was started is done; at once when nothing was.
  void Wait();

 private:
  void Work();

  ModelRunner& runner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::span<const BlockCopy> copies_;
  CopyReport* report_ = nullptr;  // not null while there is something to do
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace skipjack
