// Template source to tokens: text, and the names, literals and operators inside {{ }} and {% %}. Applies
// transformers' white space rules: trim_blocks, lstrip_blocks, "-" and "+" marks, one trailing newline
// dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace skipjack::jinja {

enum class TokenKind : std::uint8_t {
  kText,            // literal output
  kOutputBegin,     // {{
  kOutputEnd,       // }}
  kStatementBegin,  // {%
  kStatementEnd,    // %}
  kName,
  kInteger,
  kFloat,
  kString,
  kOperator,  // one of + - * / // % ** ~ ( ) [ ] { } , : . | = == != < > <= >=
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // of a string: unescaped
  std::int64_t integer = 0;
  double number = 0;
  int line = 1;
};

// Throws Failure with the line for whatever cannot be read.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace skipjack::jinja
