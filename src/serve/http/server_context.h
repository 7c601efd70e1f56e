// What all connections of a server share.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "serve/byte_budget.h"
#include "serve/http/http_server.h"
#include "serve/http/openai_parse.h"
#include "serve/http/server_stats.h"
#include "serve/inference_service.h"

namespace skipjack::http {

struct ServerContext {
  ServerContext(HttpServerOptions server_options, InferenceService& inference)
      : options(std::move(server_options)),
        service(inference),
        body_bytes(std::make_shared<ByteBudget>(options.max_pending_bytes)) {}

  const HttpServerOptions options;
  InferenceService& service;
  ServerStats stats;
  // Of all bodies that are being received or wait to be read, on workers also when the server has gone.
  const std::shared_ptr<ByteBudget> body_bytes;

  // Signalled when a connection has closed: stats.open_connections went down.
  std::mutex closed_mutex;
  std::condition_variable closed;

  ParseOptions parse_options() const {
    ParseOptions parse;
    parse.json.depth = options.max_json_depth;
    parse.max_prompts = static_cast<std::size_t>(options.max_prompts);
    return parse;
  }
};

}  // namespace skipjack::http
