#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "skipjack/skipjack.h"

namespace skipjack::embed {
namespace {

const std::string kModel = std::string(SKIPJACK_FIXTURES) + "/gguf/llama.F32.gguf";

LoadOptions Options() {
  LoadOptions options;
  options.path = kModel;
  options.compute = "f32";
  options.threads = 1;
  options.max_sequences = 4;
  return options;
}

std::unique_ptr<Model> MustLoad() {
  Error error;
  auto model = Model::Load(Options(), &error);
  EXPECT_TRUE(model) << error.message;
  return model;
}

Request Greedy(std::vector<std::int32_t> tokens, int max_tokens) {
  Request request;
  request.tokens = std::move(tokens);
  request.sampling.temperature = 0.0f;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

struct Golden {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> generated;
};

// Greedy continuations computed by an independent program (tests/fixtures/README.md).
std::vector<Golden> Goldens() {
  std::ifstream file(std::string(SKIPJACK_FIXTURES) + "/goldens/llama.F32.gguf.json");
  const nlohmann::json json = nlohmann::json::parse(file);
  std::vector<Golden> goldens;
  for (const auto& entry : json.at("prompts")) {
    goldens.push_back({entry.at("ids").get<std::vector<std::int32_t>>(),
                       entry.at("greedy").at("ids").get<std::vector<std::int32_t>>()});
  }
  return goldens;
}

TEST(EmbedTest, GeneratesWhatTheModelSays) {
  const auto model = MustLoad();
  const std::vector<Golden> goldens = Goldens();
  ASSERT_FALSE(goldens.empty());
  for (const Golden& golden : goldens) {
    const Completion completion =
        model->Generate(Greedy(golden.prompt, static_cast<int>(golden.generated.size())));
    EXPECT_FALSE(completion.error) << completion.error.message;
    EXPECT_EQ(completion.reason, FinishReason::kLength);
    EXPECT_EQ(completion.tokens, golden.generated);
    EXPECT_EQ(completion.prompt_tokens, static_cast<int>(golden.prompt.size()));
    EXPECT_EQ(completion.generated_tokens, static_cast<int>(golden.generated.size()));
  }
}

TEST(EmbedTest, PiecesJoinToTheText) {
  const auto model = MustLoad();
  std::string text;
  std::vector<std::int32_t> tokens;
  const Completion completion = model->Generate(Greedy(Goldens()[0].prompt, 30), [&](const Piece& piece) {
    text += piece.text;
    tokens.insert(tokens.end(), piece.tokens.begin(), piece.tokens.end());
    return true;
  });
  EXPECT_EQ(completion.text, text);
  EXPECT_EQ(completion.tokens, tokens);
  EXPECT_EQ(model->Detokenize(tokens), text);
}

TEST(EmbedTest, PromptsAndMessages) {
  const auto model = MustLoad();
  Request prompt;
  prompt.prompt = "Hello there";
  prompt.sampling.temperature = 0.0f;
  prompt.sampling.max_tokens = 8;
  const Completion from_text = model->Generate(prompt);
  EXPECT_FALSE(from_text.error) << from_text.error.message;
  Error error;
  const auto tokens = model->Tokenize("Hello there", &error);
  ASSERT_TRUE(tokens) << error.message;
  Request ids = prompt;
  ids.prompt.clear();
  ids.tokens = *tokens;
  EXPECT_EQ(model->Generate(ids).tokens, from_text.tokens);

  Request chat;
  chat.messages = {{"user", "Hello there"}};
  chat.sampling = prompt.sampling;
  const Completion answer = model->Generate(chat);
  EXPECT_EQ(static_cast<bool>(answer.error), !model->info().has_chat_template) << answer.error.message;
}

TEST(EmbedTest, SeedsRepeatAndDiffer) {
  const auto model = MustLoad();
  Request request = Greedy({1, 2, 3}, 30);
  request.sampling.temperature = 1.0f;
  request.sampling.seed = 5;
  const Completion first = model->Generate(request);
  EXPECT_EQ(model->Generate(request).tokens, first.tokens);
  request.sampling.seed = 6;
  EXPECT_NE(model->Generate(request).tokens, first.tokens);
}

TEST(EmbedTest, StopStringsEndTheOutput) {
  const auto model = MustLoad();
  const Completion whole = model->Generate(Greedy(Goldens()[0].prompt, 30));
  ASSERT_GT(whole.text.size(), 8u);
  Request request = Greedy(Goldens()[0].prompt, 30);
  request.sampling.stop = {whole.text.substr(4, 4)};
  const Completion stopped = model->Generate(request);
  EXPECT_EQ(stopped.reason, FinishReason::kStop);
  EXPECT_EQ(stopped.stop_string, request.sampling.stop[0]);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(request.sampling.stop[0])));
}

TEST(EmbedTest, ManyThreadsShareAModel) {
  const auto model = MustLoad();
  const std::vector<Golden> goldens = Goldens();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (const Golden& golden : goldens) {
    threads.emplace_back([&] {
      const int count = static_cast<int>(golden.generated.size());
      if (model->Generate(Greedy(golden.prompt, count)).tokens == golden.generated) ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, static_cast<int>(goldens.size()));
}

TEST(EmbedTest, CancelAndCallbackEndAGeneration) {
  const auto model = MustLoad();
  const Completion from_callback =
      model->Generate(Greedy({1, 2, 3}, 100), [](const Piece&) { return false; });
  EXPECT_EQ(from_callback.error.code, 1);
  EXPECT_LT(from_callback.generated_tokens, 100);
  Error error;
  const auto generation = model->Start(Greedy({1, 2, 3}, 100), &error);
  ASSERT_TRUE(generation) << error.message;
  generation->Cancel();
  generation->Cancel();
  const Completion cancelled = generation->Finish();
  EXPECT_EQ(cancelled.reason, FinishReason::kFailed);
  EXPECT_EQ(cancelled.error.code, 1);
  generation->Cancel();
  EXPECT_EQ(generation->Finish().error.code, 1);
}

// Neither the model nor the generation has to outlive the other.
TEST(EmbedTest, LifetimesInAnyOrder) {
  auto model = MustLoad();
  auto kept = model->Start(Greedy(Goldens()[0].prompt, 20), nullptr);
  auto dropped = model->Start(Greedy({1, 2, 3}, 100), nullptr);
  ASSERT_TRUE(kept && dropped);
  dropped.reset();
  model.reset();
  const Completion completion = kept->Finish();
  EXPECT_FALSE(completion.error) << completion.error.message;
  EXPECT_EQ(completion.generated_tokens, 20);
}

TEST(EmbedTest, ErrorsSayWhatIsWrong) {
  Error error;
  LoadOptions options = Options();
  options.path = "/nowhere/model.gguf";
  EXPECT_FALSE(Model::Load(options, &error));
  EXPECT_NE(error.message.find("/nowhere/model.gguf"), std::string::npos) << error.message;
  options = Options();
  options.max_sequences = 0;
  EXPECT_FALSE(Model::Load(options, &error));
  EXPECT_EQ(error.message, "max_sequences must lie in [1, 4096], got 0");
  options = Options();
  options.max_batch_tokens = 3;  // of 4 sequences
  EXPECT_FALSE(Model::Load(options, &error));
  EXPECT_NE(error.message.find("max_batch_tokens (3) must be at least max_sequences (4)"), std::string::npos)
      << error.message;

  const auto model = MustLoad();
  const auto refusal = [&](const Request& request) { return model->Generate(request).error; };
  EXPECT_EQ(refusal({}).message, "exactly one of prompt, tokens and messages must be given, got 0");
  EXPECT_EQ(refusal(Greedy({-1}, 5)).code, 3);
  Request request = Greedy({1}, 5);
  request.sampling.top_p = 7;
  EXPECT_EQ(refusal(request).message, "top_p must lie in (0, 1], got 7");
  request = Greedy({1}, 1 << 24);
  EXPECT_NE(refusal(request).message.find("context length"), std::string::npos);
  request = Greedy({1}, -1);
  EXPECT_EQ(refusal(request).code, 3);
  request = Greedy({1}, 5);
  request.timeout_seconds = -1;
  EXPECT_EQ(refusal(request).code, 3);
  request.timeout_seconds = 1e-9;
  EXPECT_EQ(refusal(request).code, 4);
}

}  // namespace
}  // namespace skipjack::embed
