#include "text/jinja/expression_parser.h"

namespace skipjack::jinja {
namespace {

constexpr int kMaxHeight = 500;

}  // namespace

MutableExpression ExpressionParser::MakeExpression(ExpressionKind kind) const {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = Peek().line;
  return expression;
}

// Long chains (a + a + ...) nest without recursion here, but are evaluated recursively: bound their height.
void ExpressionParser::Raise(Expression* parent, const Expression& child) const {
  parent->height = std::max(parent->height, child.height + 1);
  if (parent->height > kMaxHeight) Fail("an expression is too long");
}

void ExpressionParser::Adopt(Expression* parent, MutableExpression child) const {
  if (child) Raise(parent, *child);
  parent->operands.push_back(std::move(child));
}

MutableExpression ExpressionParser::MakeUnary(ExpressionKind kind, MutableExpression operand) const {
  auto expression = MakeExpression(kind);
  Adopt(expression.get(), std::move(operand));
  return expression;
}

MutableExpression ExpressionParser::MakeBinary(ExpressionKind kind, std::string name, MutableExpression a,
                                               MutableExpression b) const {
  auto expression = MakeExpression(kind);
  expression->name = std::move(name);
  Adopt(expression.get(), std::move(a));
  Adopt(expression.get(), std::move(b));
  return expression;
}

// "a, b" without parentheses is a tuple where a statement allows one.
MutableExpression ExpressionParser::ParseTupleOrExpression(bool with_conditional) {
  auto first = with_conditional ? ParseExpression() : ParseOr();
  if (!IsOperator(",")) return first;
  auto tuple = MakeUnary(ExpressionKind::kTuple, std::move(first));
  while (TakeOperator(",")) {
    if (Peek().kind == TokenKind::kStatementEnd || Peek().kind == TokenKind::kOutputEnd) break;
    Adopt(tuple.get(), with_conditional ? ParseExpression() : ParseOr());
  }
  return tuple;
}

MutableExpression ExpressionParser::ParseExpression() {
  const Depth depth(this);
  auto value = ParseOr();
  while (TakeName("if")) {
    auto condition = ParseOr();
    auto conditional = MakeBinary(ExpressionKind::kConditional, "", std::move(value), std::move(condition));
    Adopt(conditional.get(), TakeName("else") ? ParseExpression() : nullptr);
    value = std::move(conditional);
  }
  return value;
}

MutableExpression ExpressionParser::ParseOr() {
  auto left = ParseAnd();
  while (TakeName("or")) left = MakeBinary(ExpressionKind::kOr, "", std::move(left), ParseAnd());
  return left;
}

MutableExpression ExpressionParser::ParseAnd() {
  auto left = ParseNot();
  while (TakeName("and")) left = MakeBinary(ExpressionKind::kAnd, "", std::move(left), ParseNot());
  return left;
}

MutableExpression ExpressionParser::ParseNot() {
  const Depth depth(this);
  if (TakeName("not")) return MakeUnary(ExpressionKind::kNot, ParseNot());
  return ParseCompare();
}

MutableExpression ExpressionParser::ParseCompare() {
  auto left = ParseAdditive();
  MutableExpression compare;
  while (true) {
    std::string name;
    if (Peek().kind == TokenKind::kOperator &&
        (Peek().text == "==" || Peek().text == "!=" || Peek().text == "<" || Peek().text == ">" ||
         Peek().text == "<=" || Peek().text == ">=")) {
      name = Next().text;
    } else if (TakeName("in")) {
      name = "in";
    } else if (IsName("not") && IsName("in", 1)) {
      Next();
      Next();
      name = "not in";
    } else {
      break;
    }
    if (!compare) compare = MakeUnary(ExpressionKind::kCompare, std::move(left));
    compare->names.push_back(std::move(name));
    Adopt(compare.get(), ParseAdditive());
  }
  return compare ? std::move(compare) : std::move(left);
}

MutableExpression ExpressionParser::ParseAdditive() {
  auto left = ParseConcat();
  while (IsOperator("+") || IsOperator("-")) {
    const std::string name = Next().text;
    left = MakeBinary(ExpressionKind::kBinary, name, std::move(left), ParseConcat());
  }
  return left;
}

MutableExpression ExpressionParser::ParseConcat() {
  auto left = ParseMultiplicative();
  while (TakeOperator("~"))
    left = MakeBinary(ExpressionKind::kBinary, "~", std::move(left), ParseMultiplicative());
  return left;
}

MutableExpression ExpressionParser::ParseMultiplicative() {
  auto left = ParseUnary();
  while (IsOperator("*") || IsOperator("/") || IsOperator("//") || IsOperator("%")) {
    const std::string name = Next().text;
    left = MakeBinary(ExpressionKind::kBinary, name, std::move(left), ParseUnary());
  }
  return left;
}

// Filters and tests bind closer than a sign: -5 | abs is -(5 | abs), as in Jinja.
MutableExpression ExpressionParser::ParseUnary() {
  const Depth depth(this);
  if (TakeOperator("-")) return MakeUnary(ExpressionKind::kNegate, ParseUnary());
  if (TakeOperator("+")) return ParseUnary();
  return ParseFilters(ParsePower());
}

MutableExpression ExpressionParser::ParsePower() {
  auto left = ParsePostfix(ParsePrimary());
  while (TakeOperator("**")) left = MakeBinary(ExpressionKind::kBinary, "**", std::move(left), ParseUnary());
  return left;
}

MutableExpression ExpressionParser::ParseFilters(MutableExpression value) {
  while (true) {
    if (TakeOperator("|")) {
      value = ParseFilter(std::move(value));
    } else if (IsName("is")) {
      value = ParseTest(std::move(value));
    } else {
      return value;
    }
  }
}

MutableExpression ExpressionParser::ParseFilter(MutableExpression value) {
  auto filter = MakeUnary(ExpressionKind::kFilter, std::move(value));
  filter->name = ExpectIdentifier();
  if (IsOperator("(")) ParseArguments(filter.get());
  return ParsePostfix(std::move(filter));
}

MutableExpression ExpressionParser::ParseTest(MutableExpression value) {
  Next();
  const bool negated = TakeName("not");
  auto test = MakeUnary(ExpressionKind::kTest, std::move(value));
  test->name = ExpectIdentifier();
  if (IsOperator("(")) {
    ParseArguments(test.get());
  } else if (BeginsTestArgument()) {
    Adopt(test.get(), ParsePostfix(ParsePrimary()));
  }
  return negated ? MakeUnary(ExpressionKind::kNot, std::move(test)) : std::move(test);
}

// "x is divisibleby 3" needs no parentheses.
bool ExpressionParser::BeginsTestArgument() const {
  const Token& token = Peek();
  if (token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat ||
      token.kind == TokenKind::kString) {
    return true;
  }
  if (token.kind == TokenKind::kOperator) return token.text == "[" || token.text == "{";
  if (token.kind != TokenKind::kName) return false;
  static constexpr std::string_view kEnds[] = {"else", "or", "and", "is", "in", "not", "if", "recursive"};
  return std::find(std::begin(kEnds), std::end(kEnds), token.text) == std::end(kEnds);
}

void ExpressionParser::ParseArguments(Expression* call) {
  const Depth depth(this);
  ExpectOperator("(");
  bool first = true;
  while (!TakeOperator(")")) {
    if (!first) {
      ExpectOperator(",");
      if (TakeOperator(")")) return;
    }
    first = false;
    if (Peek().kind == TokenKind::kName && IsOperator("=", 1)) {
      std::string name = Next().text;
      Next();
      MutableExpression value = ParseExpression();
      Raise(call, *value);
      call->named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call->named.empty()) Fail("a positional argument follows a named one");
      Adopt(call, ParseExpression());
    }
  }
}

