#include "model/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/printable.h"
#include "tests/unit/model/gguf_builder.h"

namespace skipjack {
namespace {

using gguf::GgufBuilder;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Report(const GgufBuilder& builder, bool as_json) {
  const std::vector<std::byte> bytes = gguf::HeapBytes(builder.Build());
  const auto file = GgufFile::Parse(bytes);
  return file.ok() ? InspectReport(**file, as_json) : file.status().ToString();
}

TEST(InspectTest, CountsTheTinyModelByHand) {
  const json report = json::parse(Report(gguf::TinyLlama(), true));
  // 2 * 160 for embedding and head, 16, and per layer 2 * 16 + 2 * 256 + 2 * 128 + 3 * 384.
  EXPECT_EQ(report["parameters"], 4240);
  EXPECT_EQ(report["bits_per_weight"], 32.0);
  EXPECT_EQ(report["memory"]["weight_bytes"], 4240 * 4);
  // K and V, 2 layers, 2 KV heads of 4 numbers.
  EXPECT_EQ(report["memory"]["kv"]["f16"]["bytes_per_token"], 2 * 2 * 2 * 4 * 2);
  EXPECT_EQ(report["memory"]["kv"]["f32"]["bytes_for_context"], 2 * 2 * 2 * 4 * 4 * 64);
  EXPECT_EQ(report["types"]["F32"]["tensors"], 21);
  // Matrices become bfloat16, norms are left out; the embedding stays as it is.
  const json& estimate = report["memory"]["estimate"];
  EXPECT_EQ(estimate["packed_weight_bytes"], 160 * 4 + (160 + 2 * (2 * 256 + 2 * 128 + 3 * 384)) * 2);
  // 512 tokens of twice 16 hidden, twice 16 query, 2 * 8 key and value, 24 feed-forward numbers; 32 rows of
  // 10 logits; 64 rotations of 4 numbers.
  EXPECT_EQ(estimate["activation_bytes"], 4 * (512 * (2 * 16 + 2 * 16 + 2 * 8 + 24) + 32 * 10 + 64 * 4));
  EXPECT_EQ(estimate["kv_bytes_for_context"], 2 * 2 * 2 * 4 * 2 * 64);
  EXPECT_EQ(estimate["kv_bytes_for_sequences"], 32 * 2 * 2 * 2 * 4 * 2 * 64);
  EXPECT_EQ(report["supported"], true);
  EXPECT_EQ(report["metadata"]["llama.block_count"], 2);
  EXPECT_EQ(report["metadata"]["tokenizer.ggml.tokens"], json({"a", "b", "c"}));
  EXPECT_EQ(report["tensors"][0]["shape"], json({16, 10}));
  EXPECT_EQ(report["tensors"].size(), 21u);
}

TEST(InspectTest, TextOfAQuantisedModel) {
  const auto text = InspectModel(SKIPJACK_FIXTURES "/gguf/llama.Q4_K_M.gguf", false);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_THAT(*text, AllOf(HasSubstr("GGUF version 3"), HasSubstr("architecture llama"),
                           HasSubstr("text[648]"), HasSubstr("blk.1.ffn_down.weight"), HasSubstr("Q4_K"),
                           HasSubstr("661136 bytes"), HasSubstr("512 B a token"),
                           HasSubstr("weights, packed       about"), HasSubstr("for steps of 512 tokens"),
                           HasSubstr("each of 32 sequences"), HasSubstr("Skipjack can run this model: yes")));
  EXPECT_LT(text->size(), 20000u);  // the vocabulary is shortened
}

TEST(InspectTest, AVocabularyWithoutTensors) {
  const char* path = SKIPJACK_FIXTURES "/tokenizers/smollm2_real.vocab.gguf";
  const auto text = InspectModel(path, false);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_THAT(*text, AllOf(HasSubstr("Tensors: 0"), HasSubstr("text[49152]"),
                           HasSubstr("can run this model: no"), HasSubstr("token_embd.weight is missing")));
  const json report = json::parse(*InspectModel(path, true));
  EXPECT_EQ(report["metadata"]["tokenizer.ggml.tokens"]["count"], 49152);
  EXPECT_EQ(report["metadata"]["tokenizer.ggml.tokens"]["first"].size(), 16u);
  EXPECT_EQ(report["supported"], false);
  EXPECT_EQ(report["bits_per_weight"], 0.0);
}

TEST(InspectTest, ArchitecturesWeDoNotRun) {
  GgufBuilder builder = gguf::TinyLlama();
  builder.String("general.architecture", "mamba");
  const std::string text = Report(builder, false);
  EXPECT_THAT(text, AllOf(HasSubstr("architecture mamba"), HasSubstr("weights in the file   16.6 KiB"),
                          Not(HasSubstr("KV cache")), HasSubstr("'mamba' is not supported")));
  EXPECT_TRUE(text.ends_with("(supported: llama)\n")) << text;
  builder.Remove("general.architecture");
  EXPECT_THAT(Report(builder, false), HasSubstr("architecture not given"));
  EXPECT_EQ(json::parse(Report(builder, true))["architecture"], "");
}

TEST(InspectTest, FilesCannotSteerTheTerminal) {
  GgufBuilder builder = gguf::TinyLlama();
  const std::string evil = "\x1b[2J\x9b\xc2\x9b\r\n\xff";
  builder.String("general.name", evil).String("key" + evil, evil).Strings("list", {evil});
  builder.Tensor("t" + evil, {1});
  const std::string text = Report(builder, false);
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << static_cast<int>(c);
  EXPECT_TRUE(json::accept(Report(builder, true)));
}

TEST(InspectTest, LongTextsAreShortenedAndUnicodeStays) {
  GgufBuilder builder = gguf::TinyLlama();
  builder.String("chat", std::string(5000, 'x')).String("unicode", "größe 鰹");
  const std::string text = Report(builder, false);
  EXPECT_THAT(text, AllOf(HasSubstr("größe 鰹"), Not(HasSubstr(std::string(200, 'x'))), HasSubstr("xxx...")));
  EXPECT_EQ(json::parse(Report(builder, true))["metadata"]["chat"].get<std::string>().size(), 5000u);
}

TEST(InspectTest, NumbersAsTheyWereMeant) {
  GgufBuilder builder = gguf::TinyLlama();
  builder.F32("f", 1e-5f).Set("d", gguf::kF64, gguf::Bytes(0.1)).F32("huge", 3e38f).F32("nan", std::nanf(""));
  builder.Array<float>("list", gguf::kF32, {0.1f, 2.0f}).Set("big", gguf::kF64, gguf::Bytes(1e300));
  EXPECT_THAT(Report(builder, false),
              AllOf(HasSubstr(" 1e-05\n"), HasSubstr(" 0.1\n"), HasSubstr(" 3e+38\n"), HasSubstr(" nan\n"),
                    HasSubstr("[0.1, 2]"), HasSubstr(" 1e+300\n")));
  EXPECT_TRUE(json::accept(Report(builder, true)));
}

TEST(InspectTest, ErrorsArePassedOn) {
  EXPECT_EQ(InspectModel("/nowhere.gguf", false).status().code(), StatusCode::kNotFound);
}

TEST(PrintableTest, EscapesWhatIsNoText) {
  EXPECT_EQ(Printable("plain", 100), "plain");
  EXPECT_EQ(Printable("a\tb\nc\rd\x7f", 100), "a\\tb\\nc\\rd\\x7f");
  EXPECT_EQ(Printable(std::string("\0", 1), 100), "\\x00");
  EXPECT_EQ(Printable("\xc3\xa4\xe9\xb0\xb9\xf0\x9f\x90\x9f", 100), "\xc3\xa4\xe9\xb0\xb9\xf0\x9f\x90\x9f");
  EXPECT_EQ(Printable("\xc0\xaf", 100), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(Printable("\xe0\x80\xaf", 100), "\\xe0\\x80\\xaf");           // overlong
  EXPECT_EQ(Printable("\xed\xa0\x80", 100), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(Printable("\xf4\x90\x80\x80", 100), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_EQ(Printable("\xe9\xb0", 100), "\\xe9\\xb0");                    // cut
  EXPECT_EQ(Printable("\xc2\x9b", 100), "\\xc2\\x9b");                    // C1 control
}

TEST(PrintableTest, CutsAtACharacter) {
  EXPECT_EQ(Printable("abcdef", 6), "abcdef");
  EXPECT_EQ(Printable("abcdef", 5), "abcde...");
  EXPECT_EQ(Printable("a\xe9\xb0\xb9z", 3), "a...");
}

}  // namespace
}  // namespace skipjack
