#include "serve/json_checked.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace skipjack {
namespace {

// The beginning of well-formed text, cut between characters.
std::string Shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  const std::string_view head = text.substr(0, most);
  return std::string(head.substr(0, FindInvalidUtf8(head)));
}

// Builds the document event by event; the parser that drives it is iterative, so depth costs no stack.
class CheckedBuilder final : public Json::json_sax_t {
 public:
  CheckedBuilder(const JsonLimits& limits, JsonUse* use) : limits_(limits), use_(*use) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(std::int64_t value) override { return Add(value); }
  bool number_unsigned(std::uint64_t value) override { return Add(value); }
  bool number_float(double value, const std::string&) override { return Add(value); }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(Json::binary_t&) override { return Fail("binary values are not JSON"); }

  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& name) override {
    Level& level = open_.back();
    auto& object = level.container->get_ref<Json::object_t&>();
    if (object.size() >= limits_.members_per_object) {
      return Fail("an object has more than " + std::to_string(limits_.members_per_object) + " members");
    }
    if (++use_.members > limits_.members) {
      return Fail("objects have more than " + std::to_string(limits_.members) + " members altogether");
    }
    if (!IsNew(level, name)) return Fail("key " + DescribeJson(name) + " is given twice in one object");
    slot_ = &object.emplace_back(name, nullptr).second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const bool overflow = error.id == 406;
    return Fail(std::string(overflow ? "number out of range" : "syntax error or invalid UTF-8") +
                " at byte " + std::to_string(position));
  }

  Json TakeDocument() { return std::move(document_); }
  const std::string& error() const { return error_; }

 private:
  // A container being filled. Objects are lists of keys, so one with many gets a set beside it.
  struct Level {
    Json* container;
    std::unordered_set<std::string> keys;
  };

  static bool IsNew(Level& level, const std::string& name) {
    constexpr std::size_t kFewKeys = 16;
    const auto& object = level.container->get_ref<const Json::object_t&>();
    if (object.size() < kFewKeys) {
      return std::none_of(object.begin(), object.end(),
                          [&](const auto& entry) { return entry.first == name; });
    }
    if (level.keys.empty()) {
      for (const auto& entry : object) level.keys.insert(entry.first);
    }
    return level.keys.insert(name).second;
  }

  bool Fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }

  template <typename Value>
  Json* Place(Value&& value) {
    if (open_.empty()) {
      document_ = std::forward<Value>(value);
      return &document_;
    }
    if (open_.back().container->is_array()) {
      auto& array = open_.back().container->get_ref<Json::array_t&>();
      return &array.emplace_back(std::forward<Value>(value));
    }
    *slot_ = std::forward<Value>(value);
    return slot_;
  }

  template <typename Value>
  bool Add(Value&& value) {
    Place(std::forward<Value>(value));
    return true;
  }

  bool Open(Json container) {
    if (static_cast<int>(open_.size()) >= limits_.depth) {
      return Fail("nested deeper than " + std::to_string(limits_.depth) + " levels");
    }
    if (++use_.containers > limits_.containers) {
      return Fail("more than " + std::to_string(limits_.containers) + " objects and arrays");
    }
    open_.push_back({Place(std::move(container)), {}});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  JsonUse& use_;
  Json document_;
  std::vector<Level> open_;  // from the outermost container to the one being filled
  Json* slot_ = nullptr;     // where the value of the last key goes
  std::string error_;
};

}  // namespace

Result<Json> ParseJson(std::string_view text, const JsonLimits& limits, JsonUse* use) {
  JsonUse own;
  CheckedBuilder builder(limits, use == nullptr ? &own : use);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return Status::InvalidArgument(builder.error());
  return builder.TakeDocument();
}

std::string DescribeJson(const Json& value) {
  constexpr std::size_t kMost = 40;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (!value.is_string()) return value.dump();
  const std::string& text = value.get_ref<const std::string&>();
  return "\"" + Shortened(text, kMost) + (text.size() <= kMost ? "\"" : "\"...");
}

}  // namespace skipjack
