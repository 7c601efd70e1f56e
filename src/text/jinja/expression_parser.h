// The expressions inside tags, with Jinja's precedences, and the token cursor that the statement parser
// shares.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace skipjack::jinja {

using MutableExpression = std::unique_ptr<Expression>;

class ExpressionParser {
 protected:
  ExpressionParser(std::vector<Token> tokens, int nesting) : tokens_(std::move(tokens)), nesting_(nesting) {}

  // Counts nesting while it lives.
  class Depth {
   public:
    explicit Depth(ExpressionParser* parser) : parser_(parser) {
      if (++parser_->depth_ > parser_->nesting_) parser_->Fail("nested too deeply");
    }
    ~Depth() { --parser_->depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    ExpressionParser* parser_;
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

  MutableExpression MakeExpression(ExpressionKind kind) const;
  // "a, b" without parentheses is a tuple where a statement allows one.
  MutableExpression ParseTupleOrExpression(bool with_conditional = true);
  MutableExpression ParseExpression();
  // `value` and the filters and tests that follow it.
  MutableExpression ParseFilters(MutableExpression value);
  // One filter, from its name on, applied to `value`.
  MutableExpression ParseFilter(MutableExpression value);

 private:
  void Raise(Expression* parent, const Expression& child) const;
  void Adopt(Expression* parent, MutableExpression child) const;
  MutableExpression MakeUnary(ExpressionKind kind, MutableExpression operand) const;
  MutableExpression MakeBinary(ExpressionKind kind, std::string name, MutableExpression a,
                               MutableExpression b) const;
  MutableExpression ParseOr();
  MutableExpression ParseAnd();
  MutableExpression ParseNot();
  MutableExpression ParseCompare();
  MutableExpression ParseAdditive();
  MutableExpression ParseConcat();
  MutableExpression ParseMultiplicative();
  MutableExpression ParseUnary();
  MutableExpression ParsePower();
  MutableExpression ParseTest(MutableExpression value);
  bool BeginsTestArgument() const;
  void ParseArguments(Expression* call);
  MutableExpression ParsePostfix(MutableExpression value);
  MutableExpression ParseSubscript(MutableExpression value);
  MutableExpression MakeConstant(Value value) const;
  MutableExpression ParsePrimary();
  MutableExpression ParseNameToken(const std::string& name) const;
  MutableExpression ParseParenthesis();
  MutableExpression ParseItems(ExpressionKind kind, std::string_view close);
  MutableExpression ParseDict();

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_;
  int depth_ = 0;
};

}  // namespace skipjack::jinja
