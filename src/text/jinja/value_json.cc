// tojson.
#include <algorithm>
#include <cmath>

#include "text/jinja/value.h"

namespace skipjack::jinja {
namespace {

// The escape that JSON asks for, or empty where the byte may stand as it is.
std::string Escape(char c) {
  constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      return byte < 0x20 ? std::string{'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]} : "";
  }
}

class JsonWriter {
 public:
  JsonWriter(Meter& meter, const JsonStyle& style) : meter_(meter), style_(style) {}

  Text Write(const Value& value) {
    Append(value, 0);
    return trusted_ ? Text::Trusted(std::move(out_)) : Text::Untrusted(std::move(out_));
  }

 private:
  void Put(std::string_view bytes) {
    meter_.GrowText(out_.size(), bytes.size());
    out_ += bytes;
  }

  void Append(const Value& value, int depth) {
    meter_.Step();
    if (value.is_none()) {
      Put("null");
    } else if (value.is_bool()) {
      Put(value.boolean() ? "true" : "false");
    } else if (value.is_int()) {
      Put(std::to_string(value.integer()));
      trusted_ = false;
    } else if (value.is_float()) {
      Put(JsonFloat(value.number()));
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
    const std::string_view bytes = text.bytes();
    meter_.Read(bytes.size());
    trusted_ = trusted_ && text.FullyTrusted();
    Put("\"");
    std::size_t plain = 0;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      const std::string escape = Escape(bytes[at]);
      if (escape.empty()) continue;
      Put(bytes.substr(plain, at - plain));
      Put(escape);
      plain = at + 1;
    }
    Put(bytes.substr(plain));
    Put("\"");
  }

  void AppendList(const List& items, int depth) {
    if (items.empty()) return Put("[]");
    Put("[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      BeginItem(i, depth + 1);
      Append(items[i], depth + 1);
    }
    NewLine(depth);
    Put("]");
  }

  void AppendDict(const Dict& dict, int depth) {
    if (dict.entries.empty()) return Put("{}");
    Put("{");
    std::size_t written = 0;
    for (const auto& [key, value] : Ordered(dict)) {
      BeginItem(written++, depth + 1);
      AppendString(key);
      Put(": ");
      Append(*value, depth + 1);
    }
    NewLine(depth);
    Put("}");
  }

  std::vector<std::pair<Text, const Value*>> Ordered(const Dict& dict) {
    std::vector<std::pair<Text, const Value*>> entries;
    for (const Pair& entry : dict.entries) {
      meter_.Grow(Meter::kTextBytes);
      entries.emplace_back(ToText(meter_, entry.first), &entry.second);
    }
    if (!style_.sort_keys) return entries;
    std::stable_sort(entries.begin(), entries.end(), [this](const auto& a, const auto& b) {
      meter_.Step();
      meter_.Read(std::min(a.first.size(), b.first.size()));
      return a.first.bytes() < b.first.bytes();
    });
    return entries;
  }

  void BeginItem(std::size_t index, int depth) {
    if (index > 0) Put(style_.indent < 0 ? ", " : ",");
    NewLine(depth);
  }

  void NewLine(int depth) {
    if (style_.indent < 0) return;
    Put("\n");
    Put(std::string(static_cast<std::size_t>(depth) * static_cast<std::size_t>(style_.indent), ' '));
  }

  static std::string JsonFloat(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return FloatRepr(value);
  }

  Meter& meter_;
  JsonStyle style_;
  std::string out_;
  bool trusted_ = true;
};

}  // namespace

Text ToJson(Meter& meter, const Value& value, const JsonStyle& style) {
  return JsonWriter(meter, style).Write(value);
}

}  // namespace skipjack::jinja
