#include "model/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/model/gguf_builder.h"

namespace skipjack {
namespace {

using gguf::GgufBuilder;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A model with the bytes it points into.
struct Loaded {
  explicit Loaded(const GgufBuilder& builder) : bytes(gguf::HeapBytes(builder.Build())), model(Open(bytes)) {}

  static Result<std::shared_ptr<const ModelSource>> Open(std::span<const std::byte> bytes) {
    Result<std::unique_ptr<GgufFile>> file = GgufFile::Parse(bytes);
    if (!file.ok()) return file.status();
    return ModelSource::FromFile(*std::move(file));
  }
  const ModelSource* operator->() const { return model->get(); }
  std::string error() const { return model.status().message(); }

  std::vector<std::byte> bytes;
  Result<std::shared_ptr<const ModelSource>> model;
};

// The tiny llama after `change`.
Loaded Changed(const std::function<void(GgufBuilder&)>& change) {
  GgufBuilder builder = gguf::TinyLlama();
  change(builder);
  return Loaded(builder);
}

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

TEST(LlamaTest, TheSmallestStatementOfAModel) {
  const Loaded model(gguf::TinyLlama());
  ASSERT_TRUE(model.model.ok()) << model.error();
  const ModelConfig& config = model->config();
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.rope.dimensions, 4);
  EXPECT_EQ(config.rope.base, 10000.0f);
  EXPECT_EQ(config.rope.style, RopeStyle::kInterleaved);
  EXPECT_EQ(config.rope.original_context, 64);
  EXPECT_EQ(config.vocabulary_rows, 10);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-5f);
  EXPECT_TRUE(model->tensors().rope_factors.empty());
}

TEST(LlamaTest, EveryTensorLandsInItsPlace) {
  const Loaded model = Changed([](GgufBuilder& b) {
    b.Tensor("blk.1.attn_q.bias", {16}).Tensor("blk.1.attn_k.bias", {8}).Tensor("blk.1.attn_v.bias", {8});
    b.Tensor("blk.1.attn_output.bias", {16}).Tensor("rope_freqs.weight", {2});
  });
  ASSERT_TRUE(model.model.ok()) << model.error();
  const ModelTensors& tensors = model->tensors();
  EXPECT_EQ(tensors.token_embedding.name, "token_embd.weight");
  EXPECT_EQ(tensors.output_norm.name, "output_norm.weight");
  EXPECT_EQ(tensors.output.name, "output.weight");
  EXPECT_EQ(tensors.rope_factors.name, "rope_freqs.weight");
  const LayerTensors& layer = tensors.layers[1];
  const std::vector<std::pair<const TensorView*, std::string>> places{
      {&layer.attention_norm, "attn_norm.weight"},
      {&layer.query, "attn_q.weight"},
      {&layer.key, "attn_k.weight"},
      {&layer.value, "attn_v.weight"},
      {&layer.attention_output, "attn_output.weight"},
      {&layer.query_bias, "attn_q.bias"},
      {&layer.key_bias, "attn_k.bias"},
      {&layer.value_bias, "attn_v.bias"},
      {&layer.attention_output_bias, "attn_output.bias"},
      {&layer.feed_forward_norm, "ffn_norm.weight"},
      {&layer.gate, "ffn_gate.weight"},
      {&layer.up, "ffn_up.weight"},
      {&layer.down, "ffn_down.weight"},
  };
  for (const auto& [view, name] : places) EXPECT_EQ(view->name, "blk.1." + name);
  EXPECT_TRUE(tensors.layers[0].query_bias.empty());
}

TEST(LlamaTest, ATiedHeadIsTheEmbedding) {
  const Loaded model = Changed([](GgufBuilder& b) { b.RemoveTensor("output.weight"); });
  ASSERT_TRUE(model.model.ok()) << model.error();
  EXPECT_TRUE(model->config().tied_head);
  EXPECT_EQ(model->tensors().output.data.data(), model->tensors().token_embedding.data.data());
}

TEST(LlamaTest, EveryTensorIsNeeded) {
  GgufBuilder tiny = gguf::TinyLlama();
  for (const gguf::BuilderTensor& tensor : tiny.tensors()) {
    if (tensor.name == "output.weight") continue;  // a tied head then
    const Loaded model = Changed([&](GgufBuilder& b) { b.RemoveTensor(tensor.name); });
    EXPECT_THAT(model.error(), HasSubstr("tensor " + tensor.name + " is missing"));
  }
}

