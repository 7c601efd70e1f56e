#include "base/thread_name.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <string>
#include <thread>

namespace skipjack {
namespace {

std::string NameOfNewThread(std::string_view name) {
  std::array<char, 16> buffer{};
  std::thread([&] {
    SetThreadName(name);
    pthread_getname_np(pthread_self(), buffer.data(), buffer.size());
  }).join();
  return buffer.data();
}

TEST(ThreadNameTest, IsVisibleToTheSystem) {
  EXPECT_EQ(NameOfNewThread("step-loop"), "step-loop");
}

TEST(ThreadNameTest, KeepsTheFirstFifteenBytes) {
  EXPECT_EQ(NameOfNewThread("a name that is far too long"), "a name that is ");
}

}  // namespace
}  // namespace skipjack
