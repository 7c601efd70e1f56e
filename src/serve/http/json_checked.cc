#include "serve/http/json_checked.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace skipjack::http {
namespace {

// Builds the document event by event; the parser that drives it is iterative, so depth costs no stack.
class CheckedBuilder final : public Json::json_sax_t {
 public:
  explicit CheckedBuilder(const JsonLimits& limits) : limits_(limits) {}

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
    if (!IsNew(level, name)) return Fail("key \"" + Shortened(name) + "\" is given twice in one object");
    slot_ = &level.container->get_ref<Json::object_t&>().emplace_back(name, nullptr).second;
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
  static std::string Shortened(const std::string& name) {
    constexpr std::size_t kMost = 64;
    return name.size() <= kMost ? name : name.substr(0, kMost) + "...";
  }

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
    if (++containers_ > limits_.containers) {
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
  Json document_;
  std::vector<Level> open_;  // from the outermost container to the one being filled
  Json* slot_ = nullptr;     // where the value of the last key goes
  std::size_t containers_ = 0;
  std::string error_;
};

}  // namespace

Result<Json> ParseJson(std::string_view text, const JsonLimits& limits) {
  CheckedBuilder builder(limits);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return Status::InvalidArgument("the body is not acceptable JSON: " + builder.error());
  }
  return builder.TakeDocument();
}

}  // namespace skipjack::http
