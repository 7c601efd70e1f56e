#include "text/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace skipjack::jinja {
namespace {

constexpr int kMaxDepth = 200;

Value FromJsonAt(const nlohmann::ordered_json& json, int depth) {
  if (depth > kMaxDepth) throw Failure("the template's variables are nested too deeply");
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::boolean:
      return Value(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer:
      return Value(json.get<std::int64_t>());
    case nlohmann::ordered_json::value_t::number_unsigned: {
      const auto value = json.get<std::uint64_t>();
      if (value > static_cast<std::uint64_t>(INT64_MAX)) return Value(static_cast<double>(value));
      return Value(static_cast<std::int64_t>(value));
    }
    case nlohmann::ordered_json::value_t::number_float:
      return Value(json.get<double>());
    case nlohmann::ordered_json::value_t::string:
      return Value::MakeText(json.get<std::string>(), false);
    case nlohmann::ordered_json::value_t::array: {
      List items;
      items.reserve(json.size());
      for (const nlohmann::ordered_json& item : json) items.push_back(FromJsonAt(item, depth + 1));
      return Value::MakeList(std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) {
        dict.entries.emplace_back(Value::MakeText(key, false), FromJsonAt(item, depth + 1));
      }
      return Value::MakeDict(std::move(dict));
    }
    default:
      return {};
  }
}

// The code point at `at`, or -1 and one byte for an odd one.
void AppendEscape(unsigned code, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  *out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) *out += kHex[(code >> shift) & 15];
}

std::string JsonQuoted(const std::string& bytes) {
  std::string out = "\"";
  for (const char c : bytes) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          AppendEscape(static_cast<unsigned char>(c), &out);
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

Text Repr(const Text& text) {
  const std::string& bytes = text.bytes();
  const char quote =
      bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos ? '"' : '\'';
  Text out;
  out.Append(std::string_view(&quote, 1), false);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const char c = bytes[at];
    const bool trusted = text.TrustedAt(at);
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out.Append("\\n", trusted);
    } else if (c == '\r') {
      out.Append("\\r", trusted);
    } else if (c == '\t') {
      out.Append("\\t", trusted);
    } else if (c == '\\' || c == quote) {
      out.Append(std::string{'\\', c}, trusted);
    } else if (byte < 0x20 || byte == 0x7f) {
      constexpr char kHex[] = "0123456789abcdef";
      out.Append(std::string{'\\', 'x', kHex[byte >> 4], kHex[byte & 15]}, trusted);
    } else {
      out.Append(std::string_view(&c, 1), trusted);
    }
  }
  out.Append(std::string_view(&quote, 1), false);
  return out;
}

Text ReprAt(const Value& value, int depth) {
  if (depth > kMaxDepth) throw Failure("a value is nested too deeply to be printed");
  if (value.is_text()) return Repr(value.text());
  if (value.is_list()) {
    Text out = Text::Untrusted(value.is_tuple() ? "(" : "[");
    const List& items = value.list();
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out.Append(", ", false);
      out.Append(ReprAt(items[i], depth + 1));
    }
    if (value.is_tuple() && items.size() == 1) out.Append(",", false);
    out.Append(value.is_tuple() ? ")" : "]", false);
    return out;
  }
  if (value.is_dict()) {
    Text out = Text::Untrusted("{");
    for (std::size_t i = 0; i < value.dict().entries.size(); ++i) {
      if (i > 0) out.Append(", ", false);
      out.Append(ReprAt(value.dict().entries[i].first, depth + 1));
      out.Append(": ", false);
      out.Append(ReprAt(value.dict().entries[i].second, depth + 1));
    }
    out.Append("}", false);
    return out;
  }
  return ToText(value);
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  Text Write(const Value& value) {
    Append(value, 0);
    return trusted_ ? Text::Trusted(std::move(out_)) : Text::Untrusted(std::move(out_));
  }

 private:
  void Append(const Value& value, int depth) {
    if (depth > kMaxDepth) throw Failure("a value is nested too deeply for tojson");
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.boolean() ? "true" : "false";
    } else if (value.is_int()) {
      out_ += std::to_string(value.integer());
      trusted_ = false;
    } else if (value.is_float()) {
      out_ += JsonFloat(value.number());
      trusted_ = false;
    } else if (value.is_text()) {
      AppendString(value.text());
    } else if (value.is_list()) {
      AppendList(value.list(), depth);
    } else if (value.is_dict()) {
      AppendDict(value.dict(), depth);
    } else {
      throw Failure(std::string("a value of type ") + value.TypeName() + " cannot be written as JSON");
    }
  }

  void AppendString(const Text& text) {
    trusted_ = trusted_ && text.FullyTrusted();
    out_ += JsonQuoted(text.bytes());
  }

  void AppendList(const List& items, int depth) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      BeginItem(i, depth + 1);
      Append(items[i], depth + 1);
    }
    NewLine(depth);
    out_ += ']';
  }

  void AppendDict(const Dict& dict, int depth) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const Pair*> entries;
    for (const Pair& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::sort(entries.begin(), entries.end(), [](const Pair* a, const Pair* b) {
        return ToText(a->first).bytes() < ToText(b->first).bytes();
      });
    }
    out_ += '{';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      BeginItem(i, depth + 1);
      AppendString(ToText(entries[i]->first));
      out_ += ": ";
      Append(entries[i]->second, depth + 1);
    }
    NewLine(depth);
    out_ += '}';
  }

  void BeginItem(std::size_t index, int depth) {
    if (index > 0) out_ += style_.indent < 0 ? ", " : ",";
    NewLine(depth);
  }

  void NewLine(int depth) {
    if (style_.indent < 0) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(depth) * static_cast<std::size_t>(style_.indent), ' ');
  }

  static std::string JsonFloat(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return FloatRepr(value);
  }

  JsonStyle style_;
  std::string out_;
  bool trusted_ = true;
};

