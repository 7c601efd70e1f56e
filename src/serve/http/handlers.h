// The routes that answer at once, and the two that need a worker.
#pragma once

#include <memory>

#include <boost/asio/io_context.hpp>

#include "serve/http/exchange.h"
#include "serve/http/router.h"
#include "serve/http/server_context.h"

namespace skipjack::http {

// GET, HEAD and OPTIONS of any route. Never blocks.
Response AnswerDirectly(const RouteMatch& match, Method method, ServerContext& context);

// POST of any route.
std::shared_ptr<Exchange> MakeExchange(HttpRoute route, Request request, ServerContext& context,
                                       ResponseChannel& channel,
                                       boost::asio::io_context::executor_type executor);

}  // namespace skipjack::http
