// Split sets on disk: found by what the files say, whatever they are called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "model/gguf_file.h"
#include "model/model_source.h"
#include "tests/unit/model/gguf_builder.h"

namespace skipjack {
namespace {

namespace fs = std::filesystem;
using gguf::GgufBuilder;
using ::testing::AllOf;
using ::testing::HasSubstr;

class GgufSplitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "skipjack-split-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string Path(const std::string& name) { return (folder_ / name).string(); }
  static Status OpenStatus(const std::string& path) { return ModelSource::Open(path).status(); }
  static std::string Error(const std::string& path) { return OpenStatus(path).message(); }

  fs::path folder_;
};

// The whole model dealt out over `count` parts, as a split tool does it: metadata in the first one only.
std::vector<std::string> Parts(const GgufBuilder& whole, std::uint16_t count) {
  GgufBuilder source = whole;
  std::vector<GgufBuilder> parts(count);
  parts[0].keys() = source.keys();
  for (std::uint16_t i = 0; i < count; ++i) {
    parts[i].U16("split.no", i).U16("split.count", count);
    parts[i].I32("split.tensors.count", static_cast<std::int32_t>(source.tensors().size()));
  }
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    parts[i * count / source.tensors().size()].Add(source.tensors()[i]);
  }
  std::vector<std::string> bytes;
  for (const GgufBuilder& part : parts) bytes.push_back(part.Build());
  return bytes;
}

const std::vector<std::string> kNames{"tiny-00001-of-00003.gguf", "tiny-00002-of-00003.gguf",
                                      "tiny-00003-of-00003.gguf"};

TEST_F(GgufSplitTest, AnyPartOrTheFolderOpensTheSet) {
  const std::vector<std::string> parts = Parts(gguf::TinyLlama(), 3);
  for (std::size_t i = 0; i < 3; ++i) Write(kNames[i], parts[i]);
  Write("README.md", "not a model");
  fs::create_directory(folder_ / "folder.gguf");
  for (const std::string& start : {Path(kNames[0]), Path(kNames[1]), Path(kNames[2]), folder_.string()}) {
    const auto model = ModelSource::Open(start);
    ASSERT_TRUE(model.ok()) << start << ": " << model.status().ToString();
    EXPECT_EQ((*model)->file().paths().size(), 3u);
    EXPECT_EQ((*model)->file().path(), Path(kNames[0]));
    EXPECT_EQ((*model)->config().name, "tiny");
    GgufBuilder whole = gguf::TinyLlama();
    ASSERT_EQ((*model)->file().tensors().size(), 21u);
    for (const gguf::BuilderTensor& tensor : whole.tensors()) {
      const TensorView* view = (*model)->file().FindTensor(tensor.name);
      ASSERT_NE(view, nullptr);
      EXPECT_EQ(gguf::Raw(view->data.data(), view->data.size()), tensor.data);
    }
  }
}

TEST_F(GgufSplitTest, NamesDoNotMatter) {
  const std::vector<std::string> parts = Parts(gguf::TinyLlama(), 3);
  Write("zebra", parts[0]);
  Write("blob.bin", parts[1]);
  const std::string start = Write("part-00001-of-00009.gguf", parts[2]);
  const auto model = ModelSource::Open(start);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ((*model)->file().path(), Path("zebra"));
  EXPECT_TRUE(ModelSource::Open(folder_.string()).ok());
}

TEST_F(GgufSplitTest, TheMissingPartIsNamed) {
  const std::vector<std::string> parts = Parts(gguf::TinyLlama(), 3);
  for (std::size_t missing = 0; missing < 3; ++missing) {
    for (std::size_t i = 0; i < 3; ++i) Write(kNames[i], parts[i]);
    fs::remove(folder_ / kNames[missing]);
    const Status status = OpenStatus(Path(kNames[(missing + 1) % 3]));
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_THAT(status.message(), HasSubstr("part " + std::to_string(missing + 1) + " of 3"));
    EXPECT_THAT(Error(folder_.string()), HasSubstr("part " + std::to_string(missing + 1) + " of 3"));
  }
}

TEST_F(GgufSplitTest, AnUnreadablePartIsMentioned) {
  const std::vector<std::string> parts = Parts(gguf::TinyLlama(), 3);
  Write(kNames[0], parts[0]);
  Write(kNames[1], parts[1].substr(0, 10));
  Write(kNames[2], parts[2]);
  EXPECT_THAT(Error(Path(kNames[0])),
              AllOf(HasSubstr("part 2 of 3"), HasSubstr("cannot be read: " + kNames[1])));
}

TEST_F(GgufSplitTest, ACutPartIsNamedWithBothSizes) {
  const std::vector<std::string> parts = Parts(gguf::TinyLlama(), 3);
  Write(kNames[0], parts[0]);
  Write(kNames[1], parts[1].substr(0, parts[1].size() - 40));
  Write(kNames[2], parts[2]);
  const Status status = OpenStatus(Path(kNames[0]));
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(kNames[1]), HasSubstr(std::to_string(parts[1].size() - 40))));
}

TEST_F(GgufSplitTest, JoinedPartsAreExplained) {
  const std::vector<std::string> parts = Parts(gguf::TinyLlama(), 3);
  const std::string joined = Write("joined.gguf", parts[0] + parts[1] + parts[2]);
  EXPECT_THAT(Error(joined), HasSubstr("joined byte by byte"));
  for (std::size_t i = 0; i < 3; ++i) Write(kNames[i], parts[i]);
  EXPECT_THAT(Error(joined), HasSubstr("joined byte by byte"));
  EXPECT_TRUE(OpenStatus(Path(kNames[0])).ok()) << Error(Path(kNames[0]));
}

