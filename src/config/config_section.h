// Reads a mapping of the configuration strictly: every key is asked for by name, type and range, and what was
// not asked for is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "config/daemon_config.h"
#include "config/yaml_tree.h"

namespace skipjack {

// One key of the schema, as docs/configuration.md lists it.
struct ConfigKey {
  std::string path;           // "models[].kv.block_tokens"
  std::string type;           // "integer"
  std::string default_value;  // "required" where there is none
  std::string range;
};

// Collects what is wrong with one configuration, and on request the keys that were asked for.
class ConfigReport {
 public:
  explicit ConfigReport(std::string origin) : origin_(std::move(origin)) {}
  // For listing the keys: there is no file, and lists are asked for one entry.
  static ConfigReport ForSchema() {
    ConfigReport report("");
    report.for_schema_ = true;
    return report;
  }
  bool for_schema() const { return for_schema_; }

  // `line` 0: nowhere in particular.
  void Error(const std::string& path, int line, const std::string& message);
  void AddKey(ConfigKey key);

  // Ok, or InvalidArgument with one line for each of the first errors.
  Status status() const;
  const std::vector<ConfigKey>& keys() const { return keys_; }

 private:
  std::string origin_;
  bool for_schema_ = false;
  std::vector<std::string> errors_;
  std::size_t error_count_ = 0;
  std::vector<ConfigKey> keys_;
};

// Each reader leaves `*out`, which holds the default, alone when the key is absent or wrong.
class ConfigSection {
 public:
  // `node` may be null (everything absent) and must outlive the section, as must `report`.
  ConfigSection(ConfigReport* report, const YamlNode* node, std::string path);

  ConfigSection Section(std::string_view key);

  void Flag(std::string_view key, bool* out);
  void Integer(std::string_view key, std::int32_t least, std::int32_t most, std::int32_t* out);
  // As Integer, for a multiple of `step`.
  void Multiple(std::string_view key, std::int32_t step, std::int32_t least, std::int32_t most,
                std::int32_t* out);
  void Bytes(std::string_view key, std::int64_t least, std::int64_t most, std::int64_t* out);
  void Seconds(std::string_view key, double least, double most, double* out);
  void Choice(std::string_view key, std::initializer_list<std::string_view> choices, std::string* out);
  void Listen(std::string_view key, ListenAddress* out);
  // Any text without control characters. `meaning` stands in the schema as the range.
  void Text(std::string_view key, std::string_view meaning, std::string* out);
  void RequiredText(std::string_view key, std::string_view meaning, std::string* out);
  // At most `most` texts of 1 to `most_bytes` bytes, line breaks and other control characters allowed.
  void TextList(std::string_view key, std::size_t most, std::size_t most_bytes,
                std::vector<std::string>* out);
  // Calls `read` for each item, which must be a mapping. At least one.
  void RequiredList(std::string_view key, std::size_t most, const std::function<void(ConfigSection&)>& read);

  // Errors for a key of this section, or for the section itself.
  void Error(std::string_view key, const std::string& message);
  void Error(const std::string& message);

  // Refuses the keys that were not asked for, each with the nearest one that exists.
  void Finish();

 private:
  std::string Path(std::string_view key) const;
  void Describe(std::string_view key, std::string_view type, const std::string& default_value,
                const std::string& range);
  // The scalar of the key; nullptr when it is absent or (after an error) no scalar.
  const YamlNode* Scalar(std::string_view key, std::string_view type);
  bool Require(std::string_view key);
  void ReadText(std::string_view key, std::string* out);
  void ReadInteger(std::string_view key, std::int32_t step, std::int32_t least, std::int32_t most,
                   const std::string& range, std::int32_t* out);

  ConfigReport* report_;
  const YamlNode* node_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace skipjack
