// GGUF files built byte by byte: what is read from good ones, and what is said of bad ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "model/gguf_file.h"
#include "model/gguf_parser.h"
#include "tests/unit/model/gguf_builder.h"

namespace skipjack {
namespace {

using gguf::Bytes;
using gguf::GgufBuilder;
using gguf::HeapBytes;
using gguf::Text;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A parsed file with the bytes it points into.
struct Parsed {
  explicit Parsed(const std::string& text) : bytes(HeapBytes(text)), file(GgufFile::Parse(bytes)) {}
  const GgufFile& operator*() const { return **file; }
  const GgufFile* operator->() const { return file->get(); }
  std::string error() const { return file.status().message(); }

  std::vector<std::byte> bytes;
  Result<std::unique_ptr<GgufFile>> file;
};

GgufBuilder WithTensor() {
  GgufBuilder builder;
  builder.U32("a", 7).Tensor("t", {4, 2});
  return builder;
}

TEST(GgufParserTest, ReadsEveryScalarType) {
  GgufBuilder builder;
  builder.Set("u8", gguf::kU8, Bytes<std::uint8_t>(250))
      .Set("i8", gguf::kI8, Bytes<std::int8_t>(-5))
      .Set("u16", gguf::kU16, Bytes<std::uint16_t>(65000))
      .Set("i16", gguf::kI16, Bytes<std::int16_t>(-30000))
      .Set("u32", gguf::kU32, Bytes<std::uint32_t>(4000000000u))
      .Set("i32", gguf::kI32, Bytes<std::int32_t>(-2000000000))
      .Set("u64", gguf::kU64, Bytes<std::uint64_t>(1ull << 63))
      .Set("i64", gguf::kI64, Bytes<std::int64_t>(std::numeric_limits<std::int64_t>::min()))
      .Set("f32", gguf::kF32, Bytes(1.5f))
      .Set("f64", gguf::kF64, Bytes(-0.1))
      .Flag("yes", true)
      .Flag("no", false)
      .String("text", std::string("a\0b", 3));
  const Parsed file(builder.Build());
  ASSERT_TRUE(file.file.ok()) << file.error();
  EXPECT_EQ(file->GetInt("u8").value(), 250);
  EXPECT_EQ(file->GetInt("i8").value(), -5);
  EXPECT_EQ(file->GetInt("u16").value(), 65000);
  EXPECT_EQ(file->GetInt("i16").value(), -30000);
  EXPECT_EQ(file->GetInt("u32").value(), 4000000000);
  EXPECT_EQ(file->GetInt("i32").value(), -2000000000);
  EXPECT_EQ(file->GetInt("i64").value(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(file->GetFloat("f32").value(), 1.5);
  EXPECT_EQ(file->GetFloat("f64").value(), -0.1);
  EXPECT_EQ(file->GetFloat("i8").value(), -5.0);
  EXPECT_TRUE(file->GetBool("yes").value());
  EXPECT_FALSE(file->GetBool("no").value());
  EXPECT_EQ(file->GetString("text").value(), std::string("a\0b", 3));
  EXPECT_THAT(file->keys(), ElementsAre("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64",
                                        "yes", "no", "text"));

  EXPECT_EQ(file->GetInt("u64").status().code(), StatusCode::kInvalidArgument);  // int64 cannot hold it
  EXPECT_EQ(std::get<std::uint64_t>(*file->Find("u64")), 1ull << 63);
  EXPECT_EQ(file->GetInt("absent").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(file->GetInt("absent").status().message(), HasSubstr("'absent'"));
  EXPECT_EQ(file->GetInt("text").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(file->GetInt("f32").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(file->GetBool("u8").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(file->GetString("u8").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(file->GetFloat("text").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(file->FindStrings("u8"), nullptr);
}

TEST(GgufParserTest, ReadsArrays) {
  GgufBuilder builder;
  builder.Array<std::int8_t>("i8", gguf::kI8, {-1, 2})
      .Array<std::uint64_t>("u64", gguf::kU64, {1ull << 63})
      .Array<float>("f32", gguf::kF32, {0.5f, -2.0f})
      .Array<std::uint8_t>("bools", gguf::kBool, {1, 0, 1})
      .Strings("texts", {"", "x", "a longer one that does not fit into the string itself"})
      .Array<std::int32_t>("empty", gguf::kI32, {});
  const Parsed file(builder.Build());
  ASSERT_TRUE(file.file.ok()) << file.error();
  EXPECT_THAT(std::get<std::vector<std::int64_t>>(*file->Find("i8")), ElementsAre(-1, 2));
  EXPECT_THAT(std::get<std::vector<std::uint64_t>>(*file->Find("u64")), ElementsAre(1ull << 63));
  EXPECT_THAT(std::get<std::vector<double>>(*file->Find("f32")), ElementsAre(0.5, -2.0));
  EXPECT_THAT(std::get<std::vector<bool>>(*file->Find("bools")), ElementsAre(true, false, true));
  EXPECT_TRUE(std::get<std::vector<std::int64_t>>(*file->Find("empty")).empty());
  ASSERT_NE(file->FindStrings("texts"), nullptr);
  EXPECT_THAT(*file->FindStrings("texts"),
              ElementsAre("", "x", "a longer one that does not fit into the string itself"));
}

TEST(GgufParserTest, PlacesTensors) {
  GgufBuilder builder;
  builder.Add({"half", {3}, 1, std::string("\x00\x3c\x00\x40\x00\xbc", 6), -1}).Tensor("wide", {2, 3, 4, 5});
  for (const std::uint32_t version : {2u, 3u}) {
    builder.version = version;
    const Parsed file(builder.Build());
    ASSERT_TRUE(file.file.ok()) << file.error();
    EXPECT_EQ(file->version(), version);
    ASSERT_EQ(file->tensors().size(), 2u);
    const TensorView* half = file->FindTensor("half");
    ASSERT_NE(half, nullptr);
    EXPECT_EQ(half->dtype, DType::kF16);
    EXPECT_EQ(half->rank, 1);
    EXPECT_EQ(half->columns(), 3);
    EXPECT_EQ(half->rows(), 1);
    std::vector<float> values(3);
    Dequantize(half->dtype, half->data, values);
    EXPECT_THAT(values, ElementsAre(1.0f, 2.0f, -1.0f));
    const TensorView* wide = file->FindTensor("wide");
    ASSERT_NE(wide, nullptr);
    EXPECT_EQ(wide->elements(), 120);
    EXPECT_EQ(wide->data.size(), 480u);
    EXPECT_EQ(gguf::Raw(wide->data.data(), wide->data.size()), builder.tensors()[1].data);
    EXPECT_EQ(file->FindTensor("other"), nullptr);
  }
}

TEST(GgufParserTest, AlignmentIsTheFilesOwn) {
  for (const std::uint64_t alignment : {1u, 2u, 64u, 4096u}) {
    GgufBuilder builder = WithTensor();
    builder.alignment = alignment;
    builder.U32("general.alignment", static_cast<std::uint32_t>(alignment)).Tensor("u", {3}).Tensor("v", {5});
    const Parsed file(builder.Build());
    ASSERT_TRUE(file.file.ok()) << file.error();
    for (std::size_t i = 0; i < 3; ++i) {
      const TensorView& tensor = file->tensors()[i];
      EXPECT_EQ(gguf::Raw(tensor.data.data(), tensor.data.size()), builder.tensors()[i].data);
    }
  }
}

TEST(GgufParserTest, BadAlignmentIsRefused) {
  for (const std::uint32_t alignment : {0u, 3u, 48u, 1u << 21, 0x80000000u}) {
    GgufBuilder builder = WithTensor();
    builder.U32("general.alignment", alignment);
    EXPECT_THAT(Parsed(builder.Build()).error(),
                HasSubstr("general.alignment is " + std::to_string(alignment)));
  }
  GgufBuilder builder = WithTensor();
  builder.String("general.alignment", "32");
  EXPECT_THAT(Parsed(builder.Build()).error(), HasSubstr("general.alignment is not an integer"));
}

TEST(GgufParserTest, ForeignFilesAreExplained) {
  EXPECT_THAT(Parsed("").error(), HasSubstr("empty"));
  EXPECT_THAT(Parsed("version https://git-lfs.github.com/spec/v1\noid sha256:12").error(),
              HasSubstr("Git LFS"));
  EXPECT_THAT(Parsed("<!DOCTYPE html>").error(), HasSubstr("web page"));
  EXPECT_THAT(Parsed("tjgg\x03").error(), HasSubstr("before GGUF"));
  EXPECT_THAT(Parsed("PK\x03\x04").error(), HasSubstr("does not begin with \"GGUF\""));
  EXPECT_THAT(Parsed("GGU").error(), HasSubstr("does not begin with \"GGUF\""));
  EXPECT_EQ(Parsed("GGUF").file.status().code(), StatusCode::kDataLoss);
}

TEST(GgufParserTest, VersionsAndByteOrder) {
  GgufBuilder builder = WithTensor();
  for (const std::uint32_t version : {0u, 1u, 4u, 0xffffffffu}) {
    builder.version = version;
    EXPECT_THAT(Parsed(builder.Build()).error(), HasSubstr("version " + std::to_string(version)));
  }
  for (const std::uint32_t version : {0x02000000u, 0x03000000u}) {
    builder.version = version;
    EXPECT_THAT(Parsed(builder.Build()).error(), HasSubstr("big-endian"));
  }
}

TEST(GgufParserTest, DuplicatesAreRefused) {
  GgufBuilder keys = WithTensor();
  keys.keys().push_back(keys.keys().front());
  EXPECT_THAT(Parsed(keys.Build()).error(), HasSubstr("'a' stands twice"));
  GgufBuilder tensors = WithTensor();
  tensors.Tensor("t", {1});
  EXPECT_THAT(Parsed(tensors.Build()).error(), HasSubstr("'t' stands twice"));
}

TEST(GgufParserTest, NamesAreRequired) {
  GgufBuilder key;
  key.U32("", 1);
  EXPECT_THAT(Parsed(key.Build()).error(), HasSubstr("key is empty"));
  GgufBuilder tensor;
  tensor.Tensor("", {1});
  EXPECT_THAT(Parsed(tensor.Build()).error(), HasSubstr("no name"));
}

TEST(GgufParserTest, MessagesEscapeWhatTheFileSays) {
  GgufBuilder builder;
  builder.Set("evil\x1b[31m\n\xff", 99, "");
  EXPECT_THAT(Parsed(builder.Build()).error(),
              HasSubstr("'evil\\x1b[31m\\x0a\\xff' has the unknown type 99"));
  GgufBuilder longer;
  longer.Set(std::string(5000, 'k'), 99, "");
  EXPECT_LT(Parsed(longer.Build()).error().size(), 300u);
}

TEST(GgufParserTest, CountsAreBounded) {
  const auto header = [](std::uint64_t tensors, std::uint64_t keys) {
    return "GGUF" + Bytes<std::uint32_t>(3) + Bytes(tensors) + Bytes(keys);
  };
  for (const std::uint64_t count : {kMaxGgufTensors + 1, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    EXPECT_THAT(Parsed(header(count, 0)).error(), HasSubstr(std::to_string(count) + " tensors"));
    EXPECT_THAT(Parsed(header(0, count)).error(), HasSubstr(std::to_string(count) + " metadata keys"));
  }
  EXPECT_EQ(Parsed(header(kMaxGgufTensors, 0)).file.status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(Parsed(header(0, kMaxGgufKeys)).file.status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(Parsed(header(0, 0)).file.ok());
}

TEST(GgufParserTest, TextLengthsAreBounded) {
  const std::string start =
      "GGUF" + Bytes<std::uint32_t>(3) + Bytes<std::uint64_t>(0) + Bytes<std::uint64_t>(1);
  for (const std::uint64_t length : {kMaxGgufKeyBytes + 1, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    EXPECT_THAT(Parsed(start + Bytes(length) + "key").error(),
                AllOf(HasSubstr("metadata key"), HasSubstr(std::to_string(length))));
  }
  const std::string text_key = start + Text("key") + Bytes<std::uint32_t>(gguf::kText);
  for (const std::uint64_t length : {kMaxGgufStringBytes + 1, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    EXPECT_THAT(Parsed(text_key + Bytes(length) + "text").error(), HasSubstr(std::to_string(length)));
  }
  EXPECT_THAT(Parsed(text_key + Bytes<std::uint64_t>(100) + "text").error(),
              HasSubstr("at least " + std::to_string(text_key.size() + 8 + 100) + " bytes, this one has " +
                        std::to_string(text_key.size() + 8 + 4)));
}

TEST(GgufParserTest, ArraysAreBounded) {
  const auto array = [](std::uint32_t type, std::uint64_t count) {
    GgufBuilder builder;
    builder.Set("list", gguf::kArray, Bytes(type) + Bytes(count));
    return Parsed(builder.Build()).file.status();
  };
  for (const std::uint64_t count :
       {kMaxGgufArrayElements + 1, std::uint64_t{1} << 61, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    for (const std::uint32_t type : {gguf::kU8, gguf::kU64, gguf::kText, gguf::kBool}) {
      EXPECT_THAT(array(type, count).message(), HasSubstr(std::to_string(count) + " values"));
    }
  }
  // Within the limit, but more than the file holds: refused before anything is allocated.
  for (const std::uint32_t type : {gguf::kU8, gguf::kU64, gguf::kText, gguf::kBool}) {
    EXPECT_EQ(array(type, kMaxGgufArrayElements).code(), StatusCode::kDataLoss);
  }
  EXPECT_THAT(array(gguf::kArray, 1).message(), HasSubstr("array of arrays"));
  EXPECT_THAT(array(13, 1).message(), HasSubstr("unknown type 13"));
}

TEST(GgufParserTest, TheLimitOnArraysIsForTheWholeFile) {
  const std::vector<std::uint8_t> half(kMaxGgufArrayElements / 2, 1);
  GgufBuilder builder;
  builder.Array("a", gguf::kU8, half).Array("b", gguf::kU8, half);
  EXPECT_TRUE(Parsed(builder.Build()).file.ok());
  builder.Array<std::uint8_t>("c", gguf::kU8, {1});
  EXPECT_THAT(Parsed(builder.Build()).error(), HasSubstr("'c' is an array of 1 values"));
}

TEST(GgufParserTest, BooleansAreZeroOrOne) {
  GgufBuilder scalar;
  scalar.Set("b", gguf::kBool, Bytes<std::uint8_t>(2));
  EXPECT_THAT(Parsed(scalar.Build()).error(), HasSubstr("boolean 2"));
  GgufBuilder array;
  array.Array<std::uint8_t>("b", gguf::kBool, {0, 1, 255});
  EXPECT_THAT(Parsed(array.Build()).error(), HasSubstr("boolean 255"));
}

TEST(GgufParserTest, ShapesAreChecked) {
  const auto error = [](const std::vector<std::uint64_t>& shape, std::uint32_t type) {
    GgufBuilder builder;
    builder.Add({"t", shape, type, std::string(64, 'x'), -1});
    return Parsed(builder.Build()).error();
  };
  EXPECT_THAT(error({}, 0), HasSubstr("0 dimensions"));
  EXPECT_THAT(error({1, 1, 1, 1, 1}, 0), HasSubstr("5 dimensions"));
  EXPECT_THAT(error({4, 0}, 0), HasSubstr("dimension of 0"));
  EXPECT_THAT(error({1ull << 63}, 0), HasSubstr("dimension of 9223372036854775808"));
  EXPECT_THAT(error({~0ull}, 0), HasSubstr("dimension of 18446744073709551615"));
  EXPECT_THAT(error({1ull << 32, 1ull << 31}, 0), HasSubstr("64 bits"));
  EXPECT_THAT(error({1ull << 21, 1ull << 21, 1ull << 21, 1ull << 21}, 0), HasSubstr("64 bits"));
  EXPECT_THAT(error({1ull << 62}, 0), HasSubstr("overflows"));
  EXPECT_THAT(error({2, 1ull << 61}, 0), HasSubstr("overflows"));
  EXPECT_THAT(error({33}, 2), HasSubstr("33 numbers are no whole number of Q4_0 blocks of 32"));
  EXPECT_THAT(error({4}, 4), HasSubstr("unknown number type 4"));
  EXPECT_THAT(error({4}, 1000), HasSubstr("unknown number type 1000"));
}

TEST(GgufParserTest, TensorsStayInsideTheFile) {
  GgufBuilder builder = WithTensor();
  const std::string whole = builder.Build();
  builder.tensors()[0].offset = 32;
  const Parsed beyond(builder.Build());
  EXPECT_EQ(beyond.file.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(beyond.error(),
              AllOf(HasSubstr("tensor 't'"), HasSubstr("at least " + std::to_string(whole.size() + 32)),
                    HasSubstr("has " + std::to_string(whole.size()))));
  builder.tensors()[0].offset = std::numeric_limits<std::int64_t>::max() / 32 * 32;
  EXPECT_EQ(Parsed(builder.Build()).file.status().code(), StatusCode::kDataLoss);
  builder.tensors()[0].offset = 4;
  EXPECT_THAT(Parsed(builder.Build()).error(),
              HasSubstr("offset 4 of the data, which is no multiple of the alignment 32"));
}

TEST(GgufParserTest, AnOffsetWhoseEndOverflowsIsRefused) {
  const GgufBuilder builder = WithTensor();
  std::string text = builder.Build();
  const std::string header = builder.Header();
  const std::string offset = Bytes<std::uint64_t>(~std::uint64_t{31});
  text.replace(header.size() - 8, 8, offset);
  EXPECT_THAT(Parsed(text).error(), HasSubstr("overflows"));
}

TEST(GgufParserTest, OverlapsAreRefused) {
  GgufBuilder builder = WithTensor();
  builder.Tensor("u", {64});  // 256 bytes at 32
  builder.Tensor("v", {4});
  EXPECT_TRUE(Parsed(builder.Build()).file.ok());
  builder.FindTensor("v")->offset = 64;
  EXPECT_THAT(
      Parsed(builder.Build()).error(),
      HasSubstr("tensors 'u' and 'v' overlap: the first ends at offset 288, the second begins at 64"));
  builder.FindTensor("v")->offset = 0;
  EXPECT_THAT(Parsed(builder.Build()).error(), HasSubstr("overlap"));
}

TEST(GgufParserTest, TensorsMayLieInAnyOrderAndWithGaps) {
  GgufBuilder builder;
  builder.Add({"second", {4}, 0, std::string(16, 'b'), 64}).Add({"first", {4}, 0, std::string(16, 'a'), 0});
  std::string text = builder.Header();
  text.resize((text.size() + 31) / 32 * 32);
  text += std::string(16, 'a') + std::string(48, '-') + std::string(16, 'b');
  const Parsed file(text);
  ASSERT_TRUE(file.file.ok()) << file.error();
  EXPECT_EQ(gguf::Raw(file->FindTensor("first")->data.data(), 16), std::string(16, 'a'));
  EXPECT_EQ(gguf::Raw(file->FindTensor("second")->data.data(), 16), std::string(16, 'b'));
}

TEST(GgufParserTest, JoinedFilesAreExplained) {
  const std::string one = WithTensor().Build();
  EXPECT_THAT(Parsed(one + one).error(), HasSubstr("joined byte by byte"));
  // The last tensor of a file may come without the padding that would follow it.
  GgufBuilder odd;
  odd.Tensor("t", {3});
  std::string unpadded = odd.Build();
  unpadded.resize(unpadded.size() - 20);
  EXPECT_THAT(Parsed(unpadded + one).error(), HasSubstr("joined byte by byte"));
  EXPECT_TRUE(Parsed(one + std::string(100, '\0')).file.ok());  // padding alone is harmless
}

TEST(GgufParserTest, SplitInfo) {
  const auto read = [](GgufBuilder& builder) {
    const auto bytes = HeapBytes(builder.Build());
    return ReadGgufSplitInfo(bytes, "f");
  };
  GgufBuilder builder = gguf::TinyLlama();
  const auto whole = read(builder);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->count, 1);
  builder.U16("split.no", 1).U16("split.count", 3).I32("split.tensors.count", 21);
  const auto part = read(builder);
  ASSERT_TRUE(part.ok()) << part.status().ToString();
  EXPECT_EQ(part->number, 1);
  EXPECT_EQ(part->count, 3);
  EXPECT_EQ(part->tensors, 21);
  builder.U16("split.no", 3);
  EXPECT_THAT(read(builder).status().message(),
              AllOf(HasSubstr("split.no is 3"), HasSubstr("split.count is 3")));
  builder.I32("split.no", -1);
  EXPECT_THAT(read(builder).status().message(), HasSubstr("split.no"));
  builder.U16("split.no", 0).U16("split.count", 0);
  EXPECT_EQ(read(builder)->count, 1);
  builder.U32("split.count", 1u << 31);
  EXPECT_THAT(read(builder).status().message(), HasSubstr("split.count is 2147483648"));
  builder.String("split.count", "3");
  EXPECT_THAT(read(builder).status().message(), HasSubstr("split.count"));
}

}  // namespace
}  // namespace skipjack
