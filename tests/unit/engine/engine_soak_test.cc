// Thousands of requests with everything that can go wrong, from several threads. Whatever happened to a
// sequence, its sink was told once, its tokens are a prefix of what the model would have said, and everything
// is given back.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include "tests/unit/engine/engine_harness.h"

namespace skipjack::testing {
namespace {

constexpr int kThreads = 3;
constexpr int kRequestsPerThread = 900;
// Of one client at a time: together they are more than the queue and the seats hold.
constexpr std::size_t kOutstanding = 26;

struct Submitted {
  std::vector<TokenId> prompt;
  std::int32_t max_tokens = 0;
  std::shared_ptr<RecordingSink> sink;
};

class Client {
 public:
  Client(Engine& engine, const ManualClock& clock, unsigned seed)
      : engine_(engine), clock_(clock), random_(seed) {}

  void Run() {
    for (int i = 0; i < kRequestsPerThread; ++i) {
      SubmitOne();
      if (random_() % 4 == 0 && !ids_.empty()) {
        engine_.Cancel(ids_[random_() % ids_.size()], Status::Cancelled("by chance"));
      }
      if (random_() % 16 == 0) engine_.Stats();
      if (submitted.size() - waited_for_ >= kOutstanding) submitted[waited_for_++].sink->Wait();
    }
  }

  std::vector<Submitted> submitted;
  int refused = 0;

 private:
  void SubmitOne() {
    Submitted one;
    one.prompt = Prompt(1 + random_() % 50,
                        static_cast<unsigned>(random_() % 40));  // few distinct ones: prefixes are shared
    one.max_tokens = static_cast<std::int32_t>(1 + random_() % 30);
    SequenceRequest request = Request(one.prompt, one.max_tokens);
    if (random_() % 8 == 0) request.deadline = clock_.Now() + std::chrono::milliseconds(random_() % 200);
    request.priority = static_cast<PriorityClass>(random_() % 3);
    request.sampling.top_logprobs = random_() % 8 == 0 ? 2 : -1;
    const auto stop_at = static_cast<std::int32_t>(random_() % 60);
    const bool cancels_itself = random_() % 10 == 0;
    const auto own_id = std::make_shared<std::atomic<SequenceId>>(0);
    one.sink =
        std::make_shared<RecordingSink>([this, stop_at, cancels_itself, own_id](const TokenEvent& event) {
          if (cancels_itself) engine_.Cancel(*own_id, Status::Cancelled("from inside"));
          return event.index == stop_at;
        });
    const Result<SequenceId> id = engine_.Submit(std::move(request), one.sink);
    if (!id.ok()) {
      EXPECT_EQ(id.status().code(), StatusCode::kResourceExhausted) << id.status().ToString();
      EXPECT_EQ(one.sink->finishes(), 0);
      ++refused;
      if (waited_for_ < submitted.size()) submitted[waited_for_++].sink->Wait();
      return;
    }
    *own_id = *id;
    ids_.push_back(*id);
    submitted.push_back(std::move(one));
  }

  Engine& engine_;
  const ManualClock& clock_;
  std::mt19937 random_;
  std::vector<SequenceId> ids_;
  std::size_t waited_for_ = 0;  // the first of submitted that has not been waited for
};

void ExpectSane(const Submitted& one) {
  const FinishEvent finish = one.sink->Wait();
  EXPECT_EQ(one.sink->finishes(), 1);
  EXPECT_FALSE(one.sink->disordered());
  const std::vector<TokenId> tokens = one.sink->tokens();
  EXPECT_EQ(finish.generated_tokens, static_cast<std::int32_t>(tokens.size()));
  EXPECT_LE(tokens.size(), static_cast<std::size_t>(one.max_tokens));
  EXPECT_EQ(tokens, Reference(one.prompt, finish.generated_tokens));
  const bool failed = finish.reason == FinishReason::kError || finish.reason == FinishReason::kCancelled;
  EXPECT_EQ(finish.status.ok(), !failed);
  if (finish.reason == FinishReason::kLength) {
    EXPECT_EQ(finish.generated_tokens, one.max_tokens);
  }
}

TEST(EngineSoakTest, EverySequenceEndsOnceAndNothingIsLost) {
  ManualClock clock;
  EngineSetup setup;
  setup.clock = &clock;
  setup.scheduler.kv_blocks = 48;
  setup.scheduler.max_batch_tokens = 24;
  setup.scheduler.max_sequences = 6;
  setup.scheduler.max_queued = 60;
  // An interrupted step would neither fail nor end a row of failures: engine_interrupt_test.cc has them.
  setup.max_interrupted_part = 0;
  // Some calls fail, so that some steps are repeated and a few fail for good; never three steps in a row.
  setup.on_forward = [&clock, random = std::make_shared<std::mt19937>(5),
                      failed = std::make_shared<int>(0)](const StepBatch&) {
    clock.Advance(std::chrono::milliseconds(1));
    if (*failed < 3 && (*random)() % 6 == 0) {
      ++*failed;
      return Status::Internal("injected");
    }
    *failed = 0;
    return Status::Ok();
  };
  // A NaN now and then.
  setup.on_logits = [random = std::make_shared<std::mt19937>(6)](std::int32_t, std::span<float> logits) {
    if ((*random)() % 500 == 0) logits[0] = std::nanf("");
  };
  const auto engine = MakeEngine(setup);

  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    clients.push_back(std::make_unique<Client>(*engine, clock, i));
    threads.emplace_back([client = clients.back().get()] { client->Run(); });
  }
  for (std::thread& thread : threads) thread.join();

  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;
  std::uint64_t tokens = 0;
  for (const auto& client : clients) {
    for (const Submitted& one : client->submitted) {
      ExpectSane(one);
      tokens += one.sink->tokens().size();
    }
    accepted += client->submitted.size();
    refused += static_cast<std::uint64_t>(client->refused);
  }
  ExpectAllGivenBack(*engine);
  const EngineStats stats = engine->Stats();
  EXPECT_EQ(stats.finished_stop + stats.finished_length + stats.finished_cancelled + stats.finished_error,
            accepted);
  EXPECT_EQ(stats.rejected, refused);
  EXPECT_EQ(stats.generated_tokens, tokens);
  // The soak met what it is about.
  EXPECT_GT(stats.finished_stop, 0u);
  EXPECT_GT(stats.finished_length, 0u);
  EXPECT_GT(stats.finished_cancelled, 0u);
  EXPECT_GT(stats.finished_error, 0u);
  EXPECT_GT(stats.non_finite_logits, 0u);
  EXPECT_GT(stats.scheduler.preemptions, 0u);
  EXPECT_GT(stats.scheduler.prefix_hit_tokens, 0u);
  EXPECT_TRUE(engine->Health().ok());
}

}  // namespace
}  // namespace skipjack::testing
