// Limits are the process's, so each test changes those of a child of its own.
#include "base/descriptor_limit.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

namespace skipjack {
namespace {

using ::testing::HasSubstr;

// What `body` returns in a child process with these limits.
std::string InChild(rlim_t soft, rlim_t hard, const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{soft, hard};
    const std::string answer = ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? body() : "setrlimit failed";
    const ssize_t written = ::write(ends[1], answer.data(), answer.size());
    ::_exit(written == static_cast<ssize_t>(answer.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string answer;
  std::array<char, 512> bytes;
  for (ssize_t got = 0; (got = ::read(ends[0], bytes.data(), bytes.size())) > 0;) {
    answer.append(bytes.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return answer;
}

std::string SoftLimit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return std::to_string(limit.rlim_cur);
}

std::string Reserve(std::int64_t connections) {
  const Status status = ReserveDescriptors(connections);
  return status.ok() ? SoftLimit() : status.ToString();
}

TEST(DescriptorLimitTest, TheSoftLimitIsRaisedToWhatIsNeeded) {
  EXPECT_EQ(InChild(64, 1024, [] { return Reserve(100); }), "612");
  EXPECT_EQ(InChild(64, 612, [] { return Reserve(100); }), "612");  // just so
}

TEST(DescriptorLimitTest, ItIsNeverLowered) {
  EXPECT_EQ(InChild(1000, 1024, [] { return Reserve(100); }), "1000");
}

TEST(DescriptorLimitTest, WhatExceedsTheHardLimitIsRefusedWithBothNumbers) {
  const std::string refused = InChild(64, 611, [] { return Reserve(100) + "; the limit is " + SoftLimit(); });
  EXPECT_THAT(refused, HasSubstr("FAILED_PRECONDITION"));
  EXPECT_THAT(refused, HasSubstr("need 612 open files, but the hard limit is 611"));
  EXPECT_THAT(refused, HasSubstr("max_connections"));
  EXPECT_THAT(refused, HasSubstr("; the limit is 64"));
}

// The point of it: so many can be open then.
TEST(DescriptorLimitTest, SoManyCanBeOpened) {
  const auto open_many = [] {
    for (int i = 0; i < 300; ++i) {
      if (::open("/dev/null", O_RDONLY) < 0) return "failed after " + std::to_string(i);
    }
    return std::string("opened");
  };
  EXPECT_THAT(InChild(64, 1024, open_many), HasSubstr("failed after"));
  EXPECT_EQ(InChild(64, 1024, [&] { return ReserveDescriptors(300).ok() ? open_many() : "refused"; }),
            "opened");
}

}  // namespace
}  // namespace skipjack
