// What the parser makes of a template. Immutable once parsed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace skipjack::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

enum class ExpressionKind : std::uint8_t {
  kConstant,  // constant
  kName,      // name
  kList,      // operands
  kTuple,     // operands
  kDict,      // operands: key, value, key, value, ...
  kNot,       // operands[0]
  kNegate,    // operands[0]
  kAnd,       // operands[0], [1]; kOr alike
  kOr,
  kBinary,       // name is the operator: + - * / // % ** ~
  kCompare,      // operands[0] names[0] operands[1] names[1] ...: chained comparisons, also "in" and "not in"
  kConditional,  // operands[0] if operands[1] else operands[2] (may be null)
  kAttribute,    // operands[0].name
  kSubscript,    // operands[0][operands[1]]
  kSlice,        // operands[0][operands[1] : operands[2] : operands[3]], each of the last three may be null
  kCall,         // operands[0](operands[1..], named)
  kFilter,       // operands[0] | name(operands[1..], named)
  kTest,         // operands[0] is name(operands[1..])
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  int line = 1;
  int height = 1;  // of the tree below, bounded by the parser
  Value constant;
  std::string name;
  std::vector<std::string> names;
  std::vector<ExpressionPtr> operands;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Statement;
using Block = std::vector<std::unique_ptr<const Statement>>;

struct Parameter {
  std::string name;
  ExpressionPtr default_value;  // null: required (undefined when missing, as in Jinja)
};

enum class StatementKind : std::uint8_t {
  kText,    // text
  kOutput,  // value
  kIf,      // value, body, else_body
  kFor,     // targets in value [if condition], body, else_body
  kBreak,
  kContinue,
  kSet,          // targets = value; "namespace.attribute" has object_name set
  kSetBlock,     // targets[0] = rendered body, through filters
  kMacro,        // name, parameters, body
  kCallBlock,    // value is the call; body becomes caller(parameters)
  kFilterBlock,  // body through filters
  kWith,         // parameters with values, body
  kScope,        // body as it is (generation tag)
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 1;
  Text text;
  std::string name;
  std::string object_name;  // kSet: the namespace whose attribute targets[0] is set
  std::vector<std::string> targets;
  ExpressionPtr value;
  ExpressionPtr condition;
  std::vector<Parameter> parameters;
  // kSetBlock, kFilterBlock: a filter expression whose innermost operand is the name kBlockContent.
  ExpressionPtr filter;
  Block body;
  Block else_body;
};

inline constexpr const char* kBlockContent = " block content";

}  // namespace skipjack::jinja
