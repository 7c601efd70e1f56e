#include "cli/simulate/cost_file.h"

#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace skipjack::cli {
namespace {

using Json = nlohmann::json;

class Reader {
 public:
  Reader(const Json& json, std::string origin) : json_(json), origin_(std::move(origin)) {}

  double Number(const char* key, double least, double most) {
    known_.insert(key);
    const auto it = json_.find(key);
    if (it == json_.end() || !it->is_number()) {
      Fail(key, "must be a number");
      return least;
    }
    const auto value = it->get<double>();
    if (!(value >= least && value <= most))
      Fail(key, fmt::format("must lie in [{}, {}], got {}", least, most, value));
    const auto sources = json_.find("sources");
    if (sources == json_.end() || !sources->is_object() || !sources->contains(key) ||
        !(*sources)[key].is_string()) {
      Fail(key, "has no entry in \"sources\"");
    }
    return value;
  }

  std::string Text(const char* key) {
    known_.insert(key);
    const auto it = json_.find(key);
    if (it != json_.end() && it->is_string()) return it->get<std::string>();
    Fail(key, "must be a text");
    return {};
  }

  Status Finish() {
    known_.insert("sources");
    for (const auto& [key, value] : json_.items()) {
      if (!known_.contains(key)) Fail(key, "is not known");
    }
    return status_;
  }

 private:
  void Fail(const std::string& key, const std::string& what) {
    if (status_.ok()) status_ = Status::InvalidArgument(origin_ + ": '" + key + "' " + what);
  }

  const Json& json_;
  const std::string origin_;
  std::set<std::string> known_;
  Status status_;
};

}  // namespace

Result<CostFile> ParseCostFile(const std::string& text, const std::string& origin) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Status::InvalidArgument(origin + ": not a JSON object");
  constexpr double kHour = 3600;
  Reader reader(json, origin);
  CostFile file;
  file.name = reader.Text("name");
  file.cost.step_seconds = reader.Number("step_seconds", 0, kHour);
  file.cost.token_seconds = reader.Number("token_seconds", 0, kHour);
  file.cost.attention_seconds = reader.Number("attention_seconds", 0, kHour);
  file.cost.slice_seconds = reader.Number("slice_seconds", 0, kHour);
  file.cost.context_seconds = reader.Number("context_seconds", 0, kHour);
  file.kv_tokens = static_cast<std::int32_t>(reader.Number("kv_tokens", 1, 1e9));
  file.context_length = static_cast<std::int32_t>(reader.Number("context_length", 1, 1e8));
  const double kv_bytes = reader.Number("kv_bytes_per_token", 1, 1e9);
  const double bandwidth = reader.Number("host_bytes_per_second", 1, 1e15);
  if (Status status = reader.Finish(); !status.ok()) return status;
  file.copy_token_seconds = kv_bytes / bandwidth;
  if (file.cost.step_seconds + file.cost.token_seconds <= 0) {
    return Status::InvalidArgument(origin +
                                   ": step_seconds and token_seconds are both 0, so time would stand still");
  }
  return file;
}

Result<CostFile> LoadCostFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Status::NotFound("cannot read the cost model " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return ParseCostFile(text.str(), path);
}

}  // namespace skipjack::cli
