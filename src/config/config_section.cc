#include "config/config_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "config/listen_address.h"
#include "config/message_text.h"
#include "config/units.h"

namespace skipjack {
namespace {

constexpr std::size_t kShownErrors = 20;
constexpr std::size_t kMaxTextBytes = 4096;

std::string KindName(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return Shown(node.text);
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMapping:
      return "a mapping";
  }
  return "nothing";
}

bool IsNumber(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}

// A plain scalar that YAML readers take for something other than a text.
bool LooksLikeAnotherType(const YamlNode& node) {
  if (node.quoted) return false;
  for (const std::string_view word : {"true", "false", "True", "False", "null", "~"}) {
    if (node.text == word) return true;
  }
  return IsNumber(node.text);
}

// Edits (insert, remove, replace, swap neighbours) that turn `a` into `b`; optimal string alignment.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

// Empty when nothing is near.
std::string Nearest(std::string_view key, const std::vector<std::string>& known) {
  constexpr std::size_t kLongestKey = 64;
  if (key.size() > kLongestKey) return {};
  std::string nearest;
  std::size_t best = std::max<std::size_t>(2, key.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = Distance(key, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string Joined(std::initializer_list<std::string_view> words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

void ConfigReport::Error(const std::string& path, int line, const std::string& message) {
  if (++error_count_ > kShownErrors) return;
  const std::string where = line > 0 ? fmt::format("{} (line {})", path, line) : path;
  errors_.push_back(where.empty() ? message : where + ": " + message);
}

void ConfigReport::AddKey(ConfigKey key) {
  keys_.push_back(std::move(key));
}

Status ConfigReport::status() const {
  if (errors_.empty()) return {};
  std::string message;
  for (const std::string& error : errors_) {
    if (!message.empty()) message += '\n';
    message += origin_ + ": " + error;
  }
  if (error_count_ > errors_.size()) {
    message += fmt::format("\n{}: and {} more errors", origin_, error_count_ - errors_.size());
  }
  return Status::InvalidArgument(message);
}

ConfigSection::ConfigSection(ConfigReport* report, const YamlNode* node, std::string path)
    : report_(report), node_(node), path_(std::move(path)) {
  if (node_ == nullptr || node_->kind == YamlNode::Kind::kMapping) return;
  // A section whose keys are all commented out is an empty one.
  if (node_->kind != YamlNode::Kind::kNull) Error("must be a mapping (key: value), got " + KindName(*node_));
  node_ = nullptr;
}

std::string ConfigSection::Path(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void ConfigSection::Error(std::string_view key, const std::string& message) {
  const YamlEntry* entry = node_ == nullptr ? nullptr : node_->Find(key);
  const int line = entry != nullptr ? entry->line : node_ != nullptr ? node_->line : 0;
  report_->Error(Path(key), line, message);
}

void ConfigSection::Error(const std::string& message) {
  report_->Error(path_, node_ == nullptr ? 0 : node_->line, message);
}

void ConfigSection::Describe(std::string_view key, std::string_view type, const std::string& default_value,
                             const std::string& range) {
  known_.emplace_back(key);
  report_->AddKey({Path(key), std::string(type), default_value, range});
}

const YamlNode* ConfigSection::Scalar(std::string_view key, std::string_view type) {
  const YamlEntry* entry = node_ == nullptr ? nullptr : node_->Find(key);
  if (entry == nullptr) return nullptr;
  if (entry->value.kind == YamlNode::Kind::kScalar) return &entry->value;
  Error(key, fmt::format("must be {}, got {}", type, KindName(entry->value)));
  return nullptr;
}

ConfigSection ConfigSection::Section(std::string_view key) {
  known_.emplace_back(key);
  const YamlEntry* entry = node_ == nullptr ? nullptr : node_->Find(key);
  return {report_, entry == nullptr ? nullptr : &entry->value, Path(key)};
}

void ConfigSection::Flag(std::string_view key, bool* out) {
  Describe(key, "boolean", *out ? "true" : "false", "true, false");
  const YamlNode* node = Scalar(key, "true or false");
  if (node == nullptr) return;
  if (!node->quoted && node->text == "true") {
    *out = true;
  } else if (!node->quoted && node->text == "false") {
    *out = false;
  } else {
    Error(key, "must be true or false, got " + KindName(*node));
  }
}

void ConfigSection::ReadInteger(std::string_view key, std::int32_t step, std::int32_t least,
                                std::int32_t most, const std::string& range, std::int32_t* out) {
  Describe(key, "integer", std::to_string(*out), range);
  const YamlNode* node = Scalar(key, "an integer");
  if (node == nullptr) return;
  std::int64_t value = 0;
  const char* end = node->text.data() + node->text.size();
  const auto [parsed, error] = std::from_chars(node->text.data(), end, value);
  if (node->quoted || parsed != end || error == std::errc::invalid_argument) {
    Error(key, "must be an integer, got " + KindName(*node) + (node->quoted ? " in quotes" : ""));
  } else if (error != std::errc() || value < least || value > most || value % step != 0) {
    Error(key, "must be " + range + ", got " + Shown(node->text));
  } else {
    *out = static_cast<std::int32_t>(value);
  }
}

void ConfigSection::Integer(std::string_view key, std::int32_t least, std::int32_t most, std::int32_t* out) {
  ReadInteger(key, 1, least, most, fmt::format("{} to {}", least, most), out);
}

void ConfigSection::Multiple(std::string_view key, std::int32_t step, std::int32_t least, std::int32_t most,
                             std::int32_t* out) {
  ReadInteger(key, step, least, most, fmt::format("a multiple of {}, {} to {}", step, least, most), out);
}

void ConfigSection::Bytes(std::string_view key, std::int64_t least, std::int64_t most, std::int64_t* out) {
  const std::string range = FormatBytes(least) + " to " + FormatBytes(most);
  Describe(key, "size", FormatBytes(*out), range);
  const YamlNode* node = Scalar(key, "a size");
  if (node == nullptr) return;
  const std::optional<std::int64_t> bytes = ParseBytes(node->text);
  if (!bytes) {
    Error(key, "must be a size like 4GiB, 512MiB or a number of bytes (units: KiB, MiB, GiB, TiB), got " +
                   KindName(*node));
  } else if (*bytes < least || *bytes > most) {
    Error(key, "must be " + range + ", got " + Shown(node->text));
  } else {
    *out = *bytes;
  }
}

void ConfigSection::Seconds(std::string_view key, double least, double most, double* out) {
  const std::string range = FormatSeconds(least) + " to " + FormatSeconds(most);
  Describe(key, "duration", FormatSeconds(*out), range);
  const YamlNode* node = Scalar(key, "a duration");
  if (node == nullptr) return;
  const std::optional<double> seconds = ParseSeconds(node->text);
  if (!seconds) {
    Error(key, "must be a duration like 30s or 500ms (units: ms, s, m, h), got " + KindName(*node));
  } else if (*seconds < least || *seconds > most) {
    Error(key, "must be " + range + ", got " + Shown(node->text));
  } else {
    *out = *seconds;
  }
}

void ConfigSection::ReadText(std::string_view key, std::string* out) {
  const YamlNode* node = Scalar(key, "a text");
  if (node == nullptr) return;
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (LooksLikeAnotherType(*node)) {
    Error(key, "must be a text; put " + Shown(node->text) + " in quotes if that is what you mean");
  } else if (node->text.size() > kMaxTextBytes) {
    Error(key, fmt::format("has {} bytes, over the limit of {}", node->text.size(), kMaxTextBytes));
  } else if (std::any_of(node->text.begin(), node->text.end(), control)) {
    Error(key, "must not hold control characters, got " + Shown(node->text));
  } else {
    *out = node->text;
  }
}

void ConfigSection::Choice(std::string_view key, std::initializer_list<std::string_view> choices,
                           std::string* out) {
  Describe(key, "text", *out, Joined(choices));
  std::string value = *out;
  ReadText(key, &value);
  if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
    Error(key, "must be one of " + Joined(choices) + ", got " + Shown(value));
    return;
  }
  *out = value;
}

void ConfigSection::Listen(std::string_view key, ListenAddress* out) {
  Describe(key, "address", FormatListenAddress(*out), "host:port");
  std::string text;
  ReadText(key, &text);
  if (Scalar(key, "an address") == nullptr || text.empty()) return;
  const Result<ListenAddress> address = ParseListenAddress(text);
  if (address.ok()) {
    *out = *address;
  } else {
    Error(key, Shown(text) + " " + address.status().message());
  }
}

void ConfigSection::Text(std::string_view key, std::string_view meaning, std::string* out) {
  Describe(key, "text", *out, std::string(meaning));
  ReadText(key, out);
}

bool ConfigSection::Require(std::string_view key) {
  if (node_ != nullptr && node_->Find(key) != nullptr) return true;
  Error(key, "is required");
  return false;
}

void ConfigSection::RequiredText(std::string_view key, std::string_view meaning, std::string* out) {
  Describe(key, "text", "required", std::string(meaning));
  if (!Require(key)) return;
  ReadText(key, out);
  const YamlEntry* entry = node_->Find(key);
  if (entry->value.kind == YamlNode::Kind::kScalar && entry->value.text.empty())
    Error(key, "must not be empty");
}

void ConfigSection::TextList(std::string_view key, std::size_t most, std::size_t most_bytes,
                             std::vector<std::string>* out) {
  Describe(key, "list of texts", "[]", fmt::format("at most {} of 1 to {} bytes", most, most_bytes));
  const YamlEntry* entry = node_ == nullptr ? nullptr : node_->Find(key);
  if (entry == nullptr) return;
  const YamlNode& list = entry->value;
  if (list.kind != YamlNode::Kind::kSequence) {
    Error(key, "must be a list of texts ([...]), got " + KindName(list));
    return;
  }
  if (list.items.size() > most) {
    Error(key, fmt::format("has {} entries, over the limit of {}", list.items.size(), most));
    return;
  }
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const YamlNode& item = list.items[i];
    const std::string where = fmt::format("{}[{}]", Path(key), i);
    if (item.kind != YamlNode::Kind::kScalar) {
      report_->Error(where, item.line, "must be a text, got " + KindName(item));
    } else if (LooksLikeAnotherType(item)) {
      report_->Error(where, item.line,
                     "must be a text; put " + Shown(item.text) + " in quotes if that is what you mean");
    } else if (item.text.empty() || item.text.size() > most_bytes) {
      report_->Error(where, item.line,
                     fmt::format("must have 1 to {} bytes, got {}", most_bytes, item.text.size()));
    } else {
      out->push_back(item.text);
    }
  }
}

void ConfigSection::RequiredList(std::string_view key, std::size_t most,
                                 const std::function<void(ConfigSection&)>& read) {
  known_.emplace_back(key);
  if (report_->for_schema()) {
    ConfigSection entry(report_, nullptr, Path(key) + "[]");
    read(entry);
    return;
  }
  if (!Require(key)) return;
  const YamlNode& list = node_->Find(key)->value;
  if (list.kind == YamlNode::Kind::kNull || (list.kind == YamlNode::Kind::kSequence && list.items.empty())) {
    Error(key, "must have at least one entry");
    return;
  }
  if (list.kind != YamlNode::Kind::kSequence) {
    Error(key, "must be a list (- ...), got " + KindName(list));
    return;
  }
  if (list.items.size() > most) {
    Error(key, fmt::format("has {} entries, over the limit of {}", list.items.size(), most));
    return;
  }
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    ConfigSection item(report_, &list.items[i], fmt::format("{}[{}]", Path(key), i));
    read(item);
  }
}

void ConfigSection::Finish() {
  if (node_ == nullptr) return;
  for (const YamlEntry& entry : node_->entries) {
    if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
    const std::string nearest = Nearest(entry.key, known_);
    report_->Error(Path(Cleaned(entry.key)), entry.line,
                   nearest.empty()
                       ? "is not a key here; the keys are " + fmt::format("{}", fmt::join(known_, ", "))
                       : "is not a key; did you mean '" + nearest + "'?");
  }
}

}  // namespace skipjack