MutableExpression ExpressionParser::ParsePostfix(MutableExpression value) {
  while (true) {
    if (TakeOperator(".")) {
      auto attribute = MakeUnary(ExpressionKind::kAttribute, std::move(value));
      if (Peek().kind == TokenKind::kInteger) {
        attribute->kind = ExpressionKind::kSubscript;
        Adopt(attribute.get(), ParsePrimary());
      } else {
        attribute->name = ExpectIdentifier();
      }
      value = std::move(attribute);
    } else if (IsOperator("[")) {
      value = ParseSubscript(std::move(value));
    } else if (IsOperator("(")) {
      auto call = MakeUnary(ExpressionKind::kCall, std::move(value));
      ParseArguments(call.get());
      value = std::move(call);
    } else {
      return value;
    }
  }
}

MutableExpression ExpressionParser::ParseSubscript(MutableExpression value) {
  const Depth depth(this);
  Next();
  MutableExpression parts[3];
  int colons = 0;
  while (!IsOperator("]")) {
    if (TakeOperator(":")) {
      if (++colons > 2) Fail("a slice has at most two ':'");
    } else if (parts[colons]) {
      Fail("expected ']', found '" + Peek().text + "'");
    } else {
      parts[colons] = ParseExpression();
    }
  }
  Next();
  auto subscript =
      MakeUnary(colons > 0 ? ExpressionKind::kSlice : ExpressionKind::kSubscript, std::move(value));
  if (colons == 0 && !parts[0]) Fail("an empty subscript");
  Adopt(subscript.get(), std::move(parts[0]));
  if (colons > 0) {
    Adopt(subscript.get(), std::move(parts[1]));
    Adopt(subscript.get(), std::move(parts[2]));
  }
  return subscript;
}

