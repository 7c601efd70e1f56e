#include "backend/cpu/memory_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/backend/fake_machine.h"

namespace skipjack {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class MemoryLedgerTest : public testing::Test {
 protected:
  MemoryLedgerTest() { machine_.SetMemory(2048 * kMiB, 1024 * kMiB); }

  bool CanPromise(std::int64_t bytes) { return ledger_.Promise(bytes, "x", "y").ok(); }

  FakeMachine machine_;
  MemoryLedger ledger_{machine_.root()};
};

TEST_F(MemoryLedgerTest, WhatWasPromisedIsNotPromisedAgain) {
  const Result<MemoryPromise> first = ledger_.Promise(600 * kMiB, "the model", "KV cache 1");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(ledger_.outstanding_bytes(), 600 * kMiB);
  const Status refused = ledger_.Promise(500 * kMiB, "the model", "KV cache 2").status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(
      refused.message(),
      "the model needs 524288000 bytes (KV cache 2), but the machine has 1073741824 available, of which "
      "629145600 are promised to models that are loaded");
  EXPECT_TRUE(CanPromise(424 * kMiB));
  EXPECT_FALSE(CanPromise(424 * kMiB + 1));
}

TEST_F(MemoryLedgerTest, WithNobodyElseTheMessageNamesTheMachineOnly) {
  EXPECT_THAT(ledger_.Promise(1025 * kMiB, "the model", "weights 1").status().message(),
              testing::EndsWith("but the machine has 1073741824 available"));
}

TEST_F(MemoryLedgerTest, APromiseIsGivenBackOnce) {
  {
    Result<MemoryPromise> first = ledger_.Promise(600 * kMiB, "x", "y");
    ASSERT_TRUE(first.ok());
    MemoryPromise moved = std::move(*first);
    MemoryPromise assigned;
    assigned = std::move(moved);
    EXPECT_EQ(ledger_.outstanding_bytes(), 600 * kMiB);
  }
  EXPECT_EQ(ledger_.outstanding_bytes(), 0);
  EXPECT_TRUE(CanPromise(1024 * kMiB));
}

// The kernel no longer calls touched pages available, so the ledger must not count them a second time.
TEST_F(MemoryLedgerTest, TouchedPagesAreOutstandingNoMore) {
  HugeBuffer buffer;  // lives longer than the promise
  Result<MemoryPromise> promise = ledger_.Promise(10 * kMiB, "x", "y");
  ASSERT_TRUE(promise.ok());
  Result<HugeBuffer> mapped = promise->Allocate(8 * kMiB, "the test");
  ASSERT_TRUE(mapped.ok());
  buffer = std::move(*mapped);
  EXPECT_EQ(ledger_.outstanding_bytes(), 10 * kMiB);
  std::memset(buffer.data() + 2 * kMiB, 1, static_cast<std::size_t>(4 * kMiB));
  EXPECT_EQ(ledger_.outstanding_bytes(), 6 * kMiB);
  std::memset(buffer.data(), 1, static_cast<std::size_t>(buffer.size()));
  EXPECT_EQ(ledger_.outstanding_bytes(), 2 * kMiB);
}

TEST_F(MemoryLedgerTest, PromisesOutliveTheLedger) {
  auto ledger = std::make_unique<MemoryLedger>(machine_.root());
  Result<MemoryPromise> promise = ledger->Promise(1, "x", "y");
  ASSERT_TRUE(promise.ok());
  ledger.reset();
  EXPECT_TRUE(promise->Allocate(1, "the test").ok());
}

TEST_F(MemoryLedgerTest, ThreadsAreNotPromisedTheSame) {
  constexpr int kThreads = 8;
  std::vector<MemoryPromise> promises(kThreads);  // held until all have asked
  std::atomic<int> granted{0};
  std::vector<std::thread> threads;
  for (MemoryPromise& promise : promises) {
    threads.emplace_back([&] {
      Result<MemoryPromise> got = ledger_.Promise(200 * kMiB, "x", "y");
      if (!got.ok()) return;
      promise = std::move(*got);
      ++granted;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, 5);
}

TEST_F(MemoryLedgerTest, TheMachineIsItsControlGroupsLimit) {
  EXPECT_EQ(ledger_.machine_bytes(), 2048 * kMiB);
  machine_.Write("/proc/self/cgroup", "0::/outer/inner\n");
  machine_.Write("/sys/fs/cgroup/outer/memory.max", std::to_string(300 * kMiB));
  machine_.Write("/sys/fs/cgroup/outer/memory.current", std::to_string(100 * kMiB));
  machine_.Write("/sys/fs/cgroup/outer/inner/memory.max", "max\n");
  EXPECT_EQ(ledger_.machine_bytes(), 300 * kMiB);
  EXPECT_TRUE(CanPromise(200 * kMiB));
  EXPECT_FALSE(CanPromise(200 * kMiB + 1));
}

}  // namespace
}  // namespace skipjack
