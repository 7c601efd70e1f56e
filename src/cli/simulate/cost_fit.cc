#include "cli/simulate/cost_fit.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace skipjack::cli {

Result<std::string> MakeCostFile(const LearntCosts& learnt) {
  const LatencyCoefficients& latency = learnt.latency;
  if (latency.step + latency.decoder + latency.context <= 0 ||
      latency.prompt_token + latency.prompt_pair <= 0) {
    return Status::FailedPrecondition(
        "the daemon has not learnt yet what prompts and decoding take: let it serve some requests of "
        "different lengths");
  }
  nlohmann::ordered_json json = {{"name", learnt.name}};
  nlohmann::ordered_json sources = nlohmann::ordered_json::object();
  const auto add = [&](const char* key, const nlohmann::ordered_json& value, const std::string& source) {
    json[key] = value;
    sources[key] = source;
  };
  const std::string by = "learnt by " + learnt.source;
  add("step_seconds", latency.step, by + ": step");
  add("token_seconds", latency.prompt_token, by + ": prompt_token");
  add("attention_seconds", latency.prompt_pair, by + ": prompt_pair");
  // Decoded tokens cost token_seconds and attention_seconds too.
  add("slice_seconds", std::max(latency.decoder - latency.prompt_token, 0.0),
      by + ": decoder less token_seconds, at least 0");
  add("context_seconds", std::max(latency.context - latency.prompt_pair, 0.0),
      by + ": context less attention_seconds, at least 0");
  add("kv_tokens", learnt.kv_tokens, "the pool of " + learnt.source);
  add("context_length", learnt.context_length, "the configuration of " + learnt.source);
  add("kv_bytes_per_token", learnt.kv_bytes_per_token, "the pool of " + learnt.source);
  add("host_bytes_per_second", learnt.host_bytes_per_second, "given, not measured");
  json["sources"] = sources;
  return json.dump(2) + '\n';
}

}  // namespace skipjack::cli
