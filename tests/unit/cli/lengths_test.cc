#include "cli/bench/lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace skipjack::cli {
namespace {

constexpr int kDraws = 200'000;

struct Sample {
  std::vector<double> prompts, outputs;
};

Sample Draw(const std::string& name) {
  const Result<LengthSampler> sampler = MakeLengthSampler(name);
  EXPECT_TRUE(sampler.ok()) << sampler.status().ToString();
  Random random(1);
  Sample sample;
  for (int i = 0; i < kDraws; ++i) {
    const Lengths lengths = (*sampler)(random);
    sample.prompts.push_back(lengths.prompt);
    sample.outputs.push_back(lengths.output);
  }
  std::sort(sample.prompts.begin(), sample.prompts.end());
  std::sort(sample.outputs.begin(), sample.outputs.end());
  return sample;
}

double Quantile(const std::vector<double>& sorted, double p) {
  return sorted[static_cast<std::size_t>(p * static_cast<double>(sorted.size() - 1))];
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(Lengths, FollowThePublishedTraces) {
  const Sample conversation = Draw("azure-conv");
  EXPECT_NEAR(Quantile(conversation.prompts, 0.5), 1020, 20);
  EXPECT_NEAR(Quantile(conversation.prompts, 0.9), 2734, 50);
  EXPECT_NEAR(Quantile(conversation.outputs, 0.5), 129, 3);
  EXPECT_NEAR(Quantile(conversation.outputs, 0.95), 451, 5);
  // The traces' means are 1154.7 and 211.1; five quantiles tell them to about a seventh.
  EXPECT_NEAR(Mean(conversation.prompts), 1154.7, 160);
  EXPECT_NEAR(Mean(conversation.outputs), 211.1, 30);

  const Sample code = Draw("azure-code");
  EXPECT_NEAR(Quantile(code.prompts, 0.5), 1469, 40);
  EXPECT_NEAR(Quantile(code.outputs, 0.99), 251, 15);

  const Sample sharegpt = Draw("sharegpt");
  EXPECT_NEAR(Quantile(sharegpt.outputs, 0.5), std::exp(5.5), 5);
}

TEST(Lengths, ZipfFavoursTheShort) {
  const Sample zipf = Draw("zipf");
  // P(1) = 1 / H(2048) = 0.1218...
  const auto ones = std::count(zipf.prompts.begin(), zipf.prompts.end(), 1.0);
  EXPECT_NEAR(static_cast<double>(ones) / kDraws, 0.1218, 0.003);
  EXPECT_LE(zipf.prompts.back(), 2048);
}

TEST(Lengths, TakeFixedAndUniformShapes) {
  const Sample fixed = Draw("fixed:7:9");
  EXPECT_EQ(fixed.prompts.front(), 7);
  EXPECT_EQ(fixed.outputs.back(), 9);
  const Sample uniform = Draw("uniform:32-512:1-128");
  EXPECT_EQ(uniform.prompts.front(), 32);
  EXPECT_EQ(uniform.prompts.back(), 512);
  EXPECT_EQ(uniform.outputs.front(), 1);
  EXPECT_EQ(uniform.outputs.back(), 128);
  EXPECT_NEAR(Mean(uniform.prompts), 272, 2);
}

TEST(Lengths, RefuseWhatTheyDoNotKnow) {
  for (const char* name :
       {"", "nope", "fixed:", "fixed:1", "fixed:0:1", "fixed:1:2:3", "uniform:5-4:1-2", "uniform:1-2"}) {
    EXPECT_FALSE(MakeLengthSampler(name).ok()) << name;
  }
}

TEST(Lengths, GammaHasItsMeanAndVariance) {
  for (const double shape : {0.1, 0.5, 1.0, 4.0}) {
    Random random(2);
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = Gamma(random, shape);
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, shape, 0.02 * std::max(shape, 1.0)) << shape;
    EXPECT_NEAR(squares / kDraws - mean * mean, shape, 0.05 * std::max(shape, 1.0)) << shape;
  }
}

}  // namespace
}  // namespace skipjack::cli
