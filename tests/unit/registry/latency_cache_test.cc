#include "registry/latency_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace skipjack {
namespace {

namespace fs = std::filesystem;

constexpr LatencyCoefficients kLearnt = {.step = 0.007,
                                         .decoder = 1.0 / 3,  // has no short decimal form
                                         .context = 1e-9,
                                         .prompt_token = 0.00125,
                                         .prompt_pair = 0};

class LatencyCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (fs::temp_directory_path() / "latency-cache-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    Write(Model(), "weights");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Model() const { return (folder_ / "a.gguf").string(); }

  static void Write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
  static std::string Read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  LatencyKey Key(const std::string& runner = "cpu avx2 int8 kv=f16 threads=2") const {
    const Result<LatencyKey> key = MakeLatencyKey({Model()}, runner);
    EXPECT_TRUE(key.ok()) << key.status().ToString();
    return key.ok() ? *key : LatencyKey();
  }
  std::string Path() const { return LatencyCachePath((folder_ / "cache").string(), Key()); }

  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache"))
      names.push_back(entry.path().filename());
    return names;
  }

  fs::path folder_;
};

TEST_F(LatencyCacheTest, WhatIsWrittenIsReadBitForBit) {
  EXPECT_EQ(ReadLatencyCache(Path(), Key()).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(WriteLatencyCache(Path(), Key(), kLearnt).ok());
  const Result<LatencyCoefficients> read = ReadLatencyCache(Path(), Key());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, kLearnt);
  EXPECT_EQ(Files().size(), 1u);
  // Another run of ours, or of another user, may read it.
  struct stat status {};
  ASSERT_EQ(::stat(Path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0644u);
}

TEST_F(LatencyCacheTest, WhatHoldsForSomethingElseIsRefusedByName) {
  ASSERT_TRUE(WriteLatencyCache(Path(), Key(), kLearnt).ok());
  const auto refused = [&](const LatencyKey& key, const std::string& why) {
    const Status status = ReadLatencyCache(Path(), key).status();
    EXPECT_EQ(status, Status::FailedPrecondition("it holds for another " + why));
  };
  for (const char* runner : {"cpu avx2 int8 kv=f16 threads=4", "cpu avx512 int8 kv=f16 threads=2",
                             "cpu avx2 f32 kv=f32 threads=2", ""}) {
    refused(Key(runner), "runner");
  }
  LatencyKey key = Key();
  key.machine += " II";
  refused(key, "machine");
  key = Key();
  key.model[0].name = "b.gguf";
  refused(key, "model");
  key = Key();
  ++key.model[0].bytes;
  refused(key, "model");
  key = Key();
  key.model.push_back(key.model[0]);
  refused(key, "model");
  key = Key();
  ++key.model[0].modified_ns;
  refused(key, "model");
}

TEST_F(LatencyCacheTest, AModelFileThatWasReplacedTakesOverTheName) {
  const std::string path = Path();
  ASSERT_TRUE(WriteLatencyCache(path, Key(), kLearnt).ok());
  Write(Model(), "other weights");
  EXPECT_EQ(Path(), path);
  EXPECT_EQ(ReadLatencyCache(path, Key()).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(WriteLatencyCache(path, Key(), {.step = 2}).ok());
  EXPECT_EQ(*ReadLatencyCache(path, Key()), LatencyCoefficients{.step = 2});
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(LatencyCacheTest, RunnersAndMachinesHaveTheirOwnFiles) {
  LatencyKey other = Key();
  other.machine += " II";
  EXPECT_NE(LatencyCachePath("x", other), LatencyCachePath("x", Key()));
  EXPECT_NE(LatencyCachePath("x", Key("cpu avx2 int8 kv=f16 threads=3")), LatencyCachePath("x", Key()));
}

// Whatever is cut off, changed or put in its place: it is told, and nothing of it is used.
TEST_F(LatencyCacheTest, ADamagedFileIsNotUsed) {
  ASSERT_TRUE(WriteLatencyCache(Path(), Key(), kLearnt).ok());
  const std::string whole = Read(Path());
  for (std::size_t size = 0; size + 2 < whole.size();
       ++size) {  // the last two are a bracket and a line's end
    Write(Path(), whole.substr(0, size));
    ASSERT_EQ(ReadLatencyCache(Path(), Key()).status().code(), StatusCode::kDataLoss) << size;
  }
  const auto changed = [&](const std::string& from, const std::string& to, StatusCode code) {
    std::string text = whole;
    ASSERT_NE(text.find(from), std::string::npos) << from;
    Write(Path(), text.replace(text.find(from), from.size(), to));
    EXPECT_EQ(ReadLatencyCache(Path(), Key()).status().code(), code) << to;
  };
  changed("\"step\": 0.007", "\"step\": -0.007", StatusCode::kDataLoss);
  changed("\"step\": 0.007", "\"step\": 1e300", StatusCode::kDataLoss);
  changed("\"step\": 0.007", "\"step\": null", StatusCode::kDataLoss);
  changed("\"step\": 0.007", "\"step\": \"0.007\"", StatusCode::kDataLoss);
  changed("\"step\": 0.007", "\"stop\": 0.007", StatusCode::kDataLoss);
  changed("\"seconds\"", "\"second\"", StatusCode::kDataLoss);
  changed("\"for\"", "\"four\"", StatusCode::kDataLoss);
  changed("skipjack step times", "something else", StatusCode::kDataLoss);
  changed("\"version\": 1", "\"version\": 2", StatusCode::kFailedPrecondition);
  for (const char* text : {"", "[]", "null", "{}", "{\"a\":", "\xff\xfe"}) {
    Write(Path(), text);
    EXPECT_EQ(ReadLatencyCache(Path(), Key()).status().code(), StatusCode::kDataLoss) << text;
  }
  Write(Path(), whole + std::string(100'000, ' '));
  EXPECT_EQ(ReadLatencyCache(Path(), Key()).status().code(), StatusCode::kDataLoss);
  fs::remove(Path());
  fs::create_directory(Path());
  EXPECT_EQ(ReadLatencyCache(Path(), Key()).status().code(), StatusCode::kDataLoss);
  fs::remove(Path());
  ASSERT_EQ(::mkfifo(Path().c_str(), 0600), 0);
  EXPECT_EQ(ReadLatencyCache(Path(), Key()).status().code(), StatusCode::kDataLoss);  // and does not wait
}

TEST_F(LatencyCacheTest, AnyNameOfAModelFileWillDo) {
  const std::string model = (folder_ / "name \xff \" \n.gguf").string();
  Write(model, "weights");
  const Result<LatencyKey> key = MakeLatencyKey({model}, "runner");
  ASSERT_TRUE(key.ok());
  const std::string path = LatencyCachePath((folder_ / "cache").string(), *key);
  ASSERT_TRUE(WriteLatencyCache(path, *key, kLearnt).ok());
  EXPECT_EQ(*ReadLatencyCache(path, *key), kLearnt);
  EXPECT_EQ(MakeLatencyKey({model + "2"}, "").status().code(), StatusCode::kNotFound);
}

// A folder cannot be made below a file, whoever we are.
TEST_F(LatencyCacheTest, WhatCannotBeWrittenIsSaidOnceAndHarmsNothing) {
  const std::string path = LatencyCachePath(Model() + "/cache", Key());
  EXPECT_EQ(WriteLatencyCache(path, Key(), kLearnt).code(), StatusCode::kUnavailable);
  EXPECT_EQ(ReadLatencyCache(path, Key()).status().code(), StatusCode::kNotFound);
  LatencyMemory memory("a", path, Key());
  EXPECT_EQ(memory.Recall(), LatencyCoefficients{});
  memory.Keep(kLearnt);
  memory.Keep(kLearnt);
  // A name that is taken by a folder leaves no draft behind.
  fs::create_directories(Path());
  EXPECT_EQ(WriteLatencyCache(Path(), Key(), kLearnt).code(), StatusCode::kUnavailable);
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(LatencyCacheTest, AMemoryRecallsWhatTheLastOneKept) {
  LatencyMemory first("a", Path(), Key());
  EXPECT_EQ(first.Recall(), LatencyCoefficients{});
  first.Keep({});  // nothing was learnt: nothing is written
  EXPECT_FALSE(fs::exists(Path()));
  first.Keep(kLearnt);
  LatencyMemory second("a", Path(), Key());
  EXPECT_EQ(second.Recall(), kLearnt);
  // What is there already is not written again.
  fs::remove(Path());
  first.Keep(kLearnt);
  second.Keep(kLearnt);
  EXPECT_FALSE(fs::exists(Path()));
  second.Keep({.step = 3});
  EXPECT_EQ(LatencyMemory("a", Path(), Key()).Recall(), LatencyCoefficients{.step = 3});
}

// Several daemons that share a folder: readers see one of the files that were written, whole.
TEST_F(LatencyCacheTest, WritersAtTheSameTimeDoNotMix) {
  constexpr int kRounds = 200;
  const LatencyKey key = Key();
  const std::string path = Path();
  ASSERT_TRUE(WriteLatencyCache(path, key, {.step = 1, .decoder = 1}).ok());
  std::atomic<int> failures{0};
  std::vector<std::thread> writers;
  for (int writer = 1; writer <= 3; ++writer) {
    writers.emplace_back([&, writer] {
      for (int i = 1; i <= kRounds; ++i) {
        const double value = writer + 1e-3 * i;
        failures += !WriteLatencyCache(path, key, {.step = value, .decoder = value}).ok();
      }
    });
  }
  for (int i = 0; i < 2 * kRounds; ++i) {
    const Result<LatencyCoefficients> read = ReadLatencyCache(path, key);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    ASSERT_EQ(read->step, read->decoder);
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(LatencyCacheTest, ACacheLiesBesideTheModelUnlessItIsToldOtherwise) {
  EXPECT_EQ(CacheFolder("", "/models/a.gguf"), "/models/.skipjack");
  EXPECT_EQ(CacheFolder("/var/cache", "/models/a.gguf"), "/var/cache");
  EXPECT_EQ(CacheFolder("none", "/models/a.gguf"), "");
}

}  // namespace
}  // namespace skipjack
