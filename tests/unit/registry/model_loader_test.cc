#include "registry/model_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <vector>

namespace skipjack {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr char kModel[] = SKIPJACK_FIXTURES "/gguf/llama.F32.gguf";

ModelEntry Entry() {
  ModelEntry entry;
  entry.name = "tiny";
  entry.path = kModel;
  entry.compute = "f32";
  entry.isa = "generic";
  entry.threads = 1;
  entry.scheduler.max_sequences = 4;
  entry.scheduler.max_batch_tokens = 64;
  return entry;
}

Status LoadStatus(const ModelEntry& entry) {
  return LoadServedModel(entry, 100, {}).status();
}

class CountingObserver final : public EngineObserver {
 public:
  std::atomic<int> calls{0};
  void OnStep(double, std::int32_t, std::int32_t) override { ++calls; }
  void OnToken(double) override { ++calls; }
  void OnFirstToken(double, double) override { ++calls; }
  void OnFinish(const FinishEvent&, double) override { ++calls; }
};

TEST(ModelLoaderTest, LoadsAndWarmsAModel) {
  const auto observer = std::make_shared<CountingObserver>();
  std::vector<std::string> phases;
  LoadHooks hooks;
  hooks.observer = observer;
  hooks.progress = [&](const std::string& phase, double fraction) {
    EXPECT_GE(fraction, 0.0);
    EXPECT_LE(fraction, 1.0);
    if (phases.empty() || phases.back() != phase) phases.push_back(phase);
  };
  auto loaded = LoadServedModel(Entry(), 100, hooks);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const ServedModel& model = **loaded;
  EXPECT_EQ(model.name, "tiny");
  EXPECT_EQ(model.config.architecture, "llama");
  EXPECT_EQ(model.context_length, model.config.context_length);
  EXPECT_THAT(model.description, HasSubstr("llama"));
  EXPECT_THAT(model.description, HasSubstr("f32"));
  EXPECT_FALSE(model.end_tokens.empty());
  EXPECT_GT(model.created_unix_seconds, 1'600'000'000);
  EXPECT_THAT(phases, Contains("reading the file"));
  EXPECT_THAT(phases, Contains("warming up"));
  // The warm-up really computed, and shows nowhere.
  const EngineStats stats = model.engine->Stats();
  EXPECT_GT(stats.longest_step_seconds, 0.0);
  EXPECT_EQ(stats.steps + stats.generated_tokens + stats.prompt_tokens + stats.finished_length, 0u);
  EXPECT_EQ(stats.scheduler.blocks_free, stats.scheduler.blocks_total);
  EXPECT_EQ(observer->calls, 0);
}

TEST(ModelLoaderTest, RefusesWhatThisVersionLacks) {
  ModelEntry entry = Entry();
  entry.backend = "cuda";
  EXPECT_EQ(LoadStatus(entry).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(LoadStatus(entry).message(), HasSubstr("this version computes on the CPU only"));
}

TEST(ModelLoaderTest, LowerTiersAreSetUpAndADiskThatCannotBeUsedIsNamed) {
  ModelEntry entry = Entry();
  entry.kv.host_memory = 1 << 20;
  entry.kv.disk_path = ::testing::TempDir();
  entry.kv.disk_size = 1 << 20;
  const auto model = LoadServedModel(entry, 100, {});
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const SchedulerStats stats = (*model)->engine->Stats().scheduler;
  EXPECT_GT(stats.host_blocks_total, 0);
  EXPECT_EQ(stats.disk_blocks_total, stats.host_blocks_total);
  EXPECT_EQ(stats.disk_blocks_free, stats.disk_blocks_total);
  entry.kv.disk_path = "/proc/nothing";
  EXPECT_THAT(LoadStatus(entry).message(), HasSubstr("kv.disk.path: no file can be made in '/proc/nothing'"));
}

TEST(ModelLoaderTest, ACancelledLoadEndsWhilePacking) {
  std::atomic<bool> cancel{false};
  LoadHooks hooks;
  hooks.cancel = &cancel;
  std::vector<std::string> phases;
  hooks.progress = [&](const std::string& phase, double) {
    phases.push_back(phase);
    if (phase == "packing weights") cancel = true;
  };
  EXPECT_EQ(LoadServedModel(Entry(), 100, hooks).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(phases.back(), "packing weights");
}

// What the scheduler would refuse is found before the weights are packed.
TEST(ModelLoaderTest, ContradictionsAreFoundBeforeTheWeightsArePacked) {
  ModelEntry entry = Entry();
  entry.scheduler.max_batch_tokens = 3;
  std::vector<std::string> phases;
  LoadHooks hooks;
  hooks.progress = [&](const std::string& phase, double) { phases.push_back(phase); };
  EXPECT_THAT(LoadServedModel(entry, 100, hooks).status().message(), HasSubstr("max_batch_tokens (3)"));
  EXPECT_THAT(phases, ::testing::Not(Contains("packing weights")));
}

TEST(ModelLoaderTest, NamesUnknownWords) {
  ModelEntry entry = Entry();
  entry.backend = "tpu";
  EXPECT_THAT(LoadStatus(entry).message(), HasSubstr("unknown backend 'tpu'"));
  entry = Entry();
  entry.compute = "int3";
  EXPECT_THAT(LoadStatus(entry).message(), HasSubstr("unknown type 'int3'"));
  entry = Entry();
  entry.isa = "neon";
  EXPECT_THAT(LoadStatus(entry).message(), HasSubstr("'neon'"));
  entry = Entry();
  entry.kv.dtype = "q4";
  EXPECT_THAT(LoadStatus(entry).message(), HasSubstr("'q4'"));
  entry = Entry();
  entry.scheduler.policy = "lottery";
  EXPECT_THAT(LoadStatus(entry).message(), HasSubstr("lottery"));
}

TEST(ModelLoaderTest, AContextBeyondTheModelsIsRefused) {
  ModelEntry entry = Entry();
  entry.context_length = 1 << 20;
  EXPECT_THAT(LoadStatus(entry).message(), HasSubstr("context_length is 1048576"));
}

TEST(ModelLoaderTest, AConfiguredTemplateReplacesTheModels) {
  const std::string path = ::testing::TempDir() + "/model_loader_test.jinja";
  std::ofstream(path) << "{{ messages[0].content }}";
  ModelEntry entry = Entry();
  entry.chat_template = path;
  entry.stop = {"<|end|>"};
  const auto loaded = LoadServedModel(entry, 100, {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  ASSERT_TRUE((*loaded)->chat_template);
  EXPECT_EQ((*loaded)->end_strings, entry.stop);
  EXPECT_EQ((*loaded)->sampled_ids(), static_cast<std::int32_t>((*loaded)->tokenizer->vocabulary_size()));
  std::ofstream(path) << "{% broken";
  EXPECT_THAT(LoadStatus(entry).message(), HasSubstr(path));
  entry.chat_template = "/nonexistent.jinja";
  EXPECT_EQ(LoadStatus(entry).code(), StatusCode::kNotFound);
}

TEST(ModelLoaderTest, AnUnknownPreTokenizerIsRefused) {
  ModelEntry entry = Entry();
  entry.pre_tokenizer = "no-such-rule";
  EXPECT_THAT(LoadStatus(entry).message(), HasSubstr("no-such-rule"));
}

}  // namespace
}  // namespace skipjack
