// An OpenAI client: streams /v1/completions of any server that speaks it, one kept-alive connection per
// request under way.
#include <fmt/core.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "cli/bench/load_client.h"

namespace skipjack::cli {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr std::size_t kMaxIdleConnections = 1024;

struct Connection {
  explicit Connection(asio::io_context& io) : socket(io) {}
  tcp::socket socket;
  boost::beast::flat_buffer buffer;
};

// What the client's thread owns: all calls below run on it.
struct Pool {
  asio::io_context io;
  tcp::resolver::results_type endpoints;
  std::string host;
  std::vector<std::unique_ptr<Connection>> idle;
};

// One streamed request; keeps itself alive by the handlers it starts.
class Call final : public std::enable_shared_from_this<Call> {
 public:
  Call(Pool* pool, std::string body, BenchClock::time_point start, RequestRecord* record,
       std::function<void()> done)
      : pool_(pool), start_(start), record_(record), done_(std::move(done)) {
    request_.method(http::verb::post);
    request_.target("/v1/completions");
    request_.set(http::field::host, pool->host);
    request_.set(http::field::content_type, "application/json");
    request_.body() = std::move(body);
    request_.prepare_payload();
    parser_.body_limit(boost::none);
  }

  void Run() {
    if (!pool_->idle.empty()) {
      connection_ = std::move(pool_->idle.back());
      pool_->idle.pop_back();
      reused_ = true;
      return Write();
    }
    connection_ = std::make_unique<Connection>(pool_->io);
    asio::async_connect(connection_->socket, pool_->endpoints,
                        [self = shared_from_this()](Error error, const tcp::endpoint&) {
                          if (error) return self->Finish("connect: " + error.message());
                          self->connection_->socket.set_option(tcp::no_delay(true), error);
                          self->Write();
                        });
  }

 private:
  void Write() {
    http::async_write(connection_->socket, request_, [self = shared_from_this()](Error error, std::size_t) {
      if (error) return self->Retry("write: " + error.message());
      self->ReadHead();
    });
  }

  // An idle connection may have been closed by the server just now; a fresh one settles whether it serves.
  void Retry(const std::string& error) {
    if (!reused_) return Finish(error);
    reused_ = false;
    pool_->idle.clear();
    Run();
  }

  void ReadHead() {
    http::async_read_header(connection_->socket, connection_->buffer, parser_,
                            [self = shared_from_this()](Error error, std::size_t) {
                              if (error) return self->Retry("read: " + error.message());
                              self->ReadSome();
                            });
  }

  void ReadSome() {
    if (parser_.is_done()) return Complete();
    http::async_read_some(connection_->socket, connection_->buffer, parser_,
                          [self = shared_from_this()](Error error, std::size_t) {
                            if (error && error != http::error::need_buffer) {
                              return self->Finish("read: " + error.message());
                            }
                            if (self->parser_.get().result() == http::status::ok) self->TakeEvents();
                            self->ReadSome();
                          });
  }

  // Takes whole lines out of the body that has arrived.
  void TakeEvents() {
    std::string& body = parser_.get().body();
    const double now = std::chrono::duration<double>(BenchClock::now() - start_).count();
    std::size_t begin = 0;
    for (std::size_t end = body.find('\n'); end != std::string::npos; end = body.find('\n', begin)) {
      TakeLine(std::string_view(body).substr(begin, end - begin), now);
      begin = end + 1;
    }
    body.erase(0, begin);
  }

