#include "registry/kv_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/memory_ledger.h"
#include "tests/unit/backend/fake_machine.h"

namespace skipjack {
namespace {

using ::testing::HasSubstr;

ModelEntry Entry() {
  ModelEntry entry;
  entry.kv.block_tokens = 16;
  entry.scheduler.max_sequences = 4;
  return entry;
}

TEST(KvBudgetTest, ByDefaultEverySequenceGetsAFullContext) {
  // 1000 tokens are 63 blocks of 16; four sequences need 252.
  const auto budget =
      PlanKvBudget(Entry(), {.model_context = 1000, .block_bytes = 1000, .machine_bytes = 1'000'000'000});
  ASSERT_TRUE(budget.ok());
  EXPECT_EQ(budget->context_length, 1000);
  EXPECT_EQ(budget->blocks, 252);
}

TEST(KvBudgetTest, ByDefaultAQuarterOfTheMachineIsTheMost) {
  const auto budget =
      PlanKvBudget(Entry(), {.model_context = 1000, .block_bytes = 1000, .machine_bytes = 400'000});
  ASSERT_TRUE(budget.ok());
  EXPECT_EQ(budget->blocks, 100);
  EXPECT_EQ(budget->context_length, 1000);
}

TEST(KvBudgetTest, TheModelsOwnContextIsShortenedToWhatFits) {
  const auto budget =
      PlanKvBudget(Entry(), {.model_context = 1000, .block_bytes = 1000, .machine_bytes = 40'000});
  ASSERT_TRUE(budget.ok());
  EXPECT_EQ(budget->blocks, 10);
  EXPECT_EQ(budget->context_length, 160);
}

TEST(KvBudgetTest, AConfiguredContextMustFit) {
  ModelEntry entry = Entry();
  entry.context_length = 1000;
  const Status status =
      PlanKvBudget(entry, {.model_context = 2000, .block_bytes = 1000, .machine_bytes = 40'000}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("needs 63 KV blocks of 1000 bytes (63000 bytes), but 10000 bytes hold only 10"));
}

TEST(KvBudgetTest, AConfiguredContextMayNotExceedTheModels) {
  ModelEntry entry = Entry();
  entry.context_length = 2001;
  const Status status =
      PlanKvBudget(entry, {.model_context = 2000, .block_bytes = 1, .machine_bytes = 1 << 30}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("context_length is 2001, but the model was trained for 2000"));
}

TEST(KvBudgetTest, ConfiguredMemoryIsTakenAsItIs) {
  ModelEntry entry = Entry();
  entry.kv.device_memory = 1'000'500;
  entry.context_length = 64;
  const auto budget = PlanKvBudget(entry, {.model_context = 1000, .block_bytes = 1000, .machine_bytes = 1});
  ASSERT_TRUE(budget.ok());
  EXPECT_EQ(budget->blocks, 1000);
  EXPECT_EQ(budget->context_length, 64);
}

TEST(KvBudgetTest, LowerTiersHoldAsManyBlocksAsFit) {
  ModelEntry entry = Entry();
  entry.kv.host_memory = 2999;
  entry.kv.disk_size = 5000;
  const auto budget =
      PlanKvBudget(entry, {.model_context = 100, .block_bytes = 1000, .machine_bytes = 1'000'000});
  ASSERT_TRUE(budget.ok());
  EXPECT_EQ(budget->host_blocks, 2);
  EXPECT_EQ(budget->disk_blocks, 5);
}

TEST(KvBudgetTest, NotEvenOneBlockIsAnError) {
  ModelEntry entry = Entry();
  entry.kv.device_memory = 999;
  EXPECT_FALSE(PlanKvBudget(entry, {.model_context = 1000, .block_bytes = 1000, .machine_bytes = 1}).ok());
}

// The limit of any group above ours is the machine.
TEST(KvBudgetTest, AQuarterOfANestedControlGroup) {
  const FakeMachine machine;
  machine.SetMemory(std::int64_t{64} << 30, std::int64_t{32} << 30);
  machine.Write("/proc/self/cgroup", "0::/kubepods/pod1/container\n");
  machine.Write("/sys/fs/cgroup/memory.max", "max\n");
  machine.Write("/sys/fs/cgroup/kubepods/pod1/memory.max", "400000\n");
  machine.Write("/sys/fs/cgroup/kubepods/pod1/container/memory.max", "max\n");
  const MemoryLedger ledger(machine.root());
  const auto budget = PlanKvBudget(
      Entry(), {.model_context = 1000, .block_bytes = 1000, .machine_bytes = ledger.machine_bytes()});
  ASSERT_TRUE(budget.ok());
  EXPECT_EQ(budget->blocks, 100);
}

TEST(KvBudgetTest, ThisMachineHasMemory) {
  EXPECT_GT(MemoryLedger().machine_bytes(), 64 << 20);
}

}  // namespace
}  // namespace skipjack
