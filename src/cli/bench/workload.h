// What a load test sends and when: read from a trace or drawn from distributions, fixed before the first
// request leaves, so that two servers can be given the very same work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace skipjack::cli {

struct PlannedRequest {
  double arrival_seconds = 0;  // after the start
  std::variant<std::string, std::vector<TokenId>> prompt;
  std::int32_t max_tokens = 0;     // that it asks for
  std::int32_t output_tokens = 0;  // after which it ends, at most max_tokens
  std::string tenant;
  std::int32_t priority = 1;  // 0 realtime, 1 interactive, 2 batch
};

struct WorkloadOptions {
  std::string trace;  // a JSONL file: {"arrival_s", "prompt" or "prompt_tokens", "max_tokens"}, and if wanted
                      // "output_tokens", "tenant", "priority"; empty: draw instead

  std::int32_t requests = 200;
  double rate = 1.0;                 // arrivals per second; 0: all at once
  std::string arrivals = "poisson";  // poisson, gamma or uniform
  double cv = 1.0;                   // of the gaps, with gamma
  // fixed:P:O, uniform:P1-P2:O1-O2, azure-conv, azure-code, sharegpt, lmsys, mooncake, heavy, zipf, reasoning
  // or agent, whose prompts continue earlier ones (docs/performance.md)
  std::string lengths = "fixed:128:128";
  std::int32_t max_prompt_tokens = 1024;  // longer draws are clipped
  std::int32_t max_output_tokens = 512;
  std::uint64_t seed = 0;
  // Ids of drawn prompts lie in [vocabulary / 16, vocabulary): byte-level vocabularies keep control tokens
  // below. A trace of texts needs none.
  std::int32_t vocabulary = 0;
};

// Sorted by arrival. InvalidArgument names the option, or the trace's line.
Result<std::vector<PlannedRequest>> MakeWorkload(const WorkloadOptions& options);

}  // namespace skipjack::cli
