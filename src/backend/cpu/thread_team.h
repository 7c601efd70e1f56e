// A fixed set of threads that execute one function together (SPMD), in phases separated by barriers.
//
// The caller of Run() is lane 0; the other lanes are threads that live as long as the team. A lane that waits
// spins for a few microseconds, because the phases of a decode step are that short, and then sleeps in the
// kernel; how long it spins adapts to what spinning achieved, so that a team which shares its cores with
// others does not burn them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace skipjack {

struct ThreadTeamOptions {
  int threads = 1;  // lanes, the caller's included; at least 1
  // Upper limit of the spinning before a lane sleeps. Zero: sleep at once (more lanes than cores).
  std::chrono::nanoseconds max_spin = std::chrono::microseconds(20);
};

class ThreadTeam {
 public:
  explicit ThreadTeam(const ThreadTeamOptions& options);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  // Runs body(lane) on every lane and returns when all are done; what they wrote is then visible to the
  // caller. One caller at a time, never from inside a body. `body` must not throw. Allocates nothing.
  template <typename Body>
  void Run(Body&& body) {
    using Callable = std::remove_reference_t<Body>;
    RunErased({const_cast<void*>(static_cast<const void*>(&body)),
               [](void* callable, int lane) { (*static_cast<Callable*>(callable))(lane); }});
  }

  // Inside Run(): waits until every lane is here. All lanes call it equally often.
  void Barrier(int lane);

  // body(i) for i in [0, count), each on whichever lane is free next.
  void ParallelFor(std::int32_t count, const std::function<void(std::int32_t)>& body);

 private:
  struct Job {
    void* callable = nullptr;
    void (*invoke)(void* callable, int lane) = nullptr;
  };

  // On a cache line of its own: written by one lane only.
  struct alignas(64) Lane {
    std::chrono::nanoseconds spin{0};
  };

  void RunErased(Job job);
  void WorkerLoop(int lane);
  // Returns how long it waited; zero when it needed no clock to find out.
  std::chrono::nanoseconds WaitWhileEqual(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                                          std::chrono::nanoseconds spin) const;
  void AdaptSpin(std::chrono::nanoseconds waited, Lane& lane) const;

  const int size_;
  const std::chrono::nanoseconds max_spin_;
  std::unique_ptr<Lane[]> lanes_;
  Job job_;                // written by lane 0 before it raises start_
  bool stopping_ = false;  // likewise

  alignas(64) std::atomic<std::uint32_t> start_{0};    // counts Run() calls; workers wait on it
  alignas(64) std::atomic<std::uint32_t> arrived_{0};  // lanes at the current barrier
  alignas(64) std::atomic<std::uint32_t> passed_{0};   // counts barriers; waiting lanes wait on it
  std::vector<std::thread> workers_;
};

}  // namespace skipjack
