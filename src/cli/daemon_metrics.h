// What the daemon's parts know of themselves, as metric families (docs/metrics.md lists them all).
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "serve/http/http_server.h"
#include "serve/inference_service.h"
#ifdef SKIPJACK_WITH_GRPC
#include "serve/grpc/grpc_server.h"
#endif

namespace skipjack::cli {

std::vector<prometheus::MetricFamily> ServiceFamilies(const InferenceService& service);
std::vector<prometheus::MetricFamily> HttpFamilies(const HttpStats& stats);
#ifdef SKIPJACK_WITH_GRPC
std::vector<prometheus::MetricFamily> GrpcFamilies(const GrpcServerStats& stats);
#endif

}  // namespace skipjack::cli
