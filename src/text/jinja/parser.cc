#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "text/jinja/lexer.h"

namespace skipjack::jinja {
namespace {

using MutableExpression = std::unique_ptr<Expression>;

constexpr int kMaxHeight = 500;

class Parser {
 public:
  Parser(std::vector<Token> tokens, int nesting) : tokens_(std::move(tokens)), nesting_(nesting) {}

  Block Run() {
    Block block = ParseBlock({});
    if (Peek().kind != TokenKind::kEnd) Fail("unexpected tag");
    return block;
  }

 private:
  // Counts nesting while it lives.
  class Depth {
   public:
    explicit Depth(Parser* parser) : parser_(parser) {
      if (++parser_->depth_ > parser_->nesting_) parser_->Fail("nested too deeply");
    }
    ~Depth() { --parser_->depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Parser* parser_;
  };

  [[noreturn]] void Fail(const std::string& what) const {
    throw Failure("chat template, line " + std::to_string(Peek().line) + ": " + what);
  }

  const Token& Peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token Next() {
    Token token = Peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool IsOperator(std::string_view text, std::size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kOperator && Peek(ahead).text == text;
  }
  bool IsName(std::string_view text, std::size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kName && Peek(ahead).text == text;
  }
  bool TakeOperator(std::string_view text) {
    if (!IsOperator(text)) return false;
    Next();
    return true;
  }
  bool TakeName(std::string_view text) {
    if (!IsName(text)) return false;
    Next();
    return true;
  }
  void ExpectOperator(std::string_view text) {
    if (!TakeOperator(text)) Fail("expected '" + std::string(text) + "', found '" + Peek().text + "'");
  }
  void ExpectName(std::string_view text) {
    if (!TakeName(text)) Fail("expected '" + std::string(text) + "', found '" + Peek().text + "'");
  }
  std::string ExpectIdentifier() {
    if (Peek().kind != TokenKind::kName) Fail("expected a name, found '" + Peek().text + "'");
    return Next().text;
  }
  void ExpectStatementEnd() {
    if (Peek().kind != TokenKind::kStatementEnd) Fail("expected '%}', found '" + Peek().text + "'");
    Next();
  }

  // Statements up to one of `ends` ({% endif %}, ...), whose name token is then the next one.
  Block ParseBlock(std::initializer_list<std::string_view> ends) {
    const Depth depth(this);
    Block block;
    while (Peek().kind != TokenKind::kEnd) {
      if (Peek().kind == TokenKind::kText) {
        block.push_back(ParseText());
      } else if (Peek().kind == TokenKind::kOutputBegin) {
        block.push_back(ParseOutput());
      } else if (Peek().kind == TokenKind::kStatementBegin) {
        const bool ended =
            std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return IsName(end, 1); });
        Next();
        if (ended) return block;
        block.push_back(ParseStatement());
      } else {
        Fail("unexpected '" + Peek().text + "'");
      }
    }
    if (ends.size() > 0) Fail("the template ends before '" + std::string(*ends.begin()) + "'");
    return block;
  }

  std::unique_ptr<Statement> Make(StatementKind kind) const {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = Peek().line;
    return statement;
  }

  std::unique_ptr<Statement> ParseText() {
    auto statement = Make(StatementKind::kText);
    statement->text = Text::Trusted(Next().text);
    return statement;
  }

  std::unique_ptr<Statement> ParseOutput() {
    Next();
    auto statement = Make(StatementKind::kOutput);
    statement->value = ParseTupleOrExpression();
    if (Peek().kind != TokenKind::kOutputEnd) Fail("expected '}}', found '" + Peek().text + "'");
    Next();
    return statement;
  }

  std::unique_ptr<Statement> ParseStatement() {
    const std::string name = ExpectIdentifier();
    if (name == "if") return ParseIf();
    if (name == "for") return ParseFor();
    if (name == "set") return ParseSet();
    if (name == "macro") return ParseMacro();
    if (name == "call") return ParseCallBlock();
    if (name == "filter") return ParseFilterBlock();
    if (name == "with") return ParseWith();
    if (name == "generation") {
      auto statement = Make(StatementKind::kScope);
      ExpectStatementEnd();
      statement->body = ParseBody("endgeneration");
      return statement;
    }
    if (name == "break" || name == "continue") {
      auto statement = Make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue);
      ExpectStatementEnd();
      return statement;
    }
    Fail("unknown tag '" + name + "'");
  }

  // The block up to {% end %}, which is taken too.
  Block ParseBody(std::string_view end) {
    Block body = ParseBlock({end});
    Next();
    ExpectStatementEnd();
    return body;
  }

  std::unique_ptr<Statement> ParseIf() {
    auto statement = Make(StatementKind::kIf);
    statement->value = ParseTupleOrExpression();
    ExpectStatementEnd();
    statement->body = ParseBlock({"elif", "else", "endif"});
    const std::string end = Next().text;
    if (end == "elif") {
      const Depth depth(this);
      statement->else_body.push_back(ParseIf());
      return statement;
    }
    ExpectStatementEnd();
    if (end == "else") statement->else_body = ParseBody("endif");
    return statement;
  }

