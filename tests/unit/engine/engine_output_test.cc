// What a sequence generates depends on its prompt, parameters and seed, whatever happens around it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/engine/engine_harness.h"

namespace skipjack::testing {
namespace {

using Sinks = std::vector<std::shared_ptr<RecordingSink>>;

std::shared_ptr<RecordingSink> Submit(Engine& engine, SequenceRequest request) {
  auto sink = std::make_shared<RecordingSink>();
  const Result<SequenceId> id = engine.Submit(std::move(request), sink);
  EXPECT_TRUE(id.ok()) << id.status().ToString();
  return sink;
}

TEST(EngineOutputTest, OneSequenceFollowsTheModel) {
  const auto engine = MakeEngine({});
  const std::vector<TokenId> prompt = Prompt(5, 1);
  const auto sink = Submit(*engine, Request(prompt, 20));
  const FinishEvent finish = sink->Wait();
  EXPECT_EQ(finish.reason, FinishReason::kLength);
  EXPECT_TRUE(finish.status.ok());
  EXPECT_EQ(finish.prompt_tokens, 5);
  EXPECT_EQ(finish.generated_tokens, 20);
  EXPECT_EQ(sink->tokens(), Reference(prompt, 20));
  EXPECT_FALSE(sink->disordered());
  ExpectAllGivenBack(*engine);
}

TEST(EngineOutputTest, ManySequencesOfAllLengthsTogether) {
  const auto engine = MakeEngine({});
  Sinks sinks;
  std::vector<std::vector<TokenId>> prompts;
  for (unsigned i = 0; i < 40; ++i) {
    prompts.push_back(Prompt(1 + i * 2, i));
    sinks.push_back(Submit(*engine, Request(prompts.back(), static_cast<std::int32_t>(1 + i % 17))));
  }
  for (unsigned i = 0; i < 40; ++i) {
    EXPECT_EQ(sinks[i]->Wait().reason, FinishReason::kLength);
    EXPECT_EQ(sinks[i]->tokens(), Reference(prompts[i], static_cast<std::int32_t>(1 + i % 17))) << i;
  }
  ExpectAllGivenBack(*engine);
  const EngineStats stats = engine->Stats();
  EXPECT_EQ(stats.finished_length, 40u);
  EXPECT_EQ(stats.rejected, 0u);
  std::uint64_t prompt_tokens = 0;
  for (const auto& prompt : prompts) prompt_tokens += prompt.size();
  EXPECT_EQ(stats.prompt_tokens, prompt_tokens);
}

TEST(EngineOutputTest, ChunkedPrompts) {
  EngineSetup setup;
  setup.scheduler.max_batch_tokens = 7;
  setup.scheduler.max_sequences = 3;
  const auto engine = MakeEngine(setup);
  Sinks sinks;
  for (unsigned i = 0; i < 6; ++i) sinks.push_back(Submit(*engine, Request(Prompt(60 + i, i), 10)));
  for (unsigned i = 0; i < 6; ++i) {
    sinks[i]->Wait();
    EXPECT_EQ(sinks[i]->tokens(), Reference(Prompt(60 + i, i), 10));
  }
  ExpectAllGivenBack(*engine);
}

TEST(EngineOutputTest, PrefixHitsChangeNothing) {
  const auto engine = MakeEngine({});
  const std::vector<TokenId> prompt = Prompt(41, 3);
  std::vector<TokenId> longer = prompt;
  longer.insert(longer.end(), {7, 8, 9});
  const auto cold = Submit(*engine, Request(prompt, 8));
  EXPECT_EQ(cold->Wait().timings.cached_tokens, 0);
  const auto warm = Submit(*engine, Request(prompt, 8));
  EXPECT_EQ(warm->Wait().timings.cached_tokens, 40);
  EXPECT_EQ(warm->tokens(), cold->tokens());
  EXPECT_EQ(warm->tokens(), Reference(prompt, 8));
  const auto extended = Submit(*engine, Request(longer, 8));
  EXPECT_EQ(extended->Wait().timings.cached_tokens, 40);
  EXPECT_EQ(extended->tokens(), Reference(longer, 8));
  // Another tenant's salt sees nothing of it.
  SequenceRequest other = Request(prompt, 8);
  other.cache_salt = "other";
  const auto salted = Submit(*engine, std::move(other));
  EXPECT_EQ(salted->Wait().timings.cached_tokens, 0);
  EXPECT_EQ(salted->tokens(), cold->tokens());
}

TEST(EngineOutputTest, PreemptionUnderATinyPool) {
  EngineSetup setup;
  setup.scheduler.kv_blocks = 12;  // 48 tokens for six sequences of 36 each
  setup.scheduler.prefix_cache = false;
  const auto engine = MakeEngine(setup);
  Sinks sinks;
  for (unsigned i = 0; i < 6; ++i) sinks.push_back(Submit(*engine, Request(Prompt(6, i), 30)));
  std::int32_t preemptions = 0;
  for (unsigned i = 0; i < 6; ++i) {
    preemptions += sinks[i]->Wait().timings.preemptions;
    EXPECT_EQ(sinks[i]->tokens(), Reference(Prompt(6, i), 30));
    EXPECT_FALSE(sinks[i]->disordered());
  }
  EXPECT_GT(preemptions, 0);
  EXPECT_EQ(engine->Stats().scheduler.preemptions, static_cast<std::uint64_t>(preemptions));
  ExpectAllGivenBack(*engine);
}

SequenceRequest SampledRequest(unsigned seed) {
  SequenceRequest request = Request(Prompt(9, seed), 40);
  request.sampling.temperature = 1.3f;
  request.sampling.top_p = 0.9f;
  request.sampling.repetition_penalty = 1.2f;
  request.sampling.seed = seed;
  return request;
}

// Sampling with penalties, so that both the random numbers and the history must survive whatever happens.
TEST(EngineOutputTest, SampledOutputDoesNotDependOnNeighboursChunksOrPreemption) {
  std::vector<std::vector<TokenId>> alone;
  const auto roomy = MakeEngine({});
  for (unsigned i = 0; i < 8; ++i) {
    const auto sink = Submit(*roomy, SampledRequest(i));
    sink->Wait();
    alone.push_back(sink->tokens());
  }
  EXPECT_NE(alone[0], Reference(Prompt(9, 0), 40));
  EngineSetup setup;
  setup.scheduler.kv_blocks = 20;
  setup.scheduler.max_batch_tokens = 9;
  const auto crowded = MakeEngine(setup);
  Sinks sinks;
  for (unsigned i = 0; i < 8; ++i) sinks.push_back(Submit(*crowded, SampledRequest(i)));
  for (unsigned i = 0; i < 8; ++i) {
    sinks[i]->Wait();
    EXPECT_EQ(sinks[i]->tokens(), alone[i]);
  }
  EXPECT_GT(crowded->Stats().scheduler.preemptions, 0u);
}

TEST(EngineOutputTest, LogprobsComeWithTheTokens) {
  const auto engine = MakeEngine({});
  SequenceRequest request = Request(Prompt(3, 1), 4);
  request.sampling.top_logprobs = 3;
  const auto sink = Submit(*engine, std::move(request));
  sink->Wait();
  for (const TokenEvent& event : sink->events()) {
    ASSERT_EQ(event.token.top.size(), 3u);
    EXPECT_EQ(event.token.top[0].token, event.token.token);
    EXPECT_EQ(event.token.top[0].logprob, event.token.logprob);
    EXPECT_LT(event.token.logprob, 0.0f);
    EXPECT_GE(event.token.top[1].logprob, event.token.top[2].logprob);
  }
}

TEST(EngineOutputTest, PaddedRowsAreNeverChosen) {
  EngineSetup setup;
  setup.max_sampled_id = 100;
  const auto engine = MakeEngine(setup);
  SequenceRequest request = Request(Prompt(3, 1), 100);
  request.sampling.temperature = 5.0f;
  const auto sink = Submit(*engine, std::move(request));
  EXPECT_EQ(sink->Wait().generated_tokens, 100);
  const std::vector<TokenId> tokens = sink->tokens();
  EXPECT_LT(*std::max_element(tokens.begin(), tokens.end()), 100);
}

}  // namespace
}  // namespace skipjack::testing