bool EqualAt(const Value& a, const Value& b, int depth) {
  if (depth > kMaxDepth) throw Failure("values are nested too deeply to be compared");
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    return a.number() == b.number();
  }
  if (a.is_text() && b.is_text()) return a.bytes() == b.bytes();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_list() && b.is_list()) {
    if (a.is_tuple() != b.is_tuple() || a.list().size() != b.list().size()) return false;
    for (std::size_t i = 0; i < a.list().size(); ++i) {
      if (!EqualAt(a.list()[i], b.list()[i], depth + 1)) return false;
    }
    return true;
  }
  if (a.is_dict() && b.is_dict()) {
    if (a.dict().entries.size() != b.dict().entries.size()) return false;
    for (const Pair& entry : a.dict().entries) {
      const Value* other = b.dict().Find(entry.first);
      if (other == nullptr || !EqualAt(entry.second, *other, depth + 1)) return false;
    }
    return true;
  }
  return false;
}

}  // namespace

const Value* Dict::Find(std::string_view key) const {
  for (const Pair& entry : entries) {
    if (entry.first.is_text() && entry.first.bytes() == key) return &entry.second;
  }
  return nullptr;
}

const Value* Dict::Find(const Value& key) const {
  for (const Pair& entry : entries) {
    if (Equal(entry.first, key)) return &entry.second;
  }
  return nullptr;
}

void Dict::Set(Value key, Value value) {
  for (Pair& entry : entries) {
    if (!Equal(entry.first, key)) continue;
    entry.second = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
}

const Value* Arguments::Find(std::size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

Value Value::FromJson(const nlohmann::ordered_json& json) {
  return FromJsonAt(json, 0);
}

bool Value::Truthy() const {
  if (is_bool()) return boolean();
  if (is_int()) return integer() != 0;
  if (is_float()) return number() != 0;
  if (is_text()) return !text().empty();
  if (is_list()) return !list().empty();
  if (is_dict()) return !dict().entries.empty();
  return !is_undefined() && !is_none();
}

const char* Value::TypeName() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "none";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_text()) return "string";
  if (is_tuple()) return "tuple";
  if (is_list()) return "list";
  if (is_dict()) return "mapping";
  if (is_namespace()) return "namespace";
  return "function";
}

bool Equal(const Value& a, const Value& b) {
  return EqualAt(a, b, 0);
}

int Compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
    return a.number() < b.number() ? -1 : a.number() > b.number();
  }
  // UTF-8 sorts bytewise as its code points do.
  if (a.is_text() && b.is_text()) {
    const int order = a.bytes().compare(b.bytes());
    return order < 0 ? -1 : order > 0;
  }
  if (a.is_list() && b.is_list()) {
    for (std::size_t i = 0; i < std::min(a.list().size(), b.list().size()); ++i) {
      if (const int order = Compare(a.list()[i], b.list()[i]); order != 0) return order;
    }
    return a.list().size() < b.list().size() ? -1 : a.list().size() > b.list().size();
  }
  throw Failure(std::string("values of type ") + a.TypeName() + " and " + b.TypeName() + " have no order");
}

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  // Shortest digits that read back the same; Python switches to an exponent below 1e-4 and from 1e16 on.
  const double magnitude = std::fabs(value);
  const bool exponent = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  const auto format = exponent ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, format).ptr;
  std::string out(buffer, end);
  if (!exponent && out.find('.') == std::string::npos) out += ".0";
  return out;
}

Text ToText(const Value& value) {
  if (value.is_text()) return value.text();
  if (value.is_undefined()) return {};
  if (value.is_none()) return Text::Untrusted("None");
  if (value.is_bool()) return Text::Untrusted(value.boolean() ? "True" : "False");
  if (value.is_int()) return Text::Untrusted(std::to_string(value.integer()));
  if (value.is_float()) return Text::Untrusted(FloatRepr(value.number()));
  if (value.is_list() || value.is_dict()) return ReprAt(value, 0);
  throw Failure(std::string("a ") + value.TypeName() + " cannot be printed");
}

Text ToRepr(const Value& value) {
  return ReprAt(value, 0);
}

Text ToJson(const Value& value, const JsonStyle& style) {
  return JsonWriter(style).Write(value);
}

}  // namespace skipjack::jinja
