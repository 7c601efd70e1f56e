#include "backend/cpu/thread_team.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace skipjack {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Pauses between two looks at the clock, which costs about as much as a pause itself.
constexpr int kPausesPerClockRead = 16;
// A wait this many times longer than the longest spin means that some lane lost its core (or has far more
// work).
constexpr int kHopelessFactor = 50;
// Spinning never falls below max / 2^5: it must stay able to find out that it pays again.
constexpr int kMinSpinDivisor = 32;

inline void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

ThreadTeam::ThreadTeam(const ThreadTeamOptions& options)
    : size_(std::max(1, options.threads)),
      max_spin_(options.max_spin),
      lanes_(std::make_unique<Lane[]>(static_cast<std::size_t>(size_))) {
  for (int lane = 0; lane < size_; ++lane) lanes_[static_cast<std::size_t>(lane)].spin = max_spin_;
  workers_.reserve(static_cast<std::size_t>(size_ - 1));
  for (int lane = 1; lane < size_; ++lane) workers_.emplace_back([this, lane] { WorkerLoop(lane); });
}

ThreadTeam::~ThreadTeam() {
  stopping_ = true;
  start_.fetch_add(1, std::memory_order_release);
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::RunErased(Job job) {
  if (size_ == 1) {
    job.invoke(job.callable, 0);
    return;
  }
  job_ = job;
  start_.fetch_add(1, std::memory_order_seq_cst);
  start_.notify_all();
  job.invoke(job.callable, 0);
  Barrier(0);
}

void ThreadTeam::WorkerLoop(int lane) {
  Lane& self = lanes_[static_cast<std::size_t>(lane)];
  for (std::uint32_t seen = 0;; ++seen) {
    WaitWhileEqual(start_, seen, self.spin);  // may last for ever: says nothing about the spinning
    if (stopping_) return;
    job_.invoke(job_.callable, lane);
    Barrier(lane);
  }
}

// Central barrier: the last lane to arrive opens the next generation. The acquire-release chain through
// `arrived_` makes every lane's writes visible to the last one, whose release of `passed_` hands them to all.
void ThreadTeam::Barrier(int lane) {
  if (size_ == 1) return;
  const std::uint32_t generation = passed_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(size_)) {
    arrived_.store(0, std::memory_order_relaxed);
    passed_.store(generation + 1, std::memory_order_seq_cst);
    passed_.notify_all();
    return;
  }
  Lane& self = lanes_[static_cast<std::size_t>(lane)];
  AdaptSpin(WaitWhileEqual(passed_, generation, self.spin), self);
}

std::chrono::nanoseconds ThreadTeam::WaitWhileEqual(const std::atomic<std::uint32_t>& word,
                                                    std::uint32_t value,
                                                    std::chrono::nanoseconds spin) const {
  const bool may_spin = max_spin_.count() > 0;
  for (int i = 0; may_spin && i < kPausesPerClockRead; ++i) {
    if (word.load(std::memory_order_acquire) != value) return {};
    Pause();
  }
  const SteadyClock::time_point begin = SteadyClock::now();
  SteadyClock::time_point now = begin;
  for (; may_spin && now - begin < spin; now = SteadyClock::now()) {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (word.load(std::memory_order_acquire) != value) return SteadyClock::now() - begin;
      Pause();
    }
  }
  word.wait(value, std::memory_order_acquire);
  return SteadyClock::now() - begin;
}

void ThreadTeam::AdaptSpin(std::chrono::nanoseconds waited, Lane& lane) const {
  if (waited > max_spin_ * kHopelessFactor) {
    lane.spin = std::max(lane.spin / 2, max_spin_ / kMinSpinDivisor);
  } else if (waited <= max_spin_ * 2) {
    lane.spin = std::min(std::max(lane.spin * 2, max_spin_ / kMinSpinDivisor), max_spin_);
  }
}

void ThreadTeam::ParallelFor(std::int32_t count, const std::function<void(std::int32_t)>& body) {
  if (count <= 1 || size_ == 1) {
    for (std::int32_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::atomic<std::int32_t> next{0};
  Run([&](int) {
    for (std::int32_t i = next.fetch_add(1, std::memory_order_relaxed); i < count;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      body(i);
    }
  });
}

}  // namespace skipjack