  void TakeLine(std::string_view line, double now) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("data: ") || line == "data: [DONE]") return;
    const nlohmann::json event = nlohmann::json::parse(line.substr(6), nullptr, false);
    if (!event.is_object()) return;
    if (const auto error = event.find("error"); error != event.end()) {
      error_ = error->is_object() ? error->value("message", "error") : error->dump();
    }
    if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object()) {
      record_->prompt_tokens = usage->value("prompt_tokens", 0);
      record_->completion_tokens = usage->value("completion_tokens", 0);
    }
    const auto choices = event.find("choices");
    if (choices == event.end() || !choices->is_array() || choices->empty()) return;
    const nlohmann::json& choice = (*choices)[0];
    // return_token_ids tells how many tokens came; a server without it sends one per event.
    std::size_t tokens =
        choice.contains("text") && !choice["text"].get_ref<const std::string&>().empty() ? 1 : 0;
    if (const auto ids = choice.find("token_ids"); ids != choice.end() && ids->is_array())
      tokens = ids->size();
    record_->token_times.insert(record_->token_times.end(), tokens, now);
  }

  void Complete() {
    const auto& response = parser_.get();
    if (response.result() != http::status::ok) {
      const nlohmann::json body = nlohmann::json::parse(response.body(), nullptr, false);
      const std::string message = body.is_object() && body.contains("error") && body["error"].is_object()
                                      ? body["error"].value("message", "")
                                      : response.body().substr(0, 200);
      error_ = fmt::format("HTTP {}: {}", response.result_int(), message);
    }
    if (parser_.keep_alive() && pool_->idle.size() < kMaxIdleConnections)
      pool_->idle.push_back(std::move(connection_));
    Finish(error_);
  }

  void Finish(const std::string& error) {
    record_->finished = std::chrono::duration<double>(BenchClock::now() - start_).count();
    record_->error = error;
    done_();
  }

  Pool* pool_;
  BenchClock::time_point start_;
  RequestRecord* record_;
  std::function<void()> done_;
  std::unique_ptr<Connection> connection_;
  bool reused_ = false;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  std::string error_;
};

class HttpClient final : public LoadClient {
 public:
  HttpClient(const LoadClientOptions& options, tcp::resolver::results_type endpoints)
      : options_(options), guard_(asio::make_work_guard(pool_.io)) {
    pool_.endpoints = std::move(endpoints);
    pool_.host = options.address;
    thread_ = std::thread([this] { pool_.io.run(); });
  }

  ~HttpClient() override {
    guard_.reset();
    pool_.io.stop();
    thread_.join();
    pool_.idle.clear();
  }

  // Of our own servers, which say it in /v1/models; of others the caller says it (--vocabulary).
  Result<std::int32_t> Vocabulary() override {
    const nlohmann::json answer = nlohmann::json::parse(Get("/v1/models"), nullptr, false);
    if (answer.is_object() && answer.contains("data") && answer["data"].is_array()) {
      for (const nlohmann::json& model : answer["data"]) {
        if (!model.is_object() ||
            (!options_.model.empty() && model.value("id", nlohmann::json()) != options_.model))
          continue;
        if (const auto it = model.find("vocabulary"); it != model.end() && it->is_number_integer())
          return it->get<std::int32_t>();
      }
    }
    return Status::Unimplemented("the server does not tell its vocabulary: give --vocabulary");
  }

  void SetStart(BenchClock::time_point start) override { options_.start = start; }

  void Send(const PlannedRequest& planned, RequestRecord* record, std::function<void()> done) override {
    nlohmann::json body = {
        {"model", options_.model},
        {"max_tokens", planned.output_tokens},  // OpenAI's interface cannot say both
        {"temperature", options_.temperature},
        {"stream", true},
        {"ignore_eos", options_.ignore_eos},
        {"stream_options", {{"include_usage", true}}},
        {"return_token_ids", true},
    };
    std::visit([&body](const auto& prompt) { body["prompt"] = prompt; }, planned.prompt);
    auto call = std::make_shared<Call>(&pool_, body.dump(), options_.start, record, std::move(done));
    asio::post(pool_.io, [call = std::move(call)] { call->Run(); });
  }

 private:
  // The body of a plain GET, on the calling thread; empty when it fails.
  std::string Get(const char* target) {
    asio::io_context io;
    tcp::socket socket(io);
    Error error;
    asio::connect(socket, pool_.endpoints, error);
    if (error) return {};
    http::request<http::empty_body> request(http::verb::get, target, 11);
    request.set(http::field::host, pool_.host);
    http::write(socket, request, error);
    boost::beast::flat_buffer buffer;
    http::response<http::string_body> response;
    if (!error) http::read(socket, buffer, response, error);
    return error ? std::string() : response.body();
  }

  LoadClientOptions options_;
  Pool pool_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<LoadClient>> MakeHttpClient(const LoadClientOptions& options) {
  const std::size_t colon = options.address.rfind(':');
  if (colon == std::string::npos)
    return Status::InvalidArgument("'" + options.address + "' is not HOST:PORT");
  asio::io_context io;
  tcp::resolver resolver(io);
  Error error;
  auto endpoints =
      resolver.resolve(options.address.substr(0, colon), options.address.substr(colon + 1), error);
  if (error) return Status::InvalidArgument("cannot resolve " + options.address + ": " + error.message());
  return std::unique_ptr<LoadClient>(std::make_unique<HttpClient>(options, std::move(endpoints)));
}

}  // namespace skipjack::cli
