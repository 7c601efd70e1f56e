// A thread that hands output to gRPC. That does not block, but it serialises the message and may write it to
// its socket at once, which for every sequence of a step would be the step thread's work otherwise.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace skipjack {

// Something that has output to write.
class Writable {
 public:
  virtual ~Writable() = default;
  virtual void WriteNext() = 0;
};

class WriterThread {
 public:
  WriterThread();
  // Calls what has been posted, then joins. Not on the thread itself.
  ~WriterThread();
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  // WriteNext() of each is called in the order of posting, never on the thread that posts. Any thread; not
  // blocked by writes under way.
  void Post(std::shared_ptr<Writable> writable);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Writable>> posted_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace skipjack