TEST(LlamaTest, EveryShapeIsChecked) {
  GgufBuilder tiny = gguf::TinyLlama();
  for (const gguf::BuilderTensor& tensor : tiny.tensors()) {
    std::vector<std::uint64_t> shape = tensor.shape;
    shape.back() += 1;
    const Loaded model =
        Changed([&](GgufBuilder& b) { b.RemoveTensor(tensor.name).Tensor(tensor.name, shape); });
    if (tensor.name == "token_embd.weight") {
      EXPECT_THAT(model.error(), HasSubstr("output.weight has the shape [16, 10], expected [16, 11]"));
    } else {
      EXPECT_THAT(model.error(),
                  AllOf(HasSubstr("tensor " + tensor.name + " has the shape"), HasSubstr("expected")));
    }
  }
  const Loaded deep = Changed([](GgufBuilder& b) {
    b.RemoveTensor("output_norm.weight").Tensor("output_norm.weight", {16, 1, 1, 2});
  });
  EXPECT_THAT(deep.error(), HasSubstr("[16, 1, 1, 2], expected [16]"));
}

TEST(LlamaTest, WhatIsLeftOverIsRefused) {
  for (const char* name :
       {"blk.2.attn_norm.weight", "blk.0.ffn_up.bias", "blk.0.attn_q_norm.weight", "surprise"}) {
    const Loaded model = Changed([&](GgufBuilder& b) { b.Tensor(name, {1}); });
    EXPECT_THAT(model.error(), HasSubstr("'" + std::string(name) + "' is none that this architecture has"));
  }
}

TEST(LlamaTest, TypesWeCannotDecodeAreRefusedByName) {
  const Loaded model = Changed([](GgufBuilder& b) {
    gguf::BuilderTensor* tensor = b.FindTensor("output_norm.weight");
    tensor->type = 26;  // I32
  });
  EXPECT_EQ(model.model.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(model.error(), AllOf(HasSubstr("output_norm.weight has the number type I32"), HasSubstr("Q4_K"),
                                   ::testing::Not(HasSubstr("IQ2_XXS"))));
}

TEST(LlamaTest, RequiredKeys) {
  for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length",
                          "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    const Loaded model = Changed([&](GgufBuilder& b) { b.Remove(std::string("llama.") + key); });
    EXPECT_THAT(model.error(), AllOf(HasSubstr(key), HasSubstr("is missing"))) << key;
  }
}

TEST(LlamaTest, IntegersOutsideTheirRange) {
  for (const char* key :
       {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
        "attention.head_count_kv", "attention.key_length", "attention.value_length", "rope.dimension_count",
        "vocab_size", "rope.scaling.original_context_length"}) {
    const std::string full = std::string("llama.") + key;
    for (const std::uint32_t value : {0u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
      const Loaded model = Changed([&](GgufBuilder& b) { b.U32(full, value); });
      EXPECT_THAT(model.error(), HasSubstr(full + " is " + std::to_string(value))) << key;
    }
    const Loaded negative = Changed([&](GgufBuilder& b) { b.I32(full, -1); });
    EXPECT_THAT(negative.error(), HasSubstr(full + " is -1")) << key;
    const Loaded text = Changed([&](GgufBuilder& b) { b.String(full, "4"); });
    EXPECT_THAT(text.error(), HasSubstr(full)) << key;
    const Loaded real = Changed([&](GgufBuilder& b) { b.F32(full, 4.0f); });
    EXPECT_THAT(real.error(), HasSubstr(full)) << key;
  }
}

TEST(LlamaTest, NumbersOutsideTheirRange) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const char* key : {"attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.factor"}) {
    const std::string full = std::string("llama.") + key;
    for (const float value : {0.0f, -1.0f, kInfinity, -kInfinity, std::nanf("")}) {
      const Loaded model = Changed([&](GgufBuilder& b) { b.F32(full, value); });
      EXPECT_THAT(model.error(), HasSubstr(full + " is ")) << key << value;
    }
  }
}

TEST(LlamaTest, HeadsMustFit) {
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.U32("llama.attention.head_count_kv", 3); }).error(),
              HasSubstr("head_count 4 is no multiple of llama.attention.head_count_kv 3"));
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.U32("llama.attention.head_count", 6); }).error(),
              HasSubstr("embedding_length 16 over llama.attention.head_count 6"));
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.U32("llama.attention.value_length", 8); }).error(),
              HasSubstr("value_length 8 differs from the key's 4"));
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.U32("llama.rope.dimension_count", 3); }).error(),
              HasSubstr("rope.dimension_count is 3"));
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.U32("llama.rope.dimension_count", 6); }).error(),
              HasSubstr("rope.dimension_count is 6, not an even number up to the head size 4"));
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.U32("llama.attention.key_length", 5); }).error(),
              HasSubstr("rope"));
}