  std::unique_ptr<Statement> ParseFor() {
    auto statement = Make(StatementKind::kFor);
    statement->targets = ParseTargets();
    ExpectName("in");
    statement->value = ParseTupleOrExpression(/*with_conditional=*/false);
    if (TakeName("if")) statement->condition = ParseExpression();
    if (IsName("recursive")) Fail("recursive loops are not supported");
    ExpectStatementEnd();
    statement->body = ParseBlock({"else", "endfor"});
    const bool has_else = Next().text == "else";
    ExpectStatementEnd();
    if (has_else) statement->else_body = ParseBody("endfor");
    return statement;
  }

  std::vector<std::string> ParseTargets() {
    std::vector<std::string> targets;
    const bool parenthesis = TakeOperator("(");
    do {
      if (!targets.empty() && Peek().kind != TokenKind::kName) break;
      targets.push_back(ExpectIdentifier());
    } while (TakeOperator(","));
    if (parenthesis) ExpectOperator(")");
    return targets;
  }

  std::unique_ptr<Statement> ParseSet() {
    auto statement = Make(StatementKind::kSet);
    if (Peek().kind == TokenKind::kName && IsOperator(".", 1)) {
      statement->object_name = ExpectIdentifier();
      Next();
      statement->targets = {ExpectIdentifier()};
    } else {
      statement->targets = ParseTargets();
    }
    if (TakeOperator("=")) {
      statement->value = ParseTupleOrExpression();
      ExpectStatementEnd();
      return statement;
    }
    statement->kind = StatementKind::kSetBlock;
    if (statement->targets.size() != 1 || !statement->object_name.empty()) Fail("a set block sets one name");
    if (IsOperator("|")) statement->filter = ParseFilters(BlockContent());
    ExpectStatementEnd();
    statement->body = ParseBody("endset");
    return statement;
  }

  MutableExpression BlockContent() const {
    auto content = MakeExpression(ExpressionKind::kName);
    content->name = kBlockContent;
    return content;
  }

  std::vector<Parameter> ParseParameters() {
    std::vector<Parameter> parameters;
    ExpectOperator("(");
    while (!TakeOperator(")")) {
      if (!parameters.empty()) {
        ExpectOperator(",");
        if (TakeOperator(")")) break;
      }
      Parameter parameter;
      parameter.name = ExpectIdentifier();
      if (TakeOperator("=")) parameter.default_value = ParseExpression();
      parameters.push_back(std::move(parameter));
    }
    return parameters;
  }

  std::unique_ptr<Statement> ParseMacro() {
    auto statement = Make(StatementKind::kMacro);
    statement->name = ExpectIdentifier();
    statement->parameters = ParseParameters();
    ExpectStatementEnd();
    statement->body = ParseBody("endmacro");
    return statement;
  }

  std::unique_ptr<Statement> ParseCallBlock() {
    auto statement = Make(StatementKind::kCallBlock);
    if (IsOperator("(")) statement->parameters = ParseParameters();
    statement->value = ParseExpression();
    if (statement->value->kind != ExpressionKind::kCall) Fail("a call block needs a call");
    ExpectStatementEnd();
    statement->body = ParseBody("endcall");
    return statement;
  }

  std::unique_ptr<Statement> ParseFilterBlock() {
    auto statement = Make(StatementKind::kFilterBlock);
    statement->filter = ParseFilters(ParseFilter(BlockContent()));
    ExpectStatementEnd();
    statement->body = ParseBody("endfilter");
    return statement;
  }

  std::unique_ptr<Statement> ParseWith() {
    auto statement = Make(StatementKind::kWith);
    while (Peek().kind == TokenKind::kName) {
      Parameter parameter;
      parameter.name = ExpectIdentifier();
      ExpectOperator("=");
      parameter.default_value = ParseExpression();
      statement->parameters.push_back(std::move(parameter));
      if (!TakeOperator(",")) break;
    }
    ExpectStatementEnd();
    statement->body = ParseBody("endwith");
    return statement;
  }

  MutableExpression MakeExpression(ExpressionKind kind) const {
    auto expression = std::make_unique<Expression>();
    expression->kind = kind;
    expression->line = Peek().line;
    return expression;
  }

  // Long chains (a + a + ...) nest without recursion here, but are evaluated recursively: bound their height.
  void Raise(Expression* parent, const Expression& child) const {
    parent->height = std::max(parent->height, child.height + 1);
    if (parent->height > kMaxHeight) Fail("an expression is too long");
  }

  void Adopt(Expression* parent, MutableExpression child) const {
    if (child) Raise(parent, *child);
    parent->operands.push_back(std::move(child));
  }

