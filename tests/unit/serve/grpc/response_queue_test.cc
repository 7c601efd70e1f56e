// Whatever comes, messages stay below their limit and nothing is lost.
#include "serve/grpc/response_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace skipjack {
namespace {

TokenPiece Piece(TokenId id, std::string bytes) {
  TokenPiece piece;
  piece.id = id;
  piece.bytes = std::move(bytes);
  return piece;
}

ChoiceDelta Delta(std::int32_t choice, std::string text, std::vector<TokenPiece> tokens = {}) {
  return {.choice = choice, .text = std::move(text), .tokens = std::move(tokens)};
}

std::vector<v1::GenerateResponse> TakeAll(ResponseQueue* queue) {
  std::vector<v1::GenerateResponse> messages;
  while (!queue->empty()) queue->TakeFirst(&messages.emplace_back());
  return messages;
}

TEST(ResponseQueueTest, WhatComesTogetherIsOneMessage) {
  ResponseQueue queue({});
  EXPECT_TRUE(queue.empty());
  Accepted accepted;
  accepted.request_id = "r";
  accepted.model = "m";
  accepted.prompt_tokens = {1, 2};
  queue.AddStarted(accepted);
  queue.AddDelta(Delta(0, "ab", {Piece(1, "ab")}));
  queue.AddDelta(Delta(1, "x", {Piece(2, "x")}));
  queue.AddDelta(Delta(0, "cd", {Piece(3, "cd")}));
  queue.AddFinish({.choice = 0, .reason = FinishReason::kStop, .stop_string = "s", .stop_token = {}});
  queue.AddCompleted({});
  EXPECT_GT(queue.output_bytes(), 5);
  const std::vector<v1::GenerateResponse> messages = TakeAll(&queue);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].started().prompt_tokens(), 2);
  EXPECT_EQ(messages[0].started().prompt_token_ids_size(), 0);  // not asked for
  ASSERT_EQ(messages[0].deltas_size(), 2);
  EXPECT_EQ(messages[0].deltas(0).text(), "abcd");
  EXPECT_EQ(messages[0].deltas(0).token_count(), 2);
  EXPECT_EQ(messages[0].deltas(0).tokens_size(), 0);
  EXPECT_EQ(messages[0].deltas(1).text(), "x");
  EXPECT_EQ(messages[0].finished(0).stop_string(), "s");
  EXPECT_TRUE(messages[0].has_completed());
  EXPECT_EQ(queue.output_bytes(), 0);
}