TEST(LlamaTest, AHeadSizeOfItsOwn) {
  const Loaded model = Changed([](GgufBuilder& b) {
    b.U32("llama.attention.key_length", 6)
        .U32("llama.attention.value_length", 6)
        .U32("llama.rope.dimension_count", 4);
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      for (const std::string name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
        b.RemoveTensor(layer + name + ".weight");
      }
      b.Tensor(layer + "attn_q.weight", {16, 24}).Tensor(layer + "attn_k.weight", {16, 12});
      b.Tensor(layer + "attn_v.weight", {16, 12}).Tensor(layer + "attn_output.weight", {24, 16});
    }
  });
  ASSERT_TRUE(model.model.ok()) << model.error();
  EXPECT_EQ(model->config().head_dim, 6);
  EXPECT_EQ(model->config().rope.dimensions, 4);
}

TEST(LlamaTest, HeadCountsPerLayer) {
  EXPECT_TRUE(Changed([](GgufBuilder& b) {
                b.Array<std::int32_t>("llama.attention.head_count", gguf::kI32, {4, 4});
                b.Array<std::uint32_t>("llama.attention.head_count_kv", gguf::kU32, {2, 2});
              }).model.ok());
  EXPECT_THAT(Changed([](GgufBuilder& b) {
                b.Array<std::uint32_t>("llama.attention.head_count_kv", gguf::kU32, {2, 1});
              }).error(),
              HasSubstr("same integer for each of the 2 layers"));
  EXPECT_FALSE(Changed([](GgufBuilder& b) {
                 b.Array<std::uint32_t>("llama.attention.head_count", gguf::kU32, {4, 4, 4});
               }).model.ok());
  EXPECT_FALSE(Changed([](GgufBuilder& b) {
                 b.Array<std::uint32_t>("llama.attention.head_count", gguf::kU32, {});
               }).model.ok());
}

TEST(LlamaTest, RopeScaling) {
  const Loaded linear = Changed([](GgufBuilder& b) {
    b.String("llama.rope.scaling.type", "linear").F32("llama.rope.scaling.factor", 4.0f);
  });
  ASSERT_TRUE(linear.model.ok()) << linear.error();
  EXPECT_EQ(linear->config().rope.scaling, RopeScalingKind::kLinear);
  EXPECT_EQ(linear->config().rope.factor, 4.0f);

  const Loaded old = Changed([](GgufBuilder& b) { b.F32("llama.rope.scale_linear", 2.0f); });
  ASSERT_TRUE(old.model.ok()) << old.error();
  EXPECT_EQ(old->config().rope.scaling, RopeScalingKind::kLinear);
  EXPECT_EQ(old->config().rope.factor, 2.0f);

  const Loaded none = Changed([](GgufBuilder& b) {
    b.String("llama.rope.scaling.type", "none").F32("llama.rope.scaling.factor", 4.0f);
  });
  ASSERT_TRUE(none.model.ok()) << none.error();
  EXPECT_EQ(none->config().rope.scaling, RopeScalingKind::kNone);

  const Loaded yarn = Changed([](GgufBuilder& b) {
    b.String("llama.rope.scaling.type", "yarn").F32("llama.rope.scaling.factor", 8.0f);
    b.U32("llama.rope.scaling.original_context_length", 16).Flag("llama.rope.scaling.finetuned", true);
    b.F32("llama.rope.scaling.attn_factor", 0.5f).F32("llama.rope.scaling.yarn_beta_fast", 16.0f);
  });
  ASSERT_TRUE(yarn.model.ok()) << yarn.error();
  EXPECT_EQ(yarn->config().rope.scaling, RopeScalingKind::kYarn);
  EXPECT_EQ(yarn->config().rope.original_context, 16);
  EXPECT_EQ(yarn->config().rope.yarn_attention_factor, 0.5f);
  EXPECT_EQ(yarn->config().rope.yarn_beta_fast, 16.0f);
  EXPECT_EQ(yarn->config().rope.yarn_beta_slow, 1.0f);

  EXPECT_THAT(Changed([](GgufBuilder& b) { b.String("llama.rope.scaling.type", "longrope"); }).error(),
              HasSubstr("'longrope'"));
  EXPECT_THAT(Changed([](GgufBuilder& b) {
                b.F32("llama.rope.scaling.factor", 4.0f).F32("llama.rope.scale_linear", 2.0f);
              }).error(),
              HasSubstr("differ"));
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.F32("llama.rope.scaling.attn_factor", 2.0f); }).error(),
              HasSubstr("attention factor"));
}

