// The service over a real engine and scheduler, with the fake runner below them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/inference_service.h"
#include "tests/support/event.h"
#include "tests/support/fake_served_model.h"
#include "tests/support/recording_listener.h"

namespace skipjack {
namespace {

using testing::FakeServedModelOptions;
using testing::MakeFakeServedModel;
using testing::RecordingListener;

class WholePathTest : public ::testing::Test {
 protected:
  void Serve(const FakeServedModelOptions& options) {
    service_.reset();
    model_ = MakeFakeServedModel(options);
    registry_ = std::make_unique<ModelRegistry>();
    registry_->Add(model_);
    InferenceServiceOptions service_options;
    service_options.max_live_requests = 256;
    service_ = CreateInferenceService(*registry_, service_options);
  }

  std::shared_ptr<RecordingListener> Start(const CompletionRequest& request,
                                           std::shared_ptr<CompletionCall>* call = nullptr) {
    auto listener = std::make_shared<RecordingListener>();
    auto started = service_->Start(request, listener);
    if (call) *call = std::move(started);
    return listener;
  }

  static CompletionRequest Greedy(const std::string& prompt, std::int64_t tokens) {
    CompletionRequest request;
    request.prompt = prompt;
    request.temperature = 0;
    request.max_tokens = tokens;
    request.ignore_eos = true;
    return request;
  }

  std::string TextOf(const std::shared_ptr<RecordingListener>& listener, std::int32_t choice = 0) {
    const Completed completed = listener->WaitUntilCompleted();
    EXPECT_TRUE(completed.status.ok()) << completed.status.ToString();
    EXPECT_EQ(listener->violation(), "");
    return listener->choices()[choice].text;
  }

  void ExpectNothingLeft() {
    service_.reset();
    EXPECT_EQ(model_->engine->Live(), 0);
    const SchedulerStats stats = model_->engine->Stats().scheduler;
    EXPECT_EQ(stats.blocks_used, 0);
    EXPECT_EQ(stats.waiting, 0);
    EXPECT_EQ(stats.running, 0);
  }

