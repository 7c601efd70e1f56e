#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>

#include "text/jinja/expression_parser.h"

namespace skipjack::jinja {
namespace {

// Tags. Expressions are the base class's.
class Parser : private ExpressionParser {
 public:
  Parser(std::vector<Token> tokens, int nesting) : ExpressionParser(std::move(tokens), nesting) {}

  Block Run() {
    Block block = ParseBlock({});
    if (Peek().kind != TokenKind::kEnd) Fail("unexpected tag");
    return block;
  }

 private:
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
};

}  // namespace

Block ParseTemplate(std::string_view source, int nesting) {
  return Parser(Tokenize(source), nesting).Run();
}

}  // namespace skipjack::jinja