MutableExpression ExpressionParser::MakeConstant(Value value) const {
  auto constant = MakeExpression(ExpressionKind::kConstant);
  constant->constant = std::move(value);
  return constant;
}

MutableExpression ExpressionParser::ParsePrimary() {
  const Depth depth(this);
  const Token token = Next();
  switch (token.kind) {
    case TokenKind::kInteger:
      return MakeConstant(Value(token.integer));
    case TokenKind::kFloat:
      return MakeConstant(Value(token.number));
    case TokenKind::kString: {
      std::string text = token.text;
      while (Peek().kind == TokenKind::kString) text += Next().text;
      return MakeConstant(Value::MakeText(std::move(text), true));
    }
    case TokenKind::kName:
      return ParseNameToken(token.text);
    default:
      break;
  }
  if (token.kind == TokenKind::kOperator) {
    if (token.text == "(") return ParseParenthesis();
    if (token.text == "[") return ParseItems(ExpressionKind::kList, "]");
    if (token.text == "{") return ParseDict();
  }
  at_ -= at_ + 1 < tokens_.size();
  Fail(token.kind == TokenKind::kOperator ? "unexpected '" + token.text + "'" : "an expression is missing");
}

MutableExpression ExpressionParser::ParseNameToken(const std::string& name) const {
  if (name == "true" || name == "True") return MakeConstant(Value(true));
  if (name == "false" || name == "False") return MakeConstant(Value(false));
  if (name == "none" || name == "None") return MakeConstant(Value());
  auto expression = MakeExpression(ExpressionKind::kName);
  expression->name = name;
  return expression;
}

MutableExpression ExpressionParser::ParseParenthesis() {
  if (TakeOperator(")")) return MakeExpression(ExpressionKind::kTuple);
  auto value = ParseExpression();
  if (TakeOperator(")")) return value;
  auto tuple = MakeUnary(ExpressionKind::kTuple, std::move(value));
  while (TakeOperator(",")) {
    if (IsOperator(")")) break;
    Adopt(tuple.get(), ParseExpression());
  }
  ExpectOperator(")");
  return tuple;
}

MutableExpression ExpressionParser::ParseItems(ExpressionKind kind, std::string_view close) {
  auto list = MakeExpression(kind);
  while (!TakeOperator(close)) {
    if (!list->operands.empty()) {
      ExpectOperator(",");
      if (TakeOperator(close)) break;
    }
    Adopt(list.get(), ParseExpression());
  }
  return list;
}

MutableExpression ExpressionParser::ParseDict() {
  auto dict = MakeExpression(ExpressionKind::kDict);
  while (!TakeOperator("}")) {
    if (!dict->operands.empty()) {
      ExpectOperator(",");
      if (TakeOperator("}")) break;
    }
    Adopt(dict.get(), ParseExpression());
    ExpectOperator(":");
    Adopt(dict.get(), ParseExpression());
  }
  return dict;
}

}  // namespace skipjack::jinja
