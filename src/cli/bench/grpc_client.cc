#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <vector>

#include "cli/bench/load_client.h"
#include "skipjack/v1/inference.grpc.pb.h"

namespace skipjack::cli {
namespace {

// Streams of one HTTP/2 connection share its flow control and its lock; a few connections keep that out of
// the figures.
constexpr int kChannels = 4;

// One Generate call. Deletes itself when the call is over.
class Call final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Call(v1::Inference::Stub* stub, v1::GenerateRequest request, BenchClock::time_point start,
       RequestRecord* record, std::function<void()> done)
      : request_(std::move(request)), start_(start), record_(record), done_(std::move(done)) {
    stub->async()->Generate(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    const double now = std::chrono::duration<double>(BenchClock::now() - start_).count();
    if (response_.has_started()) record_->prompt_tokens = response_.started().prompt_tokens();
    for (const v1::TextDelta& delta : response_.deltas()) {
      record_->token_times.insert(record_->token_times.end(), static_cast<std::size_t>(delta.token_count()),
                                  now);
    }
    response_.Clear();
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    record_->finished = std::chrono::duration<double>(BenchClock::now() - start_).count();
    if (!status.ok()) {
      record_->error = fmt::format("{}: {}", StatusCodeName(static_cast<StatusCode>(status.error_code())),
                                   status.error_message());
    }
    const std::function<void()> done = std::move(done_);
    delete this;
    done();
  }

 private:
  grpc::ClientContext context_;
  v1::GenerateRequest request_;
  v1::GenerateResponse response_;
  BenchClock::time_point start_;
  RequestRecord* record_;
  std::function<void()> done_;
};

class GrpcClient final : public LoadClient {
 public:
  explicit GrpcClient(const LoadClientOptions& options) : options_(options) {
    for (int i = 0; i < kChannels; ++i) {
      grpc::ChannelArguments arguments;
      // Channels with equal arguments share one connection.
      arguments.SetInt("skipjack.bench.channel", i);
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      stubs_.push_back(v1::Inference::NewStub(
          grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments)));
    }
  }

  Result<std::int32_t> Vocabulary() override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::GetModelRequest request;
    request.set_name(options_.model);
    v1::Model model;
    const grpc::Status status = stubs_[0]->GetModel(&context, request, &model);
    if (!status.ok()) return Status(static_cast<StatusCode>(status.error_code()), status.error_message());
    return model.vocabulary();
  }

  void SetStart(BenchClock::time_point start) override { options_.start = start; }

  void Send(const PlannedRequest& planned, RequestRecord* record, std::function<void()> done) override {
    v1::GenerateRequest request;
    request.set_model(options_.model);
    if (const auto* text = std::get_if<std::string>(&planned.prompt)) {
      request.set_text(*text);
    } else {
      const auto& ids = std::get<std::vector<TokenId>>(planned.prompt);
      request.mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
    }
    request.mutable_sampling()->set_max_tokens(planned.max_tokens);
    if (planned.output_tokens < planned.max_tokens) {
      request.mutable_sampling()->set_end_after_tokens(planned.output_tokens);
    }
    request.set_tenant(planned.tenant);
    request.set_priority(static_cast<v1::PriorityClass>(planned.priority + 1));
    request.mutable_sampling()->set_ignore_eos(options_.ignore_eos);
    request.mutable_sampling()->set_temperature(options_.temperature);
    v1::Inference::Stub* stub = stubs_[next_++ % stubs_.size()].get();
    new Call(stub, std::move(request), options_.start, record, std::move(done));
  }

 private:
  LoadClientOptions options_;
  std::vector<std::unique_ptr<v1::Inference::Stub>> stubs_;
  std::size_t next_ = 0;
};

}  // namespace

Result<std::unique_ptr<LoadClient>> MakeGrpcClient(const LoadClientOptions& options) {
  return std::unique_ptr<LoadClient>(std::make_unique<GrpcClient>(options));
}

}  // namespace skipjack::cli
