// HTTP/1.1 requests out of a byte stream, on top of Beast's parser (which stays out of this header: it is
// heavy).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "serve/http/error_json.h"
#include "serve/http/http_message.h"
#include "serve/http/request_body.h"

namespace skipjack::http {

// Reads one request. Pauses after the head so that a request can be refused before its body arrives.
class RequestParser {
 public:
  struct Limits {
    std::size_t header_bytes = 32 << 10;
    std::size_t fields = 100;
    std::uint64_t body_bytes = 8 << 20;
  };

  enum class Progress : std::uint8_t {
    kNeedMore,  // everything usable was consumed
    kHead,      // head() is complete; reported once
    kComplete,  // the body too
    kFailed,    // error() says why; the connection is of no further use
  };

  // The body counts against `budget`.
  RequestParser(const Limits& limits, std::shared_ptr<ByteBudget> budget);
  ~RequestParser();

  // Takes bytes from the front of `data`, which must start where the last call's consumption ended.
  Progress Feed(std::string_view data, std::size_t* consumed);

  bool started() const;  // saw a byte
  bool head_done() const;
  const RequestHead& head() const;
  RequestHead TakeHead();
  std::shared_ptr<RequestBody> TakeBody();
  const HttpError& error() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skipjack::http
