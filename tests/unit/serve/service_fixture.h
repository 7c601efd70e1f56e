// A service over one model whose step loop the test plays.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "registry/model_registry.h"
#include "serve/inference_service.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/event.h"
#include "tests/support/manual_engine.h"
#include "tests/support/recording_listener.h"

namespace skipjack::testing {

inline constexpr std::int32_t kContext = 100;

// "bytes": ids are bytes, the context is 100 tokens; the template writes "role:content" in trusted frames.
inline std::shared_ptr<ServedModel> MakeModel(const std::string& name, std::shared_ptr<Engine> engine,
                                              bool add_bos = true) {
  auto model = std::make_shared<ServedModel>();
  model->name = name;
  model->created_unix_seconds = 1700000000;
  model->config.architecture = "fake";
  model->config.vocabulary_rows = ByteTokenizer::kVocabulary;
  model->context_length = kContext;
  model->description = "a fake";
  model->tokenizer = std::make_shared<ByteTokenizer>(add_bos);
  model->bos_token = "<bos>";
  model->eos_token = "<eos>";
  model->end_tokens = model->tokenizer->EndOfGenerationTokens();
  model->engine = std::move(engine);
  return model;
}

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() : model_(MakeModel("bytes", engine_)) {
    registry_.Add(model_);
    options_.max_live_requests = 4;
    options_.max_n = 4;
    options_.worker_threads = 1;
    options_.clock = &clock_;
  }

  InferenceService& service() {
    if (!service_) service_ = CreateInferenceService(registry_, options_);
    return *service_;
  }

  static CompletionRequest Text(std::string prompt) {
    CompletionRequest request;
    request.prompt = std::move(prompt);
    return request;
  }

  std::shared_ptr<RecordingListener> Start(CompletionRequest request,
                                           std::shared_ptr<CompletionCall>* call = nullptr) {
    auto listener = std::make_shared<RecordingListener>();
    auto started = service().Start(std::move(request), listener);
    if (call) *call = std::move(started);
    return listener;
  }

  // The status of a request that must end by itself.
  Status Refused(CompletionRequest request) {
    const auto listener = Start(std::move(request));
    const Status status = listener->WaitUntilCompleted().status;
    EXPECT_FALSE(listener->accepted());
    EXPECT_EQ(listener->violation(), "");
    return status;
  }

  // The only worker stands still until the returned event is set.
  std::shared_ptr<Event> BlockWorker() {
    const auto blocked = std::make_shared<Event>();
    auto gate = std::make_shared<Event>();
    EXPECT_TRUE(service().RunOnWorker([blocked, gate] {
      blocked->Set();
      gate->Wait();
    }));
    blocked->Wait();
    return gate;
  }

  ManualClock clock_;
  std::shared_ptr<ManualEngine> engine_ = std::make_shared<ManualEngine>();
  std::shared_ptr<ServedModel> model_;
  ModelRegistry registry_;
  InferenceServiceOptions options_;
  std::unique_ptr<InferenceService> service_;
};

}  // namespace skipjack::testing