TEST(LlamaTest, RopeDivisorsMustBePositive) {
  const auto with = [](const std::vector<float>& values) {
    return Changed([&](GgufBuilder& b) {
      b.Add({"rope_freqs.weight",
             {values.size()},
             0,
             gguf::Raw(values.data(), values.size() * sizeof(float)),
             -1});
    });
  };
  EXPECT_TRUE(with({1.0f, 8.0f}).model.ok());
  for (const float bad : {0.0f, -1.0f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    EXPECT_THAT(with({1.0f, bad}).error(), HasSubstr("rope_freqs.weight holds"));
  }
  EXPECT_THAT(with({1.0f}).error(), HasSubstr("rope_freqs.weight has the shape [1], expected [2]"));
}

TEST(LlamaTest, FeaturesWeLackAreRefusedAndTheirAbsenceIsNot) {
  const Loaded off = Changed([](GgufBuilder& b) {
    b.U32("llama.expert_count", 0)
        .Flag("llama.attention.causal", true)
        .U32("llama.attention.sliding_window", 0);
    b.F32("llama.attention.max_alibi_bias", 0).Flag("llama.use_parallel_residual", false);
    b.String("llama.tensor_data_layout", "Meta AI original pth").U32("llama.vocab_size", 10);
  });
  EXPECT_TRUE(off.model.ok()) << off.error();
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.U32("llama.expert_count", 8); }).error(),
              HasSubstr("llama.expert_count is 8: a mixture of experts is not supported"));
  EXPECT_FALSE(Changed([](GgufBuilder& b) { b.Flag("llama.attention.causal", false); }).model.ok());
  EXPECT_FALSE(Changed([](GgufBuilder& b) { b.U32("llama.attention.sliding_window", 4096); }).model.ok());
  EXPECT_FALSE(Changed([](GgufBuilder& b) { b.F32("llama.logit_scale", 2); }).model.ok());
  EXPECT_FALSE(Changed([](GgufBuilder& b) { b.String("llama.expert_count", "0"); }).model.ok());
}

TEST(LlamaTest, UnknownKeysOfTheFamilyAreRefusedByName) {
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.F32("llama.attention.logit_softcapping", 30); }).error(),
              HasSubstr("'llama.attention.logit_softcapping'"));
  EXPECT_TRUE(
      Changed([](GgufBuilder& b) { b.String("general.license", "mit").U32("other.key", 1); }).model.ok());
}

TEST(LlamaTest, TokensWithoutRowsAreRefused) {
  const Loaded model =
      Changed([](GgufBuilder& b) { b.Strings("tokenizer.ggml.tokens", std::vector<std::string>(11, "t")); });
  EXPECT_THAT(model.error(), AllOf(HasSubstr("11 tokens"), HasSubstr("10 rows")));
  EXPECT_TRUE(Changed([](GgufBuilder& b) {
                b.Strings("tokenizer.ggml.tokens", std::vector<std::string>(10, "t"));
              }).model.ok());
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.U32("llama.vocab_size", 11); }).error(),
              AllOf(HasSubstr("vocab_size is 11"), HasSubstr("10 rows")));
}

TEST(ModelSourceTest, UnknownArchitecturesAreNamedWithTheKnownOnes) {
  const Loaded model = Changed([](GgufBuilder& b) { b.String("general.architecture", "mamba"); });
  EXPECT_EQ(model.model.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(model.error(), AllOf(HasSubstr("'mamba'"), HasSubstr("llama")));
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.Remove("general.architecture"); }).error(),
              HasSubstr("'general.architecture' is missing"));
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.U32("general.architecture", 1); }).error(),
              HasSubstr("not a text"));
}

TEST(ModelSourceTest, AdaptersAndNewerBlockFormatsAreRefused) {
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.String("general.type", "adapter"); }).error(),
              HasSubstr("'adapter'"));
  EXPECT_TRUE(Changed([](GgufBuilder& b) { b.String("general.type", "model"); }).model.ok());
  EXPECT_THAT(Changed([](GgufBuilder& b) { b.U32("general.quantization_version", 3); }).error(),
              HasSubstr("general.quantization_version is 3"));
}

}  // namespace
}  // namespace skipjack
