// The service as a whole: limits, prompts, models, drain.
#include "serve/inference_service.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "serve/completion_session.h"
#include "tests/unit/serve/service_fixture.h"
#include "text/chat_template.h"

namespace skipjack {
namespace {

using testing::ByteTokenizer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kContext;
using testing::ManualEngine;
using ::testing::StartsWith;

class InferenceServiceTest : public testing::ServiceTest {
 protected:
  void UseTemplate(const std::string& source) {
    auto parsed = ChatTemplate::Parse(source);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    model_->chat_template = *parsed;
  }

  static CompletionRequest Chat(const std::string& variables) {
    CompletionRequest request;
    request.prompt = ChatPrompt{nlohmann::ordered_json::parse(variables)};
    return request;
  }

  std::vector<TokenId> PromptOf(CompletionRequest request) {
    const auto listener = Start(std::move(request));
    const SequenceId id = engine_->WaitForSequences(1)[0];
    engine_->Finish(id, FinishReason::kLength);
    EXPECT_TRUE(listener->WaitUntilCompleted().status.ok());
    return listener->accepted()->prompt_tokens;
  }

  static std::vector<TokenId> Bytes(std::string_view text) {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
};

constexpr char kFrames[] =
    "{% for m in messages %}<bos>{{ m.role }}:{{ m.content }}{% endfor %}{% if add_generation_prompt %}!{% "
    "endif %}";

TEST_F(InferenceServiceTest, FieldsAreCheckedBeforeAnythingReachesTheEngine) {
  CompletionRequest request = Text("x");
  request.temperature = -1;
  EXPECT_THAT(Refused(std::move(request)).message(), HasSubstr("temperature"));
  request = Text("x");
  request.tenant = "two words";
  EXPECT_THAT(Refused(std::move(request)).message(), HasSubstr("tenant"));
  request = Text("x");
  request.prompt = std::vector<TokenId>{1, ByteTokenizer::kVocabulary};
  EXPECT_THAT(Refused(std::move(request)).message(), HasSubstr("got 259"));
  request = Text("x");
  request.max_tokens = kContext;
  EXPECT_THAT(Refused(std::move(request)).message(), HasSubstr("max_tokens is 100"));
  EXPECT_THAT(Refused(Text(std::string(200, 'x'))).message(),
              HasSubstr("the prompt has at least 200 tokens"));
  EXPECT_EQ(engine_->Live(), 0);
}

TEST_F(InferenceServiceTest, AThousandRefusalsLeaveNothingBehind) {
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(Refused(Text(std::string(200, 'x'))).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(service().LiveRequests(), 0);
  EXPECT_THAT(PromptOf(Text("x")), ElementsAre(ByteTokenizer::kBos, 'x'));
}

TEST_F(InferenceServiceTest, IdsAreTakenAsTheyAre) {
  CompletionRequest request;
  request.prompt = std::vector<TokenId>{ByteTokenizer::kEos, 0, 255};
  EXPECT_THAT(PromptOf(std::move(request)), ElementsAre(ByteTokenizer::kEos, 0, 255));
  request.prompt = std::vector<TokenId>{};
  EXPECT_THAT(Refused(std::move(request)).message(), HasSubstr("empty"));
}

TEST_F(InferenceServiceTest, AnEmptyTextIsTheStartTokenWhereTheModelHasOne) {
  EXPECT_THAT(PromptOf(Text("")), ElementsAre(ByteTokenizer::kBos));
  CompletionRequest request = Text("");
  request.add_special_tokens = false;
  EXPECT_THAT(Refused(std::move(request)).message(), HasSubstr("empty"));
}

TEST_F(InferenceServiceTest, UserTextNeverTurnsIntoControlTokens) {
  EXPECT_EQ(PromptOf(Text("<eos>")).size(), 6u);
  UseTemplate(kFrames);
  const std::vector<TokenId> chat = PromptOf(Chat(R"({"messages": [{"role": "u", "content": "<eos>"}]})"));
  EXPECT_EQ(chat.front(), ByteTokenizer::kBos);  // the template's own
  EXPECT_EQ(chat.size(), 1u + 2u + 5u);
}

TEST_F(InferenceServiceTest, AChatIsRenderedAndMayUseTheRestOfTheContext) {
  UseTemplate(kFrames);
  const auto listener =
      Start(Chat(R"({"messages": [{"role": "u", "content": "hi"}], "add_generation_prompt": true})"));
  const SequenceRequest submitted = engine_->RequestOf(engine_->WaitForSequences(1)[0]);
  std::vector<TokenId> expected = Bytes("u:hi!");
  expected.insert(expected.begin(), ByteTokenizer::kBos);
  EXPECT_EQ(submitted.prompt, expected);
  EXPECT_EQ(submitted.sampling.max_tokens, kContext - 6);
}

TEST_F(InferenceServiceTest, TextPartsOfAMessageAreJoined) {
  UseTemplate("{% for m in messages %}{{ m.content }}{% endfor %}");
  CompletionRequest request = Chat(
      R"({"messages": [{"role": "u", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})");
  request.add_special_tokens = false;
  EXPECT_EQ(PromptOf(std::move(request)), Bytes("a\nb"));
  EXPECT_THAT(Refused(Chat(R"({"messages": [{"role": "u", "content": [{"type": "image_url"}]}]})")).message(),
              HasSubstr("messages[0].content[0].type must be \"text\""));
}

TEST_F(InferenceServiceTest, ChatsThatAreNoneAreNamed) {
  UseTemplate(kFrames);
  EXPECT_THAT(Refused(Chat("{}")).message(), HasSubstr("messages must be a list"));
  EXPECT_THAT(Refused(Chat(R"({"messages": []})")).message(), HasSubstr("at least one"));
  EXPECT_THAT(Refused(Chat(R"({"messages": [3]})")).message(), HasSubstr("messages[0]"));
  EXPECT_THAT(Refused(Chat(R"({"messages": [{"role": 3}]})")).message(), HasSubstr("messages[0]"));
  EXPECT_THAT(Refused(Chat(R"({"messages": [{"role": "u", "content": 3}]})")).message(),
              HasSubstr("messages[0].content"));
  std::string deep = "0";
  for (int i = 0; i < 100; ++i) deep = "[" + deep + "]";
  EXPECT_THAT(
      Refused(Chat(R"({"messages": [{"role": "u", "content": "x", "more": )" + deep + "}]}")).message(),
      HasSubstr("64 levels"));
}

TEST_F(InferenceServiceTest, TemplateVariablesAreFew) {
  UseTemplate("{{ messages[0].content }}{{ v0 }}");
  const auto with_variables = [](int count) {
    nlohmann::ordered_json variables =
        nlohmann::ordered_json::parse(R"({"messages": [{"role": "u", "content": "x"}]})");
    for (int i = 1; i < count; ++i) variables["v" + std::to_string(i - 1)] = 7;
    CompletionRequest request;
    request.prompt = ChatPrompt{std::move(variables)};
    request.add_special_tokens = false;
    return request;
  };
  EXPECT_EQ(PromptOf(with_variables(64)), Bytes("x7"));
  EXPECT_THAT(Refused(with_variables(65)).message(), HasSubstr("at most 64 template variables"));
  EXPECT_THAT(Refused(with_variables(65)).message(), HasSubstr("got 65"));
}

TEST_F(InferenceServiceTest, TemplatesSeeNoneForToolsAndDocumentsThatAreNotThere) {
  UseTemplate("{{ tools is none }},{{ documents is none }}");
  CompletionRequest request = Chat(R"({"messages": [{"role": "u", "content": "x"}]})");
  request.add_special_tokens = false;
  EXPECT_EQ(PromptOf(std::move(request)), Bytes("True,True"));
  request = Chat(R"({"messages": [{"role": "u", "content": "x"}], "tools": [], "documents": [{}]})");
  request.add_special_tokens = false;
  EXPECT_EQ(PromptOf(std::move(request)), Bytes("True,False"));
}

TEST_F(InferenceServiceTest, WhatTheTemplateObjectsToIsTheClientsError) {
  UseTemplate("{{ raise_exception('roles must alternate') }}");
  const Status status = Refused(Chat(R"({"messages": [{"role": "u", "content": "x"}]})"));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("roles must alternate"));
  UseTemplate("{% for i in range(10000000) %}x{% endfor %}");
  EXPECT_EQ(Refused(Chat(R"({"messages": [{"role": "u", "content": "x"}]})")).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(InferenceServiceTest, AModelWithoutATemplateSaysSo) {
  const char* chat = R"({"messages": [{"role": "u", "content": "x"}]})";
  EXPECT_THAT(Refused(Chat(chat)).message(), HasSubstr("has no chat template"));
  model_->chat_template_error = Status::InvalidArgument("line 3: unknown tag");
  EXPECT_THAT(Refused(Chat(chat)).message(), HasSubstr("line 3: unknown tag"));
}

TEST_F(InferenceServiceTest, OneRequestTooManyIsToldWhenToComeBack) {
  std::vector<std::shared_ptr<testing::RecordingListener>> listeners;
  for (int i = 0; i < 4; ++i) listeners.push_back(Start(Text("x")));
  const std::vector<SequenceId> ids = engine_->WaitForSequences(4);
  const auto refused = Start(Text("x"));
  const Completed completed = refused->WaitUntilCompleted();
  EXPECT_EQ(completed.status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(completed.status.message(), HasSubstr("4 requests are live"));
  EXPECT_GE(completed.retry_after_seconds.value_or(0), 1);
  engine_->Finish(ids[0], FinishReason::kLength);
  listeners[0]->WaitUntilCompleted();
  Start(Text("y"));
  EXPECT_EQ(engine_->WaitForSequences(4).size(), 4u);
}

TEST_F(InferenceServiceTest, TextThatWaitsForTokenisingIsBounded) {
  options_.max_pending_prompt_bytes = 10;
  const auto gate = BlockWorker();
  const auto small = Start(Text("12345678"));
  EXPECT_THAT(Refused(Text("123")).message(), HasSubstr("waits for tokenising"));
  gate->Set();
  engine_->WaitForSequences(1);
  Start(Text("123"));
  engine_->WaitForSequences(2);
}

TEST_F(InferenceServiceTest, DrainingRefusesNewRequestsAndLetsOthersFinish) {
  const auto running = Start(Text("x"));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  EXPECT_TRUE(service().Ready().ok());
  service().BeginDrain();
  EXPECT_TRUE(service().draining());
  EXPECT_EQ(service().Ready().code(), StatusCode::kUnavailable);
  const auto refused = Start(Text("y"));
  EXPECT_EQ(refused->WaitUntilCompleted().status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(refused->WaitUntilCompleted().retry_after_seconds);
  engine_->Generate(id, "still here");
  engine_->Finish(id, FinishReason::kLength);
  EXPECT_TRUE(running->WaitUntilCompleted().status.ok());
  EXPECT_EQ(running->choices().at(0).text, "still here");
}

TEST_F(InferenceServiceTest, RequestsAreCancelledByTheirId) {
  CompletionRequest request = Text("x");
  request.request_id = "same";
  const auto first = Start(request);
  const auto second = Start(request);
  const auto other = Start(Text("x"));
  engine_->WaitForSequences(3);
  EXPECT_EQ(service().CancelById("nobody").code(), StatusCode::kNotFound);
  EXPECT_TRUE(service().CancelById("same").ok());
  EXPECT_EQ(first->WaitUntilCompleted().status.code(), StatusCode::kCancelled);
  EXPECT_EQ(second->WaitUntilCompleted().status.code(), StatusCode::kCancelled);
  EXPECT_FALSE(other->completed());
  EXPECT_EQ(service().LiveRequests(), 1);
  EXPECT_EQ(service().CancelById("same").code(), StatusCode::kNotFound);
}

TEST_F(InferenceServiceTest, LiveRequestsAreListedOldestFirst) {
  CompletionRequest request = Text("abc");
  request.request_id = "one";
  request.tenant = "acme";
  Start(request);
  const SequenceId id = engine_->WaitForSequences(1)[0];
  engine_->Generate(id, "wxyz");
  clock_.Advance(std::chrono::seconds(7));
  request.request_id = "two";
  Start(request);
  engine_->WaitForSequences(2);
  const std::vector<LiveRequest> listed = service().ListRequests(10);
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].request_id, "one");
  EXPECT_EQ(listed[0].model, "bytes");
  EXPECT_EQ(listed[0].tenant, "acme");
  EXPECT_EQ(listed[0].prompt_tokens, 4);
  EXPECT_EQ(listed[0].generated_tokens, 4);
  EXPECT_EQ(listed[0].age, std::chrono::seconds(7));
  EXPECT_EQ(listed[1].request_id, "two");
  EXPECT_EQ(service().ListRequests(1).size(), 1u);
}

TEST_F(InferenceServiceTest, ExplanationsNameRequests) {
  CompletionRequest request = Text("abc");
  request.request_id = "first";
  request.n = 2;
  Start(request)->WaitUntilAccepted();
  request.request_id = "second";
  request.n = 1;
  request.priority = PriorityClass::kBatch;
  Start(request)->WaitUntilAccepted();
  const std::vector<SequenceId> ids = engine_->WaitForSequences(3);
  engine_->SetExplanation(ids[0], {.phase = SequenceExplanation::Phase::kDecoding, .generated_tokens = 4});
  engine_->SetExplanation(ids[1],
                          {.waits_for = WaitNote{.reason = WaitReason::kSharedPrefix, .other = ids[0]}});
  engine_->SetExplanation(
      ids[2],
      {.phase = SequenceExplanation::Phase::kPreempted,
       .waits_for =
           WaitNote{.reason = WaitReason::kBehind, .other = ids[1], .other_reason = WaitReason::kSeat},
       .preemptions = 1,
       .preempted = PreemptionNote{.cause = PreemptionCause::kPriority, .by = ids[1]}});
  const auto explained = service().Explain("", 10);
  ASSERT_TRUE(explained.ok());
  ASSERT_EQ(explained->size(), 2u);
  const RequestExplanation& first = (*explained)[0];
  EXPECT_EQ(first.request.request_id, "first");
  EXPECT_TRUE(first.submitted);
  ASSERT_EQ(first.choices.size(), 2u);
  EXPECT_THAT(first.choices[0].sentence, StartsWith("decodes token 5"));
  EXPECT_EQ(first.choices[1].choice, 1);
  EXPECT_EQ(first.choices[1].other_request_id, "first");
  EXPECT_THAT(first.choices[1].sentence, HasSubstr("which choice 0 of the same request is just computing"));
  const ChoiceExplanation& second = (*explained)[1].choices[0];
  EXPECT_EQ(second.sequence.priority, PriorityClass::kBatch);
  EXPECT_EQ(second.other_request_id, "first");
  EXPECT_EQ(second.preempted_by_request_id, "first");
  EXPECT_THAT(second.sentence, HasSubstr("waits behind choice 1 of request first, which waits for a seat"));
  EXPECT_THAT(second.sentence, HasSubstr("by choice 1 of request first, whose priority class is higher"));

  EXPECT_EQ(service().Explain("", 1)->size(), 1u);
  EXPECT_EQ((*service().Explain("second", 10))[0].request.request_id, "second");
  EXPECT_EQ(service().Explain("nobody", 10).status().code(), StatusCode::kNotFound);
  // Who has ended is named no more.
  engine_->Finish(ids[1], FinishReason::kStop);
  EXPECT_EQ((*service().Explain("first", 10))[0].choices.size(), 1u);
}

TEST_F(InferenceServiceTest, ARequestThatWaitsForTokenisingIsExplainedWithoutChoices) {
  service();
  const auto gate = BlockWorker();
  CompletionRequest request = Text("abc");
  request.request_id = "early";
  const auto listener = Start(std::move(request));
  const auto explained = service().Explain("early", 10);
  ASSERT_TRUE(explained.ok());
  EXPECT_FALSE((*explained)[0].submitted);
  EXPECT_TRUE((*explained)[0].choices.empty());
  gate->Set();
  engine_->Finish(engine_->WaitForSequences(1)[0], FinishReason::kStop);
  listener->WaitUntilCompleted();
}

TEST_F(InferenceServiceTest, TimelinesComeInTheOrderOfChoices) {
  CompletionRequest request = Text("abc");
  request.n = 2;
  request.timeline = true;
  const auto listener = Start(std::move(request));
  const std::vector<SequenceId> ids = engine_->WaitForSequences(2);
  EXPECT_TRUE(engine_->RequestOf(ids[0]).timeline);
  const auto first = std::make_shared<Timeline>();
  const auto second = std::make_shared<Timeline>();
  engine_->Finish(ids[1], FinishReason::kStop, {}, {}, second);
  engine_->Finish(ids[0], FinishReason::kStop, {}, {}, first);
  const Completed completed = listener->WaitUntilCompleted();
  ASSERT_EQ(completed.timelines.size(), 2u);
  EXPECT_EQ(completed.timelines[0].choice, 0);
  EXPECT_EQ(completed.timelines[0].timeline, first);
  EXPECT_EQ(completed.timelines[1].timeline, second);
}

TEST_F(InferenceServiceTest, EndingTheServiceEndsItsRequests) {
  const auto running = Start(Text("x"));
  engine_->WaitForSequences(1);
  service_.reset();
  EXPECT_EQ(running->WaitUntilCompleted().status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(engine_->Live(), 0);
}

TEST_F(InferenceServiceTest, ModelsAreFoundListedAndMissed) {
  CompletionRequest request = Text("x");
  request.model = "other";
  EXPECT_EQ(Refused(request).code(), StatusCode::kNotFound);
  registry_.Declare("other");
  const auto loading = Start(request);
  EXPECT_EQ(loading->WaitUntilCompleted().status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(loading->WaitUntilCompleted().status.message(), HasSubstr("is loading: waiting"));
  EXPECT_TRUE(loading->WaitUntilCompleted().retry_after_seconds);

  const std::vector<ModelInfo> models = service().ListModels();
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].name, "bytes");
  EXPECT_TRUE(models[0].ready);
  EXPECT_EQ(models[0].context_length, kContext);
  EXPECT_EQ(models[0].vocabulary, ByteTokenizer::kVocabulary);
  EXPECT_EQ(models[0].created_unix_seconds, 1700000000);
  EXPECT_FALSE(models[0].has_chat_template);
  EXPECT_EQ(models[1].name, "other");
  EXPECT_FALSE(models[1].ready);
  EXPECT_FALSE(service().GetModel("other")->ready);
  EXPECT_EQ(service().GetModel("none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(service().Ready().code(), StatusCode::kUnavailable);

  registry_.Add(testing::MakeModel("other", std::make_shared<ManualEngine>()));
  EXPECT_TRUE(service().Ready().ok());
  EXPECT_THAT(Refused(Text("x")).message(), HasSubstr("bytes, other"));  // which of the two?
}

TEST_F(InferenceServiceTest, ASickEngineIsNotReady) {
  EXPECT_TRUE(service().Ready().ok());
  engine_->health = Status::Unavailable("no step ended for 31 s");
  EXPECT_THAT(service().Ready().message(), HasSubstr("no step ended"));
}

TEST_F(InferenceServiceTest, ABrokenEngineIsNotReadyAnywhere) {
  EXPECT_TRUE(service().GetModel("bytes")->ready);
  engine_->health = Status::Internal("out of order");
  EXPECT_FALSE(service().GetModel("bytes")->ready);
  EXPECT_FALSE(service().ListModels().at(0).ready);
  engine_->on_submit = [](const SequenceRequest&) { return Status::Unavailable("out of order"); };
  const Completed refused = Start(Text("x"))->WaitUntilCompleted();
  EXPECT_EQ(refused.status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(refused.retry_after_seconds, kUnavailableRetrySeconds);
}

TEST_F(InferenceServiceTest, AnEngineThatBreaksTellsWhenToComeBack) {
  const auto running = Start(Text("x"));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  engine_->Finish(id, FinishReason::kError, Status::Unavailable("out of order"));
  EXPECT_EQ(running->WaitUntilCompleted().retry_after_seconds, kUnavailableRetrySeconds);
}

// One worker, which hangs: first in what it runs, then nothing behind it gets a turn either.
TEST_F(InferenceServiceTest, TokenisingThatHangsIsNotReadyUntilItGoesOn) {
  options_.worker_stall = std::chrono::seconds(30);
  const auto gate = BlockWorker();
  clock_.Advance(std::chrono::seconds(20));
  const auto waiting = Start(Text("x"));
  clock_.Advance(std::chrono::seconds(10));
  EXPECT_TRUE(service().Ready().ok());
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(service().Ready().code(), StatusCode::kUnavailable);
  EXPECT_THAT(service().Ready().message(), HasSubstr("tokenising stands still: the oldest of 2 pieces"));
  gate->Set();
  engine_->Finish(engine_->WaitForSequences(1)[0], FinishReason::kLength);
  EXPECT_TRUE(waiting->WaitUntilCompleted().status.ok());
  // The work is over when the worker takes the next piece.
  BlockWorker()->Set();
  EXPECT_TRUE(service().Ready().ok());
}

TEST_F(InferenceServiceTest, RefusalsAreCountedByReason) {
  const auto counts = [&] {
    const RefusalCounts c = service().Refusals();
    return std::vector<std::uint64_t>{c.queue_full,  c.prompt_bytes, c.draining,
                                      c.not_serving, c.not_found,    c.invalid};
  };
  options_.max_pending_prompt_bytes = 10;
  EXPECT_THAT(counts(), ElementsAre(0, 0, 0, 0, 0, 0));
  CompletionRequest request = Text("x");
  request.temperature = -1;
  EXPECT_EQ(Refused(std::move(request)).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(counts(), ElementsAre(0, 0, 0, 0, 0, 1));
  request = Text("x");
  request.model = "none";
  EXPECT_EQ(Refused(request).code(), StatusCode::kNotFound);
  registry_.Declare("loading");
  request.model = "loading";
  EXPECT_EQ(Refused(request).code(), StatusCode::kUnavailable);
  EXPECT_THAT(counts(), ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_EQ(Refused(Text("12345678901")).code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(counts(), ElementsAre(0, 1, 0, 1, 1, 1));
  request = Text("x");
  request.model = "bytes";
  for (int i = 0; i < 4; ++i) Start(request);
  engine_->WaitForSequences(4);
  EXPECT_EQ(Refused(request).code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(counts(), ElementsAre(1, 1, 0, 1, 1, 1));
  service().BeginDrain();
  EXPECT_EQ(Refused(request).code(), StatusCode::kUnavailable);
  EXPECT_THAT(counts(), ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST_F(InferenceServiceTest, TokenizeGivesTheIdsThatGenerateUses) {
  const Result<TokenizeResult> text = service().Tokenize("", Prompt("a\xC3\xA9"), true, false);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(text->tokens, ElementsAre(ByteTokenizer::kBos, 'a', 0xC3, 0xA9));
  EXPECT_THAT(text->pieces, ElementsAre("<bos>", "a", "\xC3", "\xA9"));
  EXPECT_EQ(text->tokens, PromptOf(Text("a\xC3\xA9")));
  EXPECT_THAT(service().Tokenize("", Prompt("<eos>"), false, true)->tokens, ElementsAre(ByteTokenizer::kEos));
  EXPECT_EQ(service().Tokenize("", Prompt("<eos>"), false, false)->tokens.size(), 5u);
  EXPECT_TRUE(service().Tokenize("", Prompt(""), false, false)->tokens.empty());
  EXPECT_EQ(service().Tokenize("none", Prompt(""), false, false).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(service().Tokenize("", Prompt(std::vector<TokenId>{-1}), false, false).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(InferenceServiceTest, DetokenizeChecksEveryId) {
  EXPECT_EQ(*service().Detokenize("", {'a', ByteTokenizer::kEos, 'b'}, true), "ab");
  EXPECT_EQ(*service().Detokenize("", {'a', ByteTokenizer::kEos, 'b'}, false), "a<eos>b");
  EXPECT_THAT(service().Detokenize("", {1, 259}, true).status().message(),
              HasSubstr("tokens[1] must lie in [0, 258], got 259"));
  EXPECT_THAT(service().Detokenize("", {1ll << 40}, true).status().message(), HasSubstr("1099511627776"));
}

TEST_F(InferenceServiceTest, RequestIdsAreMadeWhereThereAreNone) {
  const auto a = Start(Text("x"));
  const auto b = Start(Text("x"));
  for (const SequenceId id : engine_->WaitForSequences(2)) engine_->Finish(id, FinishReason::kLength);
  a->WaitUntilCompleted();
  b->WaitUntilCompleted();
  EXPECT_THAT(a->accepted()->request_id, StartsWith("req-"));
  EXPECT_NE(a->accepted()->request_id, b->accepted()->request_id);
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(MakeRequestId());
  EXPECT_EQ(ids.size(), 1000u);
}

}  // namespace
}  // namespace skipjack
