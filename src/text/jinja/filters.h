// Filters, in three families. Each charges what it does to the interpreter's meter.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "text/jinja/interpreter.h"

namespace skipjack::jinja {

using Filter = Value (*)(Interpreter&, const Value&, const Arguments&);

struct NamedFilter {
  std::string_view name;
  Filter apply;
};

std::span<const NamedFilter> TextFilters();
std::span<const NamedFilter> SequenceFilters();
std::span<const NamedFilter> ValueFilters();

// An argument that is there and not none; otherwise null.
const Value* GivenArgument(const Arguments& arguments, std::size_t index, std::string_view name);
bool FlagArgument(const Arguments& arguments, std::size_t index, std::string_view name);
std::int64_t IntegerArgument(const Arguments& arguments, std::size_t index, std::string_view name,
                             std::int64_t absent);

// A value as text: its own, or made in `made`.
const Text& TextOf(Meter& meter, const Value& value, Text* made);

}  // namespace skipjack::jinja
