// A YAML document as a plain tree with line numbers: the part of YAML that a configuration needs, and no
// more.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace skipjack {

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMapping };

  Kind kind = Kind::kNull;
  int line = 0;                    // from 1
  std::string text;                // of a scalar
  bool quoted = false;             // the scalar can only be a text
  std::vector<YamlNode> items;     // of a sequence
  std::vector<YamlEntry> entries;  // of a mapping, in the order of the file; no key stands twice

  // nullptr when this is no mapping or has no such key.
  const YamlEntry* Find(std::string_view key) const;
};

struct YamlEntry {
  std::string key;
  int line = 0;
  YamlNode value;
};

inline constexpr std::size_t kMaxYamlBytes = 1 << 20;
inline constexpr std::size_t kMaxYamlNodes = 20000;
inline constexpr std::size_t kMaxYamlDepth = 16;

// Refuses what a configuration has no use for and what hides mistakes: duplicate keys, anchors and aliases
// (so merge keys too), tags, keys that are no text, several documents, and more than the limits above. Errors
// begin with `origin` and name the line, and the key path where there is one.
Result<YamlNode> ParseYaml(const std::string& text, const std::string& origin);

}  // namespace skipjack