  std::unique_ptr<ModelRegistry> registry_;
  std::shared_ptr<ServedModel> model_;
  std::unique_ptr<InferenceService> service_;
};

TEST_F(WholePathTest, TheSameTextAloneAndAmongOthers) {
  Serve({.max_sequences = 8});
  std::vector<std::string> alone;
  for (int i = 0; i < 10; ++i) alone.push_back(TextOf(Start(Greedy("prompt " + std::to_string(i), 40))));
  EXPECT_EQ(alone[0].size(), 40u);
  std::vector<std::shared_ptr<RecordingListener>> together;
  for (int i = 0; i < 100; ++i) together.push_back(Start(Greedy("prompt " + std::to_string(i % 10), 40)));
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(TextOf(together[i]), alone[i % 10]);
  ExpectNothingLeft();
}

TEST_F(WholePathTest, ATightPoolChangesNothing) {
  Serve({.context_length = 96, .max_sequences = 8});
  std::vector<std::string> roomy;
  for (int i = 0; i < 8; ++i) roomy.push_back(TextOf(Start(Greedy("prompt " + std::to_string(i), 60))));
  testing::Event all_submitted;  // or the first could end before the last comes
  bool first = true;
  Serve({.context_length = 96, .kv_blocks = 12, .max_sequences = 8, .on_step = [&](const StepBatch&) {
           if (std::exchange(first, false)) all_submitted.Wait();
           return Status();
         }});
  std::vector<std::shared_ptr<RecordingListener>> tight;
  for (int i = 0; i < 8; ++i) tight.push_back(Start(Greedy("prompt " + std::to_string(i), 60)));
  while (model_->engine->Live() < 8) std::this_thread::yield();
  all_submitted.Set();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(TextOf(tight[i]), roomy[i]);
  EXPECT_GT(model_->engine->Stats().scheduler.preemptions, 0u);
  ExpectNothingLeft();
}

TEST_F(WholePathTest, SeedsRepeatAndChoicesDiffer) {
  Serve({});
  CompletionRequest request = Greedy("once", 40);
  request.temperature = 2;
  request.seed = 7;
  request.n = 3;
  const auto first = Start(request);
  const auto second = Start(request);
  for (int choice = 0; choice < 3; ++choice) EXPECT_EQ(TextOf(first, choice), TextOf(second, choice));
  EXPECT_NE(TextOf(first, 0), TextOf(first, 1));
  // Choice 1 is what seed 8 alone gives.
  request.n = 1;
  request.seed = 8;
  EXPECT_EQ(TextOf(Start(request)), TextOf(first, 1));
  ExpectNothingLeft();
}

TEST_F(WholePathTest, BytesThatAreNoTextComeOutAsValidUtf8WithAllTokens) {
  Serve({.printable = false});
  CompletionRequest request = Greedy("x", 200);
  request.skip_special_tokens = false;
  const auto listener = Start(request);
  const std::string text = TextOf(listener);
  const RecordingListener::Choice choice = listener->choices()[0];
  std::vector<TokenId> ids;
  for (const TokenPiece& piece : choice.tokens) ids.push_back(piece.id);
  EXPECT_EQ(ids.size(), 200u);
  EXPECT_EQ(text, model_->tokenizer->Decode(ids, false));
  ExpectNothingLeft();
}

TEST_F(WholePathTest, LogprobsAreThoseOfTheChosenTokens) {
  Serve({});
  CompletionRequest request = Greedy("x", 5);
  request.top_logprobs = 3;
  const auto listener = Start(request);
  TextOf(listener);
  const RecordingListener::Choice choice = listener->choices()[0];
  ASSERT_EQ(choice.tokens.size(), 5u);
  for (const TokenPiece& piece : choice.tokens) {
    ASSERT_EQ(piece.top.size(), 3u);
    EXPECT_EQ(piece.top[0].id, piece.id);  // greedy
    EXPECT_EQ(piece.top[0].logprob, piece.logprob);
    EXPECT_LE(piece.top[1].logprob, piece.top[0].logprob);
  }
}

TEST_F(WholePathTest, CancellingFreesTheBlocks) {
  testing::Event go_on;
  bool first = true;
  FakeServedModelOptions options;
  options.on_step = [&](const StepBatch&) {
    if (std::exchange(first, false)) go_on.Wait();
    return Status();
  };
  Serve(options);
  std::vector<std::shared_ptr<RecordingListener>> listeners;
  std::vector<std::shared_ptr<CompletionCall>> calls(60);
  for (auto& call : calls)
    listeners.push_back(Start(Greedy("a longer prompt than one block has tokens", 400), &call));
  go_on.Set();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i % 8 == 0) listeners[i]->WaitForTokens(0, 1);  // so that some decode, some prefill and some wait
    calls[i]->Cancel(Status::Cancelled("the client left"));
  }
  for (const auto& listener : listeners) {
    const Status status = listener->WaitUntilCompleted().status;
    EXPECT_TRUE(status.ok() || status == Status::Cancelled("the client left")) << status.ToString();
    EXPECT_EQ(listener->violation(), "");
  }
  ExpectNothingLeft();
}

TEST_F(WholePathTest, TenantsDoNotShareTheirPrefixes) {
  Serve({});
  const std::string prompt(64, 'p');
  const auto cached = [&](const std::string& tenant) {
    CompletionRequest request = Greedy(prompt, 2);
    request.tenant = tenant;
    return Start(request)->WaitUntilCompleted().usage.cached_tokens;
  };
  EXPECT_EQ(cached("a"), 0);
  EXPECT_GT(cached("a"), 0);
  EXPECT_EQ(cached("b"), 0);
  EXPECT_EQ(cached(""), 0);
}

TEST_F(WholePathTest, CacheSaltsPartATenantsPrefixesFurther) {
  Serve({});
  const auto cached = [&](const std::string& tenant, const std::string& salt) {
    CompletionRequest request = Greedy(std::string(64, 'p'), 2);
    request.tenant = tenant;
    request.cache_salt = salt;
    return Start(request)->WaitUntilCompleted().usage.cached_tokens;
  };
  EXPECT_EQ(cached("a", "s"), 0);
  EXPECT_GT(cached("a", "s"), 0);
  EXPECT_EQ(cached("a", ""), 0);
  EXPECT_EQ(cached("a", "t"), 0);
  EXPECT_EQ(cached("b", "s"), 0);
  EXPECT_EQ(cached("", "s"), 0);
  EXPECT_EQ(cached("s", ""), 0);
  EXPECT_EQ(cached("as", ""), 0);
}

TEST_F(WholePathTest, AnOverfullPoolIsRefusedAtOnceWithItsNumbers) {
  Serve({.context_length = 512, .kv_blocks = 4});
  const Completed completed = Start(Greedy(std::string(40, 'x'), 100))->WaitUntilCompleted();
  EXPECT_EQ(completed.status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(completed.status.message(), ::testing::HasSubstr("the pool has 4"));
}

}  // namespace
}  // namespace skipjack
