#include "model/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "model/architecture.h"
#include "model/memory_estimate.h"
#include "model/printable.h"

namespace skipjack {
namespace {

using Json = nlohmann::ordered_json;

struct TypeUse {
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;
};

struct Summary {
  std::int64_t parameters = 0;
  std::int64_t weight_bytes = 0;
  std::map<std::string_view, TypeUse> types;
  std::string architecture;  // as the file says it, may be empty
  std::string name;
  std::optional<ModelConfig> config;  // when we can run it
  MemoryEstimate memory;              // then
  Status verdict;                     // why not

  double BitsPerWeight() const {
    return parameters == 0 ? 0.0 : 8.0 * static_cast<double>(weight_bytes) / static_cast<double>(parameters);
  }
};

Summary Summarize(const GgufFile& file) {
  Summary summary;
  for (const TensorView& tensor : file.tensors()) {
    const auto bytes = static_cast<std::int64_t>(tensor.data.size());
    summary.parameters += tensor.elements();
    summary.weight_bytes += bytes;
    TypeUse& use = summary.types[Info(tensor.dtype).name];
    ++use.tensors;
    use.bytes += bytes;
  }
  if (const Result<std::string> text = file.GetString("general.architecture"); text.ok())
    summary.architecture = *text;
  if (const Result<std::string> text = file.GetString("general.name"); text.ok()) summary.name = *text;
  ModelConfig config;
  ModelTensors tensors;
  summary.verdict = DescribeModel(file, &config, &tensors);
  if (!summary.verdict.ok()) return summary;
  summary.config = config;
  summary.memory = EstimateMemory(config, tensors, ServingAssumptions{});
  return summary;
}

template <typename T>
inline constexpr bool kIsList = false;
template <typename T>
inline constexpr bool kIsList<std::vector<T>> = true;

template <typename T>
constexpr std::string_view TypeName() {
  if constexpr (std::is_same_v<T, bool>) {
    return "boolean";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "text";
  } else {
    return std::is_floating_point_v<T> ? "number" : "integer";
  }
}

std::string Size(double bytes) {
  constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  double value = bytes / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string Shape(const TensorView& tensor) {
  const auto rank = static_cast<std::ptrdiff_t>(tensor.rank);
  return fmt::format("[{}]", fmt::join(tensor.shape.begin(), tensor.shape.begin() + rank, ", "));
}

// ---- as text ----

constexpr std::size_t kShownText = 120;  // bytes of a text
constexpr std::size_t kShownTextInList = 24;
constexpr std::size_t kShownElements = 6;

// Most numbers were stored as float, whose shortest digits are what was meant: 1e-05, not 9.99999975e-06.
std::string NumberText(double value) {
  const bool fits = std::abs(value) <= std::numeric_limits<float>::max();  // false for NaN
  const float narrow = fits ? static_cast<float>(value) : 0.0f;
  return fits && static_cast<double>(narrow) == value ? fmt::format("{}", narrow) : fmt::format("{}", value);
}

template <typename T>
std::string ScalarText(const T& value, std::size_t longest_text) {
  if constexpr (std::is_same_v<T, std::string>) {
    return Printable(value, longest_text);
  } else if constexpr (std::is_same_v<T, double>) {
    return NumberText(value);
  } else {
    return fmt::format("{}", value);
  }
}

template <typename T>
std::string ListText(const std::vector<T>& values) {
  std::string text = "[";
  const std::size_t shown = std::min(values.size(), kShownElements);
  for (std::size_t i = 0; i < shown; ++i) {
    const T value = values[i];
    if (i > 0) text += ", ";
    text += std::is_same_v<T, std::string> ? fmt::format("\"{}\"", ScalarText(value, kShownTextInList))
                                           : ScalarText(value, kShownTextInList);
  }
  return text + (shown < values.size() ? ", ...]" : "]");
}

struct Row {
  std::string name, type, value;
};

Row MetadataRow(const std::string& key, const GgufValue& value) {
  Row row{Printable(key, kShownText), {}, {}};
  std::visit(
      [&](const auto& held) {
        using T = std::decay_t<decltype(held)>;
        if constexpr (kIsList<T>) {
          row.type = fmt::format("{}[{}]", TypeName<typename T::value_type>(), held.size());
          row.value = ListText(held);
        } else {
          row.type = TypeName<T>();
          row.value = ScalarText(held, kShownText);
        }
      },
      value);
  return row;
}

void AppendTable(const std::vector<Row>& rows, std::string* out) {
  std::size_t name_width = 0;
  std::size_t type_width = 0;
  for (const Row& row : rows) {
    name_width = std::max(name_width, row.name.size());
    type_width = std::max(type_width, row.type.size());
  }
  for (const Row& row : rows) {
    fmt::format_to(std::back_inserter(*out), "  {:<{}}  {:<{}}  {}\n", row.name, name_width, row.type,
                   type_width, row.value);
  }
}

void AppendMemory(const Summary& summary, std::string* out) {
  auto line = std::back_inserter(*out);
  const auto row = [&](std::string_view what, const std::string& value) {
    fmt::format_to(line, "  {:<22}{}\n", what, value);
  };
  fmt::format_to(line, "\nMemory\n");
  row("weights in the file", Size(static_cast<double>(summary.weight_bytes)));
  if (!summary.config) return;
  const ModelConfig& config = *summary.config;
  const MemoryEstimate& memory = summary.memory;
  constexpr ServingAssumptions kDefaults;
  row("weights, packed", "about " + Size(memory.weights));
  for (const auto& [type, bytes] : {std::pair("KV cache, f16 or bf16", 2), std::pair("KV cache, f32", 4)}) {
    const auto per_token = static_cast<double>(config.KvBytesPerToken(bytes));
    row(type, fmt::format("{} a token, {} for the whole context of {} tokens", Size(per_token),
                          Size(per_token * config.context_length), config.context_length));
  }
  row("activations",
      fmt::format("about {} for steps of {} tokens", Size(memory.activations), kDefaults.max_batch_tokens));
  row("serving",
      fmt::format("about {} with one full context, {} with one for each of {} sequences (KV in f16; without "
                  "kv.device_memory at most a quarter of the machine's memory is taken for it)",
                  Size(memory.weights + memory.activations + memory.kv_context),
                  Size(memory.weights + memory.activations + memory.kv_sequences), kDefaults.max_sequences));
}

std::string TextReport(const GgufFile& file, const Summary& summary) {
  std::string out;
  auto line = std::back_inserter(out);
  fmt::format_to(line, "{} (GGUF version {})\n", Printable(file.path(), 4096), file.version());
  for (std::size_t i = 1; i < file.paths().size(); ++i) {
    fmt::format_to(line, "{} (part {} of {})\n", Printable(file.paths()[i], 4096), i + 1,
                   file.paths().size());
  }
  fmt::format_to(line, "{}{}architecture {}\n", Printable(summary.name, kShownText),
                 summary.name.empty() ? "" : ", ",
                 summary.architecture.empty() ? "not given" : Printable(summary.architecture, kShownText));

  std::vector<Row> rows;
  for (const std::string& key : file.keys()) rows.push_back(MetadataRow(key, *file.Find(key)));
  fmt::format_to(line, "\nMetadata: {} keys\n", rows.size());
  AppendTable(rows, &out);

  rows.clear();
  for (const TensorView& tensor : file.tensors()) {
    rows.push_back({Printable(tensor.name, kShownText), std::string(Info(tensor.dtype).name),
                    fmt::format("{:<20}  {:>12} bytes", Shape(tensor), tensor.data.size())});
  }
  fmt::format_to(line, "\nTensors: {}\n", rows.size());
  AppendTable(rows, &out);

  fmt::format_to(line, "\nParameters: {} in {} bytes, {:.3f} bits each\n", summary.parameters,
                 summary.weight_bytes, summary.BitsPerWeight());
  for (const auto& [type, use] : summary.types) {
    fmt::format_to(line, "  {:<8}  {:>6} tensors  {:>12} bytes\n", type, use.tensors, use.bytes);
  }
  AppendMemory(summary, &out);
  fmt::format_to(line, "\nSkipjack can run this model: {}\n",
                 summary.config ? "yes" : "no. " + Printable(summary.verdict.message(), 4096));
  return out;
}

// ---- as JSON ----

constexpr std::size_t kJsonElements = 16;  // longer lists are cut to this and say how long they are

template <typename T>
Json ListJson(const std::vector<T>& values) {
  Json list = Json::array();
  for (std::size_t i = 0; i < std::min(values.size(), kJsonElements); ++i)
    list.push_back(static_cast<T>(values[i]));
  if (values.size() <= kJsonElements) return list;
  return {{"count", values.size()}, {"first", list}};
}

Json ValueJson(const GgufValue& value) {
  return std::visit(
      [](const auto& held) -> Json {
        if constexpr (kIsList<std::decay_t<decltype(held)>>) {
          return ListJson(held);
        } else {
          return held;
        }
      },
      value);
}

Json MemoryJson(const Summary& summary) {
  Json memory{{"weight_bytes", summary.weight_bytes}};
  if (!summary.config) return memory;
  const ModelConfig& config = *summary.config;
  memory["context_length"] = config.context_length;
  constexpr ServingAssumptions kDefaults;
  const auto whole = [](double bytes) { return static_cast<std::int64_t>(std::min(bytes, 9e18)); };
  memory["estimate"] = {{"max_batch_tokens", kDefaults.max_batch_tokens},
                        {"max_sequences", kDefaults.max_sequences},
                        {"packed_weight_bytes", whole(summary.memory.weights)},
                        {"activation_bytes", whole(summary.memory.activations)},
                        {"kv_bytes_for_context", whole(summary.memory.kv_context)},
                        {"kv_bytes_for_sequences", whole(summary.memory.kv_sequences)}};
  for (const auto& [name, bytes] : {std::pair("f16", 2), std::pair("f32", 4)}) {
    const std::int64_t per_token = config.KvBytesPerToken(bytes);
    memory["kv"][name] = {{"bytes_per_token", per_token},
                          {"bytes_for_context", per_token * config.context_length}};
  }
  return memory;
}

std::string JsonReport(const GgufFile& file, const Summary& summary) {
  Json report{{"files", file.paths()},
              {"gguf_version", file.version()},
              {"architecture", summary.architecture},
              {"name", summary.name}};
  report["metadata"] = Json::object();
  for (const std::string& key : file.keys()) report["metadata"][key] = ValueJson(*file.Find(key));
  report["tensors"] = Json::array();
  for (const TensorView& tensor : file.tensors()) {
    const std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.begin() + tensor.rank);
    report["tensors"].push_back({{"name", tensor.name},
                                 {"type", Info(tensor.dtype).name},
                                 {"shape", shape},
                                 {"bytes", tensor.data.size()}});
  }
  report["parameters"] = summary.parameters;
  report["bits_per_weight"] = summary.BitsPerWeight();
  for (const auto& [type, use] : summary.types) {
    report["types"][std::string(type)] = {{"tensors", use.tensors}, {"bytes", use.bytes}};
  }
  report["memory"] = MemoryJson(summary);
  report["supported"] = summary.config.has_value();
  if (!summary.config) report["unsupported_because"] = summary.verdict.message();
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string InspectReport(const GgufFile& file, bool json) {
  const Summary summary = Summarize(file);
  return json ? JsonReport(file, summary) : TextReport(file, summary);
}

Result<std::string> InspectModel(const std::string& path, bool json) {
  const Result<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
  if (!file.ok()) return file.status();
  return InspectReport(**file, json);
}

}  // namespace skipjack
