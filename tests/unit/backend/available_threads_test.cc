#include "backend/cpu/available_threads.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_runner.h"
#include "backend/cpu/machine_memory.h"
#include "tests/unit/backend/fake_machine.h"

namespace skipjack {
namespace {

class AvailableThreadsTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) { machine_.Write(path, text); }

  FakeMachine machine_;
  const std::string root_ = machine_.root();
};

TEST_F(AvailableThreadsTest, NoCgroupLeavesTheAffinityMask) {
  EXPECT_EQ(ThreadsWithinQuota(root_, 6), 6);
}

TEST_F(AvailableThreadsTest, VersionTwoQuota) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(ThreadsWithinQuota(root_, 8), 2);
  EXPECT_EQ(ThreadsWithinQuota(root_, 1), 1);
}

TEST_F(AvailableThreadsTest, VersionTwoWithoutLimit) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(ThreadsWithinQuota(root_, 8), 8);
}

TEST_F(AvailableThreadsTest, PartsOfACpuAreRoundedDownButNeverToZero) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "390000 100000\n");
  EXPECT_EQ(ThreadsWithinQuota(root_, 8), 3);
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(ThreadsWithinQuota(root_, 8), 1);
}

TEST_F(AvailableThreadsTest, AParentsQuotaCounts) {
  Write("/proc/self/cgroup", "0::/system.slice/skipjack.service\n");
  Write("/sys/fs/cgroup/system.slice/cpu.max", "300000 100000\n");
  Write("/sys/fs/cgroup/system.slice/skipjack.service/cpu.max", "max 100000\n");
  EXPECT_EQ(ThreadsWithinQuota(root_, 8), 3);
}

TEST_F(AvailableThreadsTest, VersionOneQuota) {
  Write("/proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "400000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ThreadsWithinQuota(root_, 8), 4);
}

TEST_F(AvailableThreadsTest, VersionOneInsideAContainer) {
  // The path in /proc is the host's; the container's mount shows its own group as the root.
  Write("/proc/self/cgroup", "4:cpu:/docker/abc\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ThreadsWithinQuota(root_, 8), 2);
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(ThreadsWithinQuota(root_, 8), 8);
}

TEST_F(AvailableThreadsTest, NonsenseIsNoLimit) {
  Write("/proc/self/cgroup", "garbage\n0::/\n");
  for (const char* text : {"", "max", "0 0", "-5 100000", "100000", "ten twenty", "100000 0"}) {
    Write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(ThreadsWithinQuota(root_, 8), 8) << text;
  }
}

TEST_F(AvailableThreadsTest, MemoryIsTheLeastOfTheLimits) {
  Write("/proc/meminfo",
        "MemTotal:       24000000 kB\nMemFree: 5 kB\nMemAvailable:   10000 kB\nBuffers: 1 kB\n");
  EXPECT_EQ(ReadMachineMemory(root_).available, 10000 * 1024);
  EXPECT_EQ(ReadMachineMemory(root_).total, std::int64_t{24000000} * 1024);
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/memory.max", "9000000\n");
  Write("/sys/fs/cgroup/a/memory.current", "5000000\n");
  Write("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 2000000\nactive_file 500000\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(ReadMachineMemory(root_).total, 9000000);
  EXPECT_EQ(ReadMachineMemory(root_).available, 9000000 - (5000000 - 2500000));  // file pages are given back
  Write("/sys/fs/cgroup/a/memory.current", "99000000\n");
  EXPECT_EQ(ReadMachineMemory(root_).available, 0);
}

TEST_F(AvailableThreadsTest, MemoryLimitOfVersionOne) {
  Write("/proc/self/cgroup", "9:memory:/docker/abc\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "600\n");
  EXPECT_EQ(ReadMachineMemory(root_).available, 400);
  EXPECT_EQ(ReadMachineMemory(root_).total, 1000);
}

TEST(AvailableThreads, ThisMachineHasSome) {
  EXPECT_GE(AvailableThreads(), 1);
}

}  // namespace
}  // namespace skipjack
