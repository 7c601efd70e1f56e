// Answers /v1/completions and /v1/chat/completions: parse, start one call per prompt, turn their events into
// the answer, cancel what is left when the client goes.
#pragma once

#include <memory>

#include <boost/asio/io_context.hpp>

#include "serve/http/exchange.h"
#include "serve/http/openai_parse.h"
#include "serve/http/server_context.h"

namespace skipjack::http {

// `context` and `channel` outlive the exchange.
std::shared_ptr<Exchange> MakeGenerationExchange(Api api, Request request, ServerContext& context,
                                                 ResponseChannel& channel,
                                                 boost::asio::io_context::executor_type executor);

}  // namespace skipjack::http
