#include "serve/http/request_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

namespace skipjack::http {
namespace {

namespace beast = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

Method MethodOf(beast::verb verb) {
  switch (verb) {
    case beast::verb::get:
      return Method::kGet;
    case beast::verb::head:
      return Method::kHead;
    case beast::verb::post:
      return Method::kPost;
    case beast::verb::options:
      return Method::kOptions;
    default:
      return Method::kOther;
  }
}

std::string LowerCase(string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

HttpError Describe(const error_code& error) {
  if (error == beast::error::header_limit) return {.status = 431, .message = "the request head is too large"};
  if (error == beast::error::bad_version)
    return {.status = 505, .message = "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  return {.status = 400, .message = "malformed HTTP request: " + error.message()};
}

}  // namespace

// Beast calls the on_* functions from put().
class RequestParser::Impl final : public beast::basic_parser<true> {
 public:
  Impl(const Limits& limits, std::shared_ptr<ByteBudget> budget)
      : body(std::make_shared<RequestBody>(budget)), limits_(limits), budget_(std::move(budget)) {
    header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    body_limit(boost::none);  // ours is checked where the length is known to the caller
  }

  Progress Feed(std::string_view data, std::size_t* consumed) {
    *consumed = 0;
    while (true) {
      if (refusal.status != 0) return Progress::kFailed;
      if (is_header_done() && !head_reported_) return ReportHead();
      if (is_done()) return Progress::kComplete;
      if (*consumed == data.size()) return Progress::kNeedMore;
      error_code error;
      *consumed += put(boost::asio::buffer(data.data() + *consumed, data.size() - *consumed), error);
      if (!error) continue;
      if (error != beast::error::need_more) return Fail(Describe(error));
      // What it waits for is a line: of the head, which it bounds itself, or of a chunk's head or trailer.
      if (data.size() - *consumed > limits_.header_bytes) return Fail(Describe(beast::error::header_limit));
      return Progress::kNeedMore;
    }
  }

  RequestHead head;
  std::shared_ptr<RequestBody> body;
  HttpError refusal{.status = 0};

 private:
  Progress Fail(HttpError error) {
    if (refusal.status == 0) refusal = std::move(error);
    return Progress::kFailed;
  }

  Progress ReportHead() {
    head_reported_ = true;
    head.keep_alive = keep_alive();
    head.chunked = chunked();
    if (const auto length = content_length()) head.content_length = *length;
    eager(true);
    return Progress::kHead;
  }

  void on_request_impl(beast::verb method, string_view method_name, string_view target, int version,
                       error_code&) override {
    head.method = MethodOf(method);
    head.method_name = std::string(method_name);
    const std::string_view full(target.data(), target.size());
    head.path = std::string(full.substr(0, full.find('?')));
    head.version = version;
  }

  void on_field_impl(beast::field, string_view name, string_view value, error_code& error) override {
    header_bytes_ += name.size() + value.size();
    if (header_bytes_ > limits_.header_bytes || ++field_count_ > limits_.fields) {
      error = beast::error::header_limit;
      return;
    }
    if (head_reported_) return;  // a trailer: allowed, of no use to us
    head.fields.emplace_back(LowerCase(name), std::string(value));
  }

  void on_header_impl(error_code&) override {}
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  std::size_t on_body_impl(string_view data, error_code& error) override { return Append(data, error); }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view data, error_code& error) override {
    return Append(data, error);
  }

  std::size_t Append(string_view data, error_code& error) {
    if (data.size() > limits_.body_bytes - body->size()) {
      Fail({.status = 413,
            .message = "the body is larger than max_request_bytes = " + std::to_string(limits_.body_bytes)});
      error = beast::error::body_limit;
      return 0;
    }
    if (!body->Append({data.data(), data.size()})) {
      Fail(BodiesOverBudget(*budget_));
      error = beast::error::body_limit;
      return 0;
    }
    return data.size();
  }

  const Limits limits_;
  const std::shared_ptr<ByteBudget> budget_;
  std::size_t header_bytes_ = 0;
  std::size_t field_count_ = 0;
  bool head_reported_ = false;
};

RequestParser::RequestParser(const Limits& limits, std::shared_ptr<ByteBudget> budget)
    : impl_(std::make_unique<Impl>(limits, std::move(budget))) {}
RequestParser::~RequestParser() = default;

RequestParser::Progress RequestParser::Feed(std::string_view data, std::size_t* consumed) {
  return impl_->Feed(data, consumed);
}

bool RequestParser::started() const {
  return impl_->got_some();
}
bool RequestParser::head_done() const {
  return impl_->is_header_done();
}
const RequestHead& RequestParser::head() const {
  return impl_->head;
}
RequestHead RequestParser::TakeHead() {
  return std::move(impl_->head);
}
std::shared_ptr<RequestBody> RequestParser::TakeBody() {
  return std::move(impl_->body);
}
const HttpError& RequestParser::error() const {
  return impl_->refusal;
}

}  // namespace skipjack::http
