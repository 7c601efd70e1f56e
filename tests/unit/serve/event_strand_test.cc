#include "serve/event_strand.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/recording_listener.h"

namespace skipjack {
namespace {

using testing::RecordingListener;

ChoiceDelta Text(std::int32_t choice, std::string text) {
  return {.choice = choice, .text = std::move(text), .tokens = {}};
}

TEST(EventStrandTest, WhatIsPostedBeforeItOpensComesAfterAccepted) {
  const auto listener = std::make_shared<RecordingListener>();
  std::vector<std::string> order;
  listener->on_event = [&](const std::string& event) { order.push_back(event); };
  bool delivered = false;
  EventStrand strand(listener, [&] { delivered = true; });
  strand.Post(Text(0, "a"));
  strand.Post(ChoiceFinish{});
  EXPECT_TRUE(order.empty());
  strand.OpenWith({.request_id = "r", .model = "m", .prompt_tokens = {}});
  EXPECT_FALSE(delivered);
  strand.Post(Completed{});
  EXPECT_TRUE(delivered);
  EXPECT_EQ(order, (std::vector<std::string>{"OnAccepted", "OnDelta", "OnChoiceFinish", "OnCompleted"}));
  EXPECT_EQ(listener->violation(), "");
}

TEST(EventStrandTest, ARefusedRequestHearsCompletedOnly) {
  const auto listener = std::make_shared<RecordingListener>();
  std::vector<std::string> order;
  listener->on_event = [&](const std::string& event) { order.push_back(event); };
  EventStrand strand(listener, [] {});
  strand.Post(Text(0, "a"));
  Completed failed;
  failed.status = Status::Internal("x");
  strand.Post(std::move(failed));
  strand.OpenRefused();
  EXPECT_EQ(order, (std::vector<std::string>{"OnCompleted"}));
}

TEST(EventStrandTest, LetsTheListenerGoAfterCompleted) {
  auto listener = std::make_shared<RecordingListener>();
  const std::weak_ptr<RecordingListener> weak = listener;
  bool gone_when_delivered = false;
  EventStrand strand(listener, [&] { gone_when_delivered = weak.expired(); });
  listener.reset();
  strand.Post(Completed{});
  EXPECT_FALSE(weak.expired());
  strand.OpenRefused();
  EXPECT_TRUE(gone_when_delivered);
}

TEST(EventStrandTest, PostingFromInsideACallWaitsForItsEnd) {
  const auto listener = std::make_shared<RecordingListener>();
  EventStrand strand(listener, [] {});
  bool posted = false;
  listener->on_event = [&](const std::string& event) {
    if (event != "OnDelta" || posted) return;
    posted = true;
    strand.Post(Text(0, "b"));
  };
  strand.OpenWith({});
  strand.Post(Text(0, "a"));
  EXPECT_EQ(listener->choices().at(0).text, "ab");
  EXPECT_EQ(listener->violation(), "");
}

TEST(EventStrandTest, ManyThreadsAreSerialisedAndEachKeepsItsOrder) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 2000;
  const auto listener = std::make_shared<RecordingListener>();
  std::atomic<int> delivered{0};
  EventStrand strand(listener, [&] { ++delivered; });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&strand, t] {
      for (int i = 0; i < kPosts; ++i) strand.Post(Text(t, std::to_string(i) + ","));
      strand.Post(ChoiceFinish{.choice = t, .stop_string = {}, .stop_token = {}});
    });
  }
  strand.OpenWith({});
  for (std::thread& thread : threads) thread.join();
  strand.Post(Completed{});
  EXPECT_EQ(delivered, 1);
  EXPECT_EQ(listener->violation(), "");
  std::string expected;
  for (int i = 0; i < kPosts; ++i) expected += std::to_string(i) + ",";
  const auto choices = listener->choices();
  ASSERT_EQ(choices.size(), static_cast<std::size_t>(kThreads));
  for (const auto& [index, choice] : choices) EXPECT_EQ(choice.text, expected);
}

}  // namespace
}  // namespace skipjack
