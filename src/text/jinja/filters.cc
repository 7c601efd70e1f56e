#include "text/jinja/filters.h"

#include <string>
#include <unordered_map>

namespace skipjack::jinja {
namespace {

const std::unordered_map<std::string_view, Filter>& Filters() {
  static const auto filters = [] {
    std::unordered_map<std::string_view, Filter> all;
    for (const auto& family : {TextFilters(), SequenceFilters(), ValueFilters()}) {
      for (const NamedFilter& filter : family) all.emplace(filter.name, filter.apply);
    }
    return all;
  }();
  return filters;
}

}  // namespace

Value Interpreter::ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments) {
  const StackGuard stack(this);
  meter_.Read(name.size());
  const auto found = Filters().find(name);
  if (found == Filters().end()) throw Failure("the filter '" + name.substr(0, 80) + "' is not supported");
  return found->second(*this, input, arguments);
}

const Value* GivenArgument(const Arguments& arguments, std::size_t index, std::string_view name) {
  const Value* value = arguments.Find(index, name);
  return value != nullptr && !value->is_none() && !value->is_undefined() ? value : nullptr;
}

bool FlagArgument(const Arguments& arguments, std::size_t index, std::string_view name) {
  const Value* value = arguments.Find(index, name);
  return value != nullptr && value->Truthy();
}

std::int64_t IntegerArgument(const Arguments& arguments, std::size_t index, std::string_view name,
                             std::int64_t absent) {
  const Value* value = GivenArgument(arguments, index, name);
  if (value == nullptr) return absent;
  if (!value->is_integral()) throw Failure(std::string(name) + " must be a whole number");
  return value->integer();
}

const Text& TextOf(Meter& meter, const Value& value, Text* made) {
  if (value.is_text()) return value.text();
  *made = ToText(meter, value);
  return *made;
}

}  // namespace skipjack::jinja
