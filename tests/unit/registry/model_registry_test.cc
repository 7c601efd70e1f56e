#include "registry/model_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/manual_engine.h"

namespace skipjack {
namespace {

using ::testing::HasSubstr;
using testing::ManualEngine;

std::shared_ptr<ManualEngine> AddModel(ModelRegistry& registry, const std::string& name) {
  auto engine = std::make_shared<ManualEngine>();
  auto model = std::make_shared<ServedModel>();
  model->name = name;
  model->engine = engine;
  registry.Add(std::move(model));
  return engine;
}

TEST(ModelRegistryTest, AnEmptyServerIsNotReady) {
  ModelRegistry registry;
  EXPECT_EQ(registry.Health().code(), StatusCode::kUnavailable);
  EXPECT_EQ(registry.Find("").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(registry.Find("x").status().message(),
              HasSubstr("model 'x' is not served here; there are: none"));
}

TEST(ModelRegistryTest, FindsByNameOrTheOnlyOne) {
  ModelRegistry registry;
  AddModel(registry, "a");
  EXPECT_EQ((*registry.Find("a"))->name, "a");
  EXPECT_EQ((*registry.Find(""))->name, "a");
  AddModel(registry, "b");
  EXPECT_EQ((*registry.Find("b"))->name, "b");
  EXPECT_EQ(registry.Find("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(registry.Find("").status().message(), HasSubstr("a, b"));
  EXPECT_THAT(registry.Find("c").status().message(), HasSubstr("there are: a, b"));
}

TEST(ModelRegistryTest, ADeclaredModelIsLoadingUntilItIsThere) {
  ModelRegistry registry;
  registry.Declare("a");
  EXPECT_EQ(registry.Find("a").status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(registry.Find("").status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(registry.Health().code(), StatusCode::kUnavailable);
  ASSERT_EQ(registry.Statuses().size(), 1u);
  EXPECT_EQ(registry.Statuses()[0].state, ModelState::kLoading);
  EXPECT_TRUE(registry.Ready().empty());
  AddModel(registry, "a");
  EXPECT_TRUE(registry.Find("a").ok());
  EXPECT_TRUE(registry.Health().ok());
  ASSERT_EQ(registry.Statuses().size(), 1u);
  EXPECT_EQ(registry.Statuses()[0].state, ModelState::kReady);
}

TEST(ModelRegistryTest, AFailedLoadIsRememberedWithItsReason) {
  ModelRegistry registry;
  AddModel(registry, "good");
  ModelEntry entry;
  entry.name = "bad";
  entry.path = "/nonexistent/model.gguf";
  const Status status = registry.Load(entry, nullptr);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("model 'bad': "));
  EXPECT_THAT(status.message(), HasSubstr("/nonexistent/model.gguf"));
  EXPECT_EQ(registry.Statuses()[1].state, ModelState::kFailed);
  EXPECT_EQ(registry.Find("bad").status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(registry.Find("bad").status().message(), HasSubstr("failed to load"));
  EXPECT_THAT(registry.Health().message(), HasSubstr("bad"));
  EXPECT_TRUE(registry.Find("good").ok());  // the others serve
}

TEST(ModelRegistryTest, HealthFollowsTheEngines) {
  ModelRegistry registry;
  AddModel(registry, "a");
  const auto b = AddModel(registry, "b");
  EXPECT_TRUE(registry.Health().ok());
  b->health = Status::Internal("device lost");
  EXPECT_EQ(registry.Health().code(), StatusCode::kUnavailable);
  EXPECT_THAT(registry.Health().message(), HasSubstr("model 'b': device lost"));
  EXPECT_EQ(registry.Statuses()[1].error, b->health);
}

TEST(ModelRegistryTest, AFailedModelMayBeServedAround) {
  ModelRegistry registry({.serve_others = true});
  ModelEntry entry;
  entry.name = "bad";
  entry.path = "/nonexistent/model.gguf";
  EXPECT_FALSE(registry.Load(entry, nullptr).ok());
  EXPECT_THAT(registry.Health().message(), HasSubstr("bad"));  // nothing else is there
  registry.Declare("later");
  EXPECT_FALSE(registry.Health().ok());
  const auto good = AddModel(registry, "later");
  EXPECT_TRUE(registry.Health().ok());
  EXPECT_THAT(registry.Find("bad").status().message(), HasSubstr("failed to load"));
  good->health = Status::Internal("device lost");
  EXPECT_THAT(registry.Health().message(), HasSubstr("device lost"));
}

TEST(ModelRegistryTest, AModelIsLoadedOnce) {
  ModelRegistry registry;
  AddModel(registry, "a");
  ModelEntry entry;
  entry.name = "a";
  EXPECT_EQ(registry.Load(entry, nullptr).code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(registry.Find("a").ok());
}

}  // namespace
}  // namespace skipjack