TEST(ResponseQueueTest, IdsOfALongPromptGoOnInTheNextMessages) {
  constexpr std::size_t kLimit = 1000;
  ResponseQueue queue({.prompt_token_ids = true}, kLimit);
  Accepted accepted;
  accepted.request_id = "r";
  accepted.model = "m";
  for (TokenId id = 0; id < 5000; ++id) accepted.prompt_tokens.push_back(2'147'483'647 - id);
  queue.AddStarted(accepted);
  EXPECT_EQ(queue.output_bytes(), 0);  // as long as the client made it
  std::vector<TokenId> ids;
  const std::vector<v1::GenerateResponse> messages = TakeAll(&queue);
  EXPECT_GT(messages.size(), 20u);
  for (const v1::GenerateResponse& message : messages) {
    EXPECT_LE(message.ByteSizeLong(), kLimit + 16);
    ids.insert(ids.end(), message.started().prompt_token_ids().begin(),
               message.started().prompt_token_ids().end());
  }
  EXPECT_EQ(ids, accepted.prompt_tokens);
  EXPECT_EQ(messages[0].started().request_id(), "r");
  EXPECT_EQ(messages[0].started().prompt_tokens(), 5000);
  EXPECT_EQ(messages[1].started().request_id(), "");
}

TEST(ResponseQueueTest, OneLongTextIsCutBetweenCharacters) {
  ResponseQueue queue({}, 64);
  std::string text;
  for (int i = 0; i < 200; ++i) text += "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  queue.AddDelta(Delta(3, text, {Piece(1, "x"), Piece(2, "y")}));
  std::string joined;
  std::int32_t tokens = 0;
  for (const v1::GenerateResponse& message : TakeAll(&queue)) {
    EXPECT_LE(message.ByteSizeLong(), 64u);
    ASSERT_EQ(message.deltas_size(), 1);
    EXPECT_EQ(message.deltas(0).choice(), 3);
    EXPECT_EQ(FindInvalidUtf8(message.deltas(0).text()), std::string::npos);
    joined += message.deltas(0).text();
    tokens += message.deltas(0).token_count();
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(tokens, 2);
}

// What a client puts together, compared with what was put in.
TEST(ResponseQueueTest, AnythingIsSplitAndNothingLost) {
  std::mt19937 random(3);
  const auto below = [&](unsigned bound) { return static_cast<int>(random() % bound); };
  for (int round = 0; round < 200; ++round) {
    const std::size_t limit = 100 + random() % 3000;
    const bool with_tokens = round % 3 != 0;
    const bool with_logprobs = round % 3 == 2;
    ResponseQueue queue({.tokens = with_tokens, .logprobs = with_logprobs}, limit);
    std::map<int, std::string> text;
    std::map<int, std::vector<int>> ids;
    std::map<int, int> counts, tops;
    std::size_t longest_entry = 64;
    std::vector<v1::GenerateResponse> messages;
    for (int event = 0; event < 60; ++event) {
      const int choice = below(4);
      std::vector<TokenPiece> tokens;
      for (int i = below(6); i > 0; --i) {
        TokenPiece piece = Piece(below(1 << 20), std::string(random() % 40, 'b'));
        for (int k = below(5); k > 0; --k)
          piece.top.push_back({.id = below(1 << 20), .bytes = std::string(9, 't'), .logprob = -1});
        std::size_t entry = 64 + piece.bytes.size() + 64 * piece.top.size();
        longest_entry = std::max(longest_entry, entry);
        ids[choice].push_back(piece.id);
        tops[choice] += static_cast<int>(piece.top.size());
        tokens.push_back(std::move(piece));
      }
      std::string piece(random() % (event % 10 == 0 ? 9000 : 30), static_cast<char>('a' + below(26)));
      text[choice] += piece;
      counts[choice] += static_cast<int>(tokens.size());
      queue.AddDelta(Delta(choice, std::move(piece), std::move(tokens)));
      // A writer takes some meanwhile.
      if (below(3) == 0) queue.TakeFirst(&messages.emplace_back());
    }
    for (v1::GenerateResponse& message : TakeAll(&queue)) messages.push_back(std::move(message));
    EXPECT_EQ(queue.output_bytes(), 0);
    for (const v1::GenerateResponse& message : messages) {
      EXPECT_LE(message.ByteSizeLong(), limit + longest_entry);
      for (const v1::TextDelta& delta : message.deltas()) {
        std::string& left = text[delta.choice()];
        ASSERT_TRUE(left.starts_with(delta.text()));
        left.erase(0, delta.text().size());
        counts[delta.choice()] -= delta.token_count();
        EXPECT_EQ(delta.tokens_size(), with_tokens ? delta.token_count() : 0);
        std::vector<int>& left_ids = ids[delta.choice()];
        for (const v1::Token& token : delta.tokens()) {
          ASSERT_EQ(left_ids.front(), token.id());
          left_ids.erase(left_ids.begin());
          tops[delta.choice()] -= token.top_size();
        }
      }
    }
    for (int choice = 0; choice < 4; ++choice) {
      EXPECT_EQ(text[choice], "");
      EXPECT_EQ(counts[choice], 0);
      EXPECT_TRUE(!with_tokens || ids[choice].empty());
      EXPECT_TRUE(!with_logprobs || tops[choice] == 0);
    }
  }
}

TEST(ResponseQueueTest, ManyLongStopStringsAreSplitToo) {
  ResponseQueue queue({}, 4096);
  for (int choice = 0; choice < 100; ++choice) {
    queue.AddFinish({.choice = choice,
                     .reason = FinishReason::kStop,
                     .stop_string = std::string(1024, 's'),
                     .stop_token = {}});
  }
  int finished = 0;
  for (const v1::GenerateResponse& message : TakeAll(&queue)) {
    EXPECT_LE(message.ByteSizeLong(), 4096u);
    finished += message.finished_size();
  }
  EXPECT_EQ(finished, 100);
}

TEST(ResponseQueueTest, ClearingForgetsEverything) {
  ResponseQueue queue({}, 100);
  queue.AddDelta(Delta(0, std::string(1000, 'x')));
  queue.Clear();
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.output_bytes(), 0);
}

}  // namespace
}  // namespace skipjack