  MutableExpression MakeUnary(ExpressionKind kind, MutableExpression operand) const {
    auto expression = MakeExpression(kind);
    Adopt(expression.get(), std::move(operand));
    return expression;
  }

  MutableExpression MakeBinary(ExpressionKind kind, std::string name, MutableExpression a,
                               MutableExpression b) const {
    auto expression = MakeExpression(kind);
    expression->name = std::move(name);
    Adopt(expression.get(), std::move(a));
    Adopt(expression.get(), std::move(b));
    return expression;
  }

  // "a, b" without parentheses is a tuple where a statement allows one.
  MutableExpression ParseTupleOrExpression(bool with_conditional = true) {
    auto first = with_conditional ? ParseExpression() : ParseOr();
    if (!IsOperator(",")) return first;
    auto tuple = MakeUnary(ExpressionKind::kTuple, std::move(first));
    while (TakeOperator(",")) {
      if (Peek().kind == TokenKind::kStatementEnd || Peek().kind == TokenKind::kOutputEnd) break;
      Adopt(tuple.get(), with_conditional ? ParseExpression() : ParseOr());
    }
    return tuple;
  }

  MutableExpression ParseExpression() {
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

  MutableExpression ParseOr() {
    auto left = ParseAnd();
    while (TakeName("or")) left = MakeBinary(ExpressionKind::kOr, "", std::move(left), ParseAnd());
    return left;
  }

  MutableExpression ParseAnd() {
    auto left = ParseNot();
    while (TakeName("and")) left = MakeBinary(ExpressionKind::kAnd, "", std::move(left), ParseNot());
    return left;
  }

  MutableExpression ParseNot() {
    const Depth depth(this);
    if (TakeName("not")) return MakeUnary(ExpressionKind::kNot, ParseNot());
    return ParseCompare();
  }

  MutableExpression ParseCompare() {
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

  MutableExpression ParseAdditive() {
    auto left = ParseConcat();
    while (IsOperator("+") || IsOperator("-")) {
      const std::string name = Next().text;
      left = MakeBinary(ExpressionKind::kBinary, name, std::move(left), ParseConcat());
    }
    return left;
  }

  MutableExpression ParseConcat() {
    auto left = ParseMultiplicative();
    while (TakeOperator("~"))
      left = MakeBinary(ExpressionKind::kBinary, "~", std::move(left), ParseMultiplicative());
    return left;
  }

  MutableExpression ParseMultiplicative() {
    auto left = ParseUnary();
    while (IsOperator("*") || IsOperator("/") || IsOperator("//") || IsOperator("%")) {
      const std::string name = Next().text;
      left = MakeBinary(ExpressionKind::kBinary, name, std::move(left), ParseUnary());
    }
    return left;
  }

  // Filters and tests bind closer than a sign: -5 | abs is -(5 | abs), as in Jinja.
  MutableExpression ParseUnary() {
    const Depth depth(this);
    if (TakeOperator("-")) return MakeUnary(ExpressionKind::kNegate, ParseUnary());
    if (TakeOperator("+")) return ParseUnary();
    return ParseFilters(ParsePower());
  }

  MutableExpression ParsePower() {
    auto left = ParsePostfix(ParsePrimary());
    while (TakeOperator("**"))
      left = MakeBinary(ExpressionKind::kBinary, "**", std::move(left), ParseUnary());
    return left;
  }

  MutableExpression ParseFilters(MutableExpression value) {
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

  MutableExpression ParseFilter(MutableExpression value) {
    auto filter = MakeUnary(ExpressionKind::kFilter, std::move(value));
    filter->name = ExpectIdentifier();
    if (IsOperator("(")) ParseArguments(filter.get());
    return ParsePostfix(std::move(filter));
  }

  MutableExpression ParseTest(MutableExpression value) {
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
  bool BeginsTestArgument() const {
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

  void ParseArguments(Expression* call) {
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

  MutableExpression ParsePostfix(MutableExpression value) {
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

  MutableExpression ParseSubscript(MutableExpression value) {
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

  MutableExpression MakeConstant(Value value) const {
    auto constant = MakeExpression(ExpressionKind::kConstant);
    constant->constant = std::move(value);
    return constant;
  }

  MutableExpression ParsePrimary() {
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

  MutableExpression ParseNameToken(const std::string& name) const {
    if (name == "true" || name == "True") return MakeConstant(Value(true));
    if (name == "false" || name == "False") return MakeConstant(Value(false));
    if (name == "none" || name == "None") return MakeConstant(Value());
    auto expression = MakeExpression(ExpressionKind::kName);
    expression->name = name;
    return expression;
  }

  MutableExpression ParseParenthesis() {
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

  MutableExpression ParseItems(ExpressionKind kind, std::string_view close) {
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

  MutableExpression ParseDict() {
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

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_;
  int depth_ = 0;
};

}  // namespace

Block ParseTemplate(std::string_view source, int nesting) {
  return Parser(Tokenize(source), nesting).Run();
}

}  // namespace skipjack::jinja
