#include "text/jinja/value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace skipjack::jinja {
namespace {

constexpr std::size_t kMaxUndefinedName = 80;

Value FromJsonAt(Meter& meter, const nlohmann::ordered_json& json, int depth) {
  if (depth > Value::kMaxHeight) throw Failure("the template's variables are nested too deeply");
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
    case nlohmann::ordered_json::value_t::string: {
      const auto& bytes = json.get_ref<const std::string&>();
      meter.Grow(Meter::kTextBytes + bytes.size());
      return Value::MakeText(bytes, false);
    }
    case nlohmann::ordered_json::value_t::array: {
      meter.GrowItems(json.size());
      List items;
      items.reserve(json.size());
      for (const nlohmann::ordered_json& item : json) items.push_back(FromJsonAt(meter, item, depth + 1));
      return Value::MakeList(std::move(items));
    }
    case nlohmann::ordered_json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) {
        meter.Grow(Meter::kTextBytes + key.size());
        dict.Add(meter, Value::MakeText(key, false), FromJsonAt(meter, item, depth + 1));
      }
      return Value::MakeDict(std::move(dict));
    }
    default:
      return {};
  }
}

int CheckedHeight(int height) {
  if (height > Value::kMaxHeight) {
    throw Failure("values in the chat template are nested more than " + std::to_string(Value::kMaxHeight) +
                  " levels deep");
  }
  return height;
}

int DictHeight(const Dict& dict) {
  int height = 0;
  for (const Pair& entry : dict.entries) {
    height = std::max({height, entry.first.height(), entry.second.height()});
  }
  return height + 1;
}

}  // namespace

int HeightOver(const List& items) {
  int height = 0;
  for (const Value& item : items) height = std::max(height, item.height());
  return height + 1;
}

const Value* Dict::Find(Meter& meter, std::string_view key) const {
  for (const Pair& entry : entries) {
    if (!entry.first.is_text() || entry.first.bytes().size() != key.size()) {
      meter.Read(sizeof(Pair) / 8);
      continue;
    }
    meter.Read(key.size() + sizeof(Pair) / 8);
    if (entry.first.bytes() == key) return &entry.second;
  }
  return nullptr;
}

const Value* Dict::Find(Meter& meter, const Value& key) const {
  if (key.is_text()) return Find(meter, std::string_view(key.bytes()));
  for (const Pair& entry : entries) {
    if (Equal(meter, entry.first, key)) return &entry.second;
  }
  return nullptr;
}

void Dict::Set(Meter& meter, Value key, Value value) {
  if (const Value* found = Find(meter, key)) {
    *const_cast<Value*>(found) = std::move(value);
    return;
  }
  Add(meter, std::move(key), std::move(value));
}

void Dict::Add(Meter& meter, Value key, Value value) {
  meter.GrowItems(2);
  entries.emplace_back(std::move(key), std::move(value));
}

const Value* Arguments::Find(std::size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

Value Value::MakeUndefined(std::string_view name) {
  const std::string_view shown = name.substr(0, kMaxUndefinedName);
  return FromState(
      Undefined{std::make_shared<const std::string>(std::string(shown) + (shown == name ? "" : "..."))});
}

Value Value::MakeList(List items, bool tuple) {
  const int height = CheckedHeight(HeightOver(items));
  return FromState(Sequence{std::make_shared<const List>(std::move(items)), height, tuple});
}

Value Value::MakeDict(Dict dict) {
  const int height = CheckedHeight(DictHeight(dict));
  return FromState(Mapping{std::make_shared<const Dict>(std::move(dict)), height});
}

Value Value::MakeFunction(Function function, int height) {
  return FromState(
      Callable{std::make_shared<const Function>(std::move(function)), CheckedHeight(height + 1)});
}

Value Value::FromJson(Meter& meter, const nlohmann::ordered_json& json) {
  return FromJsonAt(meter, json, 0);
}

int Value::height() const {
  if (is_list()) return std::get<Sequence>(state_).height;
  if (is_dict()) return std::get<Mapping>(state_).height;
  if (is_namespace()) return std::get<Namespace>(state_).height;
  return is_callable() ? std::get<Callable>(state_).height : 0;
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

}  // namespace skipjack::jinja
