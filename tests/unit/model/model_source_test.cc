#include "model/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skipjack {
namespace {

using ::testing::HasSubstr;

class FixtureModelTest : public ::testing::TestWithParam<std::string> {};

TEST_P(FixtureModelTest, Opens) {
  const auto model = ModelSource::Open(SKIPJACK_FIXTURES "/gguf/llama." + GetParam() + ".gguf");
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const ModelConfig& config = (*model)->config();
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.name, "Skipjack fixture llama");
  EXPECT_EQ(config.vocabulary_rows, 648);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.hidden, 256);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.kv_heads, 1);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.feed_forward, 256);
  EXPECT_EQ(config.context_length, 512);
  EXPECT_FALSE(config.tied_head);
  EXPECT_EQ(config.rope.dimensions, 64);
  EXPECT_EQ(config.rope.base, 500000.0f);
  EXPECT_EQ(config.rope.scaling, RopeScalingKind::kNone);
  EXPECT_EQ(config.KvBytesPerToken(2), 2 * 2 * 2 * 1 * 64);

  const ModelTensors& tensors = (*model)->tensors();
  EXPECT_EQ(tensors.token_embedding.rows(), 648);
  EXPECT_EQ(tensors.output.name, "output.weight");
  ASSERT_EQ(tensors.layers.size(), 2u);
  EXPECT_EQ(tensors.layers[1].key.rows(), 64);
  EXPECT_EQ(tensors.layers[1].key.columns(), 256);
  EXPECT_TRUE(tensors.layers[0].query_bias.empty());
}

INSTANTIATE_TEST_SUITE_P(AllTypes, FixtureModelTest,
                         ::testing::Values("F32", "F16", "Q8_0", "Q4_0", "Q5_1", "Q3_K_M", "Q4_K_M", "Q6_K",
                                           "IQ4_NL"),
                         [](const auto& test) { return test.param; });

TEST(ModelSourceTest, AVocabularyIsNoModel) {
  const auto model = ModelSource::Open(SKIPJACK_FIXTURES "/tokenizers/smollm2_real.vocab.gguf");
  EXPECT_THAT(model.status().message(), HasSubstr("token_embd.weight is missing"));
}

TEST(ModelSourceTest, AMissingFileIsNotFound) {
  const auto model = ModelSource::Open("/nowhere/model.gguf");
  EXPECT_EQ(model.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(model.status().message(), HasSubstr("/nowhere/model.gguf"));
}

}  // namespace
}  // namespace skipjack
