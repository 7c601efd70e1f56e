#include "text/jinja/lexer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "text/jinja/value.h"

namespace skipjack::jinja {
namespace {

// Names are compared at every look-up.
constexpr std::size_t kMaxNameBytes = 256;

bool IsNameStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80);
}
bool IsNamePart(char c) {
  return IsNameStart(c) || std::isdigit(static_cast<unsigned char>(c));
}
bool IsBlank(char c) {
  return c == ' ' || c == '\t';
}
bool IsWhite(char c) {
  return IsBlank(c) || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

// "\r\n" and "\r" become "\n", and one newline at the end goes, as Jinja reads a source.
std::string Normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) ReadText();
    Push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw Failure("chat template, line " + std::to_string(line_) + ": " + what);
  }

  void Push(TokenKind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.text = std::move(text);
    token.line = line_;
    tokens_.push_back(std::move(token));
  }

  bool LooksAt(std::string_view what) const {
    return std::string_view(source_).substr(at_, what.size()) == what;
  }

  void Advance(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) line_ += source_[at_ + i] == '\n';
    at_ += count;
  }

  // Text up to the next tag, then the tag.
  void ReadText() {
    std::size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        tag = source_.size();
        break;
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    const char mark = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool statement_or_comment = tag < source_.size() && source_[tag + 1] != '{';
    PushText(tag, mark, statement_or_comment);
    if (tag < source_.size()) ReadTag();
  }

  void PushText(std::size_t tag, char mark, bool statement_or_comment) {
    std::size_t end = tag;
    if (tag < source_.size() && mark == '-') {
      while (end > at_ && IsWhite(source_[end - 1])) --end;
    } else if (statement_or_comment && mark != '+') {
      end = WithoutIndent(end);
    }
    if (end > at_) Push(TokenKind::kText, source_.substr(at_, end - at_));
    Advance(tag - at_);
  }

  // lstrip_blocks: blanks between the start of the line and the tag go.
  std::size_t WithoutIndent(std::size_t end) const {
    std::size_t begin = end;
    while (begin > at_ && IsBlank(source_[begin - 1])) --begin;
    const bool line_start = begin == 0 || source_[begin - 1] == '\n';
    return line_start ? begin : end;
  }

  void ReadTag() {
    const char kind = source_[at_ + 1];
    Advance(2);
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+') && kind != '{') Advance(1);
    if (kind == '{' && LooksAt("-")) Advance(1);
    if (kind == '#') return SkipComment();
    if (kind == '%' && ReadRaw()) return;
    Push(kind == '{' ? TokenKind::kOutputBegin : TokenKind::kStatementBegin, "");
    ReadExpression(kind == '{' ? "}}" : "%}");
  }

  void SkipComment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) Fail("a comment is not closed");
    const char mark = end > at_ ? source_[end - 1] : '\0';
    Advance(end + 2 - at_);
    TrimAfter(mark, true);
  }

  // What follows a tag: "-" drops white space, otherwise trim_blocks drops one newline unless "+" says no.
  void TrimAfter(char mark, bool trim_newline) {
    if (mark == '-') {
      while (at_ < source_.size() && IsWhite(source_[at_])) Advance(1);
    } else if (trim_newline && mark != '+' && LooksAt("\n")) {
      Advance(1);
    }
  }

  // {% raw %}...{% endraw %}, whose content is text whatever it looks like.
  bool ReadRaw() {
    std::size_t at = at_;
    while (at < source_.size() && IsWhite(source_[at])) ++at;
    if (source_.compare(at, 3, "raw") != 0) return false;
    at += 3;
    while (at < source_.size() && IsWhite(source_[at])) ++at;
    char mark = '\0';
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) mark = source_[at++];
    if (source_.compare(at, 2, "%}") != 0) return false;
    Advance(at + 2 - at_);
    TrimAfter(mark, true);

    for (std::size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      std::size_t end = tag + 2;
      const char open_mark = end < source_.size() ? source_[end] : '\0';
      if (open_mark == '-' || open_mark == '+') ++end;
      while (end < source_.size() && IsWhite(source_[end])) ++end;
      if (source_.compare(end, 6, "endraw") != 0) continue;
      end += 6;
      while (end < source_.size() && IsWhite(source_[end])) ++end;
      char close_mark = '\0';
      if (end < source_.size() && (source_[end] == '-' || source_[end] == '+')) close_mark = source_[end++];
      if (source_.compare(end, 2, "%}") != 0) continue;
      PushText(tag, open_mark, true);
      Advance(end + 2 - at_);
      TrimAfter(close_mark, true);
      return true;
    }
    Fail("{% raw %} is not closed");
  }

  void ReadExpression(std::string_view close) {
    const TokenKind end_kind = close == "}}" ? TokenKind::kOutputEnd : TokenKind::kStatementEnd;
    int brackets = 0;
    while (true) {
      while (at_ < source_.size() && IsWhite(source_[at_])) Advance(1);
      if (at_ >= source_.size()) Fail("a tag is not closed");
      if (brackets == 0) {
        char mark = '\0';
        if ((source_[at_] == '-' || source_[at_] == '+') &&
            std::string_view(source_).substr(at_ + 1, close.size()) == close) {
          mark = source_[at_];
        }
        if (mark != '\0' || LooksAt(close)) {
          Advance(close.size() + (mark != '\0'));
          Push(end_kind, "");
          TrimAfter(mark, end_kind == TokenKind::kStatementEnd);
          return;
        }
      }
      ReadToken(&brackets);
    }
  }

  void ReadToken(int* brackets) {
    const char c = source_[at_];
    if (IsNameStart(c)) {
      const std::size_t begin = at_;
      while (at_ < source_.size() && IsNamePart(source_[at_])) Advance(1);
      if (at_ - begin > kMaxNameBytes)
        Fail("a name is longer than " + std::to_string(kMaxNameBytes) + " bytes");
      Push(TokenKind::kName, source_.substr(begin, at_ - begin));
      return;
    }
    if (std::isdigit(static_cast<unsigned char>(c))) return ReadNumber();
    if (c == '"' || c == '\'') return ReadString(c);
    static constexpr std::array<std::string_view, 6> kDouble = {"//", "**", "==", "!=", "<=", ">="};
    for (const std::string_view candidate : kDouble) {
      if (!LooksAt(candidate)) continue;
      Push(TokenKind::kOperator, std::string(candidate));
      Advance(2);
      return;
    }
    if (std::string_view("+-*/%~()[]{},:.|=<>").find(c) == std::string_view::npos) {
      Fail(std::string("unexpected character '") + c + "'");
    }
    *brackets += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (*brackets < 0) Fail(std::string("'") + c + "' closes nothing");
    Push(TokenKind::kOperator, std::string(1, c));
    Advance(1);
  }

  void ReadNumber() {
    std::string digits;
    bool is_float = false;
    while (at_ < source_.size()) {
      const char c = source_[at_];
      const char next = at_ + 1 < source_.size() ? source_[at_ + 1] : '\0';
      if (std::isdigit(static_cast<unsigned char>(c))) {
        digits += c;
      } else if (c == '.' && !is_float && std::isdigit(static_cast<unsigned char>(next))) {
        is_float = true;
        digits += c;
      } else if (c == 'e' || c == 'E') {
        is_float = true;
        digits += c;
        if (next == '+' || next == '-') {
          digits += next;
          Advance(1);
        }
      } else if (c != '_') {
        break;
      }
      Advance(1);
    }
    Push(is_float ? TokenKind::kFloat : TokenKind::kInteger, digits);
    Token& token = tokens_.back();
    const char* end = digits.data() + digits.size();
    const auto read = is_float ? std::from_chars(digits.data(), end, token.number)
                               : std::from_chars(digits.data(), end, token.integer);
    if (read.ec != std::errc() || read.ptr != end) Fail("'" + digits + "' is no number that fits");
  }

  void ReadString(char quote) {
    Advance(1);
    std::string out;
    while (true) {
      if (at_ >= source_.size()) Fail("a string is not closed");
      const char c = source_[at_];
      Advance(1);
      if (c == quote) break;
      if (c == '\\') {
        ReadEscape(&out);
      } else {
        out += c;
      }
    }
    Push(TokenKind::kString, std::move(out));
  }

  void ReadEscape(std::string* out) {
    if (at_ >= source_.size()) Fail("a string is not closed");
    const char c = source_[at_];
    Advance(1);
    switch (c) {
      case 'n':
        *out += '\n';
        return;
      case 't':
        *out += '\t';
        return;
      case 'r':
        *out += '\r';
        return;
      case 'b':
        *out += '\b';
        return;
      case 'f':
        *out += '\f';
        return;
      case 'v':
        *out += '\v';
        return;
      case 'a':
        *out += '\a';
        return;
      case '0':
        *out += '\0';
        return;
      case '\n':
        return;
      case 'x':
        return ReadCodePoint(2, out);
      case 'u':
        return ReadCodePoint(4, out);
      case 'U':
        return ReadCodePoint(8, out);
      case '\\':
      case '\'':
      case '"':
        *out += c;
        return;
      default:
        *out += {'\\', c};
    }
  }

  void ReadCodePoint(std::size_t digits, std::string* out) {
    std::uint32_t code = 0;
    const char* begin = source_.data() + at_;
    const char* end = begin + std::min(digits, source_.size() - at_);
    const auto read = std::from_chars(begin, end, code, 16);
    if (read.ptr - begin != static_cast<std::ptrdiff_t>(digits) ||
        !utf8proc_codepoint_valid(static_cast<utf8proc_int32_t>(code))) {
      Fail("a \\x or \\u escape names no character");
    }
    utf8proc_uint8_t buffer[4];
    const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), buffer);
    out->append(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(count));
    Advance(digits);
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source) {
  return Lexer(Normalize(source)).Run();
}

}  // namespace skipjack::jinja
