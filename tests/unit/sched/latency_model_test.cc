#include "sched/latency_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace skipjack {
namespace {

// 18 ms a step, 0.12 ms a decoder, 0.6 us a position, 0.13 ms a prompt token, 4 ns a pair.
constexpr LatencyCoefficients kTrue = {0.018, 0.00012, 6e-7, 0.00013, 4e-9};

Duration Take(const StepLoad& load, double factor = 1) {
  return FromSeconds(factor *
                     (kTrue.step + kTrue.decoder * load.decoders + kTrue.context * load.context +
                      kTrue.prompt_token * load.prompt_tokens + kTrue.prompt_pair * load.prompt_pairs));
}

StepLoad RandomLoad(std::mt19937_64* random, bool prompts) {
  const auto below = [random](std::uint64_t n) { return static_cast<double>((*random)() % n); };
  StepLoad load;
  load.decoders = below(32);
  load.context = load.decoders * (100 + below(900));
  if (prompts && (*random)() % 3 == 0) {
    load.prompt_tokens = 1 + below(512);
    load.prompt_pairs = load.prompt_tokens * (below(1000) + load.prompt_tokens / 2);
  }
  return load;
}

void ExpectNear(const LatencyModel& model, double part) {
  std::mt19937_64 random(99);
  for (int i = 0; i < 50; ++i) {
    const StepLoad load = RandomLoad(&random, true);
    EXPECT_NEAR(model.StepSeconds(load), ToSeconds(Take(load)), part * ToSeconds(Take(load)));
  }
}

TEST(LatencyModel, KnowsNothingAtFirst) {
  const LatencyModel model;
  EXPECT_FALSE(model.fitted());
  EXPECT_EQ(model.PrefillSeconds(1000), 0);
  EXPECT_EQ(model.iteration(), LatencyModel::kAssumedIteration);
}

TEST(LatencyModel, FindsTheCoefficientsOfExactSteps) {
  std::mt19937_64 random(1);
  LatencyModel model;
  for (int i = 0; i < 500; ++i) {
    const StepLoad load = RandomLoad(&random, true);
    model.Observe(load, Take(load));
  }
  ASSERT_TRUE(model.fitted());
  ExpectNear(model, 0.01);
  EXPECT_NEAR(model.coefficients().step, kTrue.step, 0.02 * kTrue.step);
  EXPECT_NEAR(model.PrefillSeconds(400),
              kTrue.step + 400 * kTrue.prompt_token + 400 * 401 / 2 * kTrue.prompt_pair, 0.002);
}

TEST(LatencyModel, NoiseAveragesOut) {
  std::mt19937_64 random(2);
  LatencyModel model;
  for (int i = 0; i < 4000; ++i) {
    const StepLoad load = RandomLoad(&random, true);
    model.Observe(load, Take(load, 0.8 + 0.4 * static_cast<double>(random() % 1000) / 1000));
  }
  ExpectNear(model, 0.05);
}

// For an hour everybody decodes. What a prompt takes is still known.
TEST(LatencyModel, KeepsWhatRecentStepsSayNothingAbout) {
  std::mt19937_64 random(3);
  LatencyModel model;
  for (int i = 0; i < 500; ++i) {
    const StepLoad load = RandomLoad(&random, true);
    model.Observe(load, Take(load));
  }
  for (int i = 0; i < 100000; ++i) {
    const StepLoad load = RandomLoad(&random, false);
    model.Observe(load, Take(load));
  }
  EXPECT_NEAR(model.PrefillSeconds(500), 0.018 + 500 * 0.00013 + 0.0005, 0.1 * 0.083);
}

TEST(LatencyModel, FollowsAMachineThatBecomesSlower) {
  std::mt19937_64 random(4);
  LatencyModel model;
  for (int i = 0; i < 3000; ++i) {
    const StepLoad load = RandomLoad(&random, true);
    model.Observe(load, Take(load));
  }
  const Duration before = model.iteration();
  for (int i = 0; i < 30000; ++i) {
    const StepLoad load = RandomLoad(&random, true);
    model.Observe(load, Take(load, 2));
  }
  EXPECT_NEAR(model.coefficients().step, 0.036, 0.003);
  EXPECT_GT(model.iteration(), before * 3 / 2);
}

TEST(LatencyModel, QuantaStandStillUnderSmallChanges) {
  LatencyModel model;
  for (int i = 0; i < 100; ++i) model.Observe({.decoders = 1}, FromSeconds(0.020));
  const Duration quantum = model.iteration();
  EXPECT_NEAR(ToSeconds(quantum), 0.020, 0.0005);
  for (int i = 0; i < 5000; ++i) model.Observe({.decoders = 1}, FromSeconds(0.022));
  EXPECT_EQ(model.iteration(), quantum);
}

TEST(LatencyModel, CoefficientsAreNeverNegative) {
  std::mt19937_64 random(5);
  LatencyModel model;
  for (int i = 0; i < 2000; ++i) {  // durations that have nothing to do with the load
    model.Observe(RandomLoad(&random, true), Duration(1 + static_cast<std::int64_t>(random() % 100000000)));
    const LatencyCoefficients& c = model.coefficients();
    for (const double value : {c.step, c.decoder, c.context, c.prompt_token, c.prompt_pair}) {
      ASSERT_GE(value, 0);
      ASSERT_TRUE(std::isfinite(value));
    }
  }
  model.Observe({}, Duration(-5));
  model.Observe({}, Duration(0));
}

TEST(LatencyModel, TheLongestChunkWithinATimeIsExact) {
  const LatencyModel model(kTrue);
  for (const std::int32_t position : {0, 100, 5000}) {
    for (const double seconds : {0.0001, 0.001, 0.01, 0.05}) {
      const std::int32_t chunk = model.ChunkWithin(seconds, position, 4096);
      EXPECT_LE(model.ChunkSeconds(chunk, position), seconds);
      EXPECT_GT(model.ChunkSeconds(chunk + 1, position), seconds);
    }
    EXPECT_EQ(model.ChunkWithin(-1, position, 10), 0);
    EXPECT_EQ(model.ChunkWithin(100, position, 10), 10);
  }
}

TEST(LatencyModel, StartsFromWhatWasLearntBefore) {
  const LatencyModel model(kTrue);
  EXPECT_TRUE(model.fitted());
  EXPECT_EQ(model.coefficients(), kTrue);
  EXPECT_NEAR(ToSeconds(model.iteration()), 0.01812, 1e-8);
}

// What copies between tiers take says nothing about computing.
TEST(LatencyModel, StepsThatComputeNothingTeachNothing) {
  LatencyModel model;
  for (int i = 0; i < 100; ++i) model.Observe({}, std::chrono::seconds(1));
  EXPECT_FALSE(model.fitted());
  for (int i = 0; i < 100; ++i) {
    model.Observe({.decoders = 1, .context = 10}, std::chrono::milliseconds(10));
    model.Observe({}, std::chrono::seconds(1));
  }
  EXPECT_NEAR(model.StepSeconds({.decoders = 1, .context = 10}), 0.01, 1e-3);
}

}  // namespace
}  // namespace skipjack