TEST_F(GgufSplitTest, TwoSetsInOneFolderAreToldApartByTheirNames) {
  GgufBuilder other = gguf::TinyLlama();
  other.String("general.name", "other");
  const std::vector<std::string> a = Parts(gguf::TinyLlama(), 2);
  const std::vector<std::string> b = Parts(other, 2);
  Write("a-00001-of-00002.gguf", a[0]);
  Write("a-00002-of-00002.gguf", a[1]);
  Write("b-00001-of-00002.gguf", b[0]);
  Write("b-00002-of-00002.gguf", b[1]);
  const auto model = ModelSource::Open(Path("b-00002-of-00002.gguf"));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ((*model)->config().name, "other");
  EXPECT_THAT(Error(folder_.string()), HasSubstr("several models"));
}

TEST_F(GgufSplitTest, ClaimsThatNamesCannotSettleAreRefused) {
  const std::vector<std::string> parts = Parts(gguf::TinyLlama(), 2);
  Write("x", parts[0]);
  const std::string start = Write("y", parts[1]);
  Write("z", parts[0]);
  EXPECT_THAT(Error(start), AllOf(HasSubstr("claim to be part 1"), HasSubstr("x, z")));
}

TEST_F(GgufSplitTest, TwoNamesOfOneFileAreOneClaim) {
  const std::vector<std::string> parts = Parts(gguf::TinyLlama(), 2);
  Write("x", parts[0]);
  const std::string start = Write("y", parts[1]);
  fs::create_symlink(folder_ / "x", folder_ / "link");
  fs::create_hard_link(folder_ / "x", folder_ / "hard");
  fs::create_symlink(folder_ / "nowhere", folder_ / "broken");
  EXPECT_TRUE(OpenStatus(start).ok()) << Error(start);
}

TEST_F(GgufSplitTest, PartsOfDifferentModelsAreRefused) {
  // The same tensor in two parts.
  std::vector<std::string> parts = Parts(gguf::TinyLlama(), 2);
  GgufBuilder twice;
  twice.U16("split.no", 1)
      .U16("split.count", 2)
      .I32("split.tensors.count", 21)
      .Tensor("token_embd.weight", {16, 10});
  Write("a", parts[0]);
  const std::string start = Write("b", twice.Build());
  EXPECT_THAT(Error(start), AllOf(HasSubstr("'token_embd.weight'"), HasSubstr("not parts of one model")));

  // Too few tensors for what the set announces.
  GgufBuilder few;
  few.U16("split.no", 1).U16("split.count", 2).I32("split.tensors.count", 21).Tensor("other", {1});
  Write("b", few.Build());
  EXPECT_THAT(Error(start),
              AllOf(HasSubstr("split.tensors.count is 21"), HasSubstr("not parts of one model")));

  // Metadata that contradicts the first part.
  GgufBuilder differs;
  differs.U16("split.no", 1)
      .U16("split.count", 2)
      .I32("split.tensors.count", 21)
      .String("general.name", "else");
  Write("b", differs.Build());
  EXPECT_THAT(Error(start), AllOf(HasSubstr("'general.name'"), HasSubstr("not parts of one model")));

  // Another total: not a part of this set at all.
  GgufBuilder stranger;
  stranger.U16("split.no", 1).U16("split.count", 2).I32("split.tensors.count", 22);
  Write("b", stranger.Build());
  EXPECT_THAT(Error(Path("a")), HasSubstr("part 2 of 2"));
}

TEST_F(GgufSplitTest, FoldersWithoutOneModel) {
  EXPECT_EQ(OpenStatus(folder_.string()).code(), StatusCode::kNotFound);
  EXPECT_THAT(Error(folder_.string()), HasSubstr("no GGUF file"));
  Write("one.gguf", gguf::TinyLlama().Build());
  EXPECT_TRUE(OpenStatus(folder_.string()).ok());
  Write("two.gguf", gguf::TinyLlama().Build());
  EXPECT_THAT(Error(folder_.string()), AllOf(HasSubstr("several models"), HasSubstr("one.gguf, two.gguf")));
}

TEST_F(GgufSplitTest, WhatIsNoRegularFileIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(Error(Path("pipe")), HasSubstr("not a regular file"));
  EXPECT_FALSE(OpenStatus("/dev/null").ok());
  EXPECT_THAT(Error(Write("empty.gguf", "")), HasSubstr("the file is empty"));
}

TEST_F(GgufSplitTest, PagesComeBackAfterTheyWereDropped) {
  const auto model = ModelSource::Open(Write("tiny.gguf", gguf::TinyLlama().Build()));
  ASSERT_TRUE(model.ok());
  const TensorView& tensor = (*model)->tensors().layers[1].down;
  const std::string before = gguf::Raw(tensor.data.data(), tensor.data.size());
  (*model)->DropMappedPages();
  EXPECT_EQ(gguf::Raw(tensor.data.data(), tensor.data.size()), before);
  EXPECT_EQ((*model)->weight_bytes(), 4 * (2 * 160 + 16 + 2 * (2 * 16 + 2 * 256 + 2 * 128 + 3 * 384)));
}

}  // namespace
}  // namespace skipjack
