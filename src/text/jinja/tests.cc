// Jinja's "is" tests.
#include <unordered_map>

#include "text/jinja/interpreter.h"

namespace skipjack::jinja {
namespace {

using Test = bool (*)(Interpreter&, const Value&, const Arguments&);

const Value& Operand(const Arguments& arguments) {
  if (arguments.positional.empty()) throw Failure("the test needs a value to compare with");
  return arguments.positional[0];
}

std::int64_t Whole(const Value& value) {
  if (!value.is_integral()) throw Failure("the test needs a whole number");
  return value.integer();
}

template <int kLow, int kHigh>
bool Ordered(Interpreter& i, const Value& v, const Arguments& a) {
  const int order = Compare(i.meter(), v, Operand(a));
  return order >= kLow && order <= kHigh;
}

bool Equals(Interpreter& i, const Value& v, const Arguments& a) {
  return Equal(i.meter(), v, Operand(a));
}
bool Differs(Interpreter& i, const Value& v, const Arguments& a) {
  return !Equal(i.meter(), v, Operand(a));
}

const std::unordered_map<std::string_view, Test>& Tests() {
  static const std::unordered_map<std::string_view, Test> tests = {
      {"defined", [](Interpreter&, const Value& v, const Arguments&) { return !v.is_undefined(); }},
      {"undefined", [](Interpreter&, const Value& v, const Arguments&) { return v.is_undefined(); }},
      {"none", [](Interpreter&, const Value& v, const Arguments&) { return v.is_none(); }},
      {"boolean", [](Interpreter&, const Value& v, const Arguments&) { return v.is_bool(); }},
      {"true", [](Interpreter&, const Value& v, const Arguments&) { return v.is_bool() && v.boolean(); }},
      {"false", [](Interpreter&, const Value& v, const Arguments&) { return v.is_bool() && !v.boolean(); }},
      {"string", [](Interpreter&, const Value& v, const Arguments&) { return v.is_text(); }},
      {"number", [](Interpreter&, const Value& v, const Arguments&) { return v.is_number(); }},
      {"integer", [](Interpreter&, const Value& v, const Arguments&) { return v.is_int(); }},
      {"float", [](Interpreter&, const Value& v, const Arguments&) { return v.is_float(); }},
      {"mapping", [](Interpreter&, const Value& v, const Arguments&) { return v.is_dict(); }},
      {"sequence", [](Interpreter&, const Value& v,
                      const Arguments&) { return v.is_list() || v.is_dict() || v.is_text(); }},
      {"iterable",
       [](Interpreter&, const Value& v, const Arguments&) {
         return v.is_list() || v.is_dict() || v.is_text() || v.is_undefined();
       }},
      {"callable", [](Interpreter&, const Value& v, const Arguments&) { return v.is_callable(); }},
      {"odd", [](Interpreter&, const Value& v, const Arguments&) { return Whole(v) % 2 != 0; }},
      {"even", [](Interpreter&, const Value& v, const Arguments&) { return Whole(v) % 2 == 0; }},
      {"divisibleby",
       [](Interpreter&, const Value& v, const Arguments& a) {
         const std::int64_t divisor = Whole(Operand(a));
         if (divisor == 0) throw Failure("division by zero");
         return divisor == -1 || Whole(v) % divisor == 0;
       }},
      {"lower",
       [](Interpreter& i, const Value& v, const Arguments&) {
         return v.is_text() && MapCase(i.meter(), v.text(), false).bytes() == v.bytes();
       }},
      {"upper",
       [](Interpreter& i, const Value& v, const Arguments&) {
         return v.is_text() && MapCase(i.meter(), v.text(), true).bytes() == v.bytes();
       }},
      {"in", [](Interpreter& i, const Value& v,
                const Arguments& a) { return i.Contains(v, Operand(a)).boolean(); }},
      {"equalto", Equals},
      {"eq", Equals},
      {"sameas", Equals},
      {"ne", Differs},
      {"lt", Ordered<-1, -1>},
      {"lessthan", Ordered<-1, -1>},
      {"le", Ordered<-1, 0>},
      {"gt", Ordered<1, 1>},
      {"greaterthan", Ordered<1, 1>},
      {"ge", Ordered<0, 1>},
  };
  return tests;
}

// "x is ==(y)" and the like reach tests by their operator only through select and friends.
std::string_view Spelt(std::string_view name) {
  if (name == "==") return "eq";
  if (name == "!=") return "ne";
  if (name == "<") return "lt";
  if (name == "<=") return "le";
  if (name == ">") return "gt";
  if (name == ">=") return "ge";
  return name;
}

}  // namespace

bool Interpreter::ApplyTest(const std::string& name, const Value& input, const Arguments& arguments) {
  meter_.Read(name.size());
  const auto found = Tests().find(Spelt(name));
  if (found == Tests().end()) throw Failure("the test '" + name.substr(0, 80) + "' is not supported");
  return found->second(*this, input, arguments);
}

}  // namespace skipjack::jinja
