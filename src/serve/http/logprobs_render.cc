#include "serve/http/logprobs_render.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "text/utf8.h"

namespace skipjack::http {
namespace {

// JSON has no infinity; clients know this value for "impossible".
constexpr float kImpossible = -9999.0f;

float Finite(float logprob) {
  return std::isfinite(logprob) ? std::max(logprob, kImpossible) : kImpossible;
}

std::string TokenText(std::string_view bytes) {
  if (FindInvalidUtf8(bytes) == std::string_view::npos) return std::string(bytes);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "\\x";
    text += kHex[byte >> 4];
    text += kHex[byte & 0xf];
  }
  return text;
}

bool Continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// An object from token text to log-probability: the chosen token, then the alternatives.
void RenderTopObject(JsonWriter* json, const TokenPiece& token) {
  std::vector<std::string> seen = {TokenText(token.bytes)};
  json->BeginObject().Key(seen.front()).Float(Finite(token.logprob));
  for (const TokenPiece::Alternative& other : token.top) {
    std::string text = TokenText(other.bytes);
    if (std::find(seen.begin(), seen.end(), text) != seen.end()) continue;
    json->Key(text).Float(Finite(other.logprob));
    seen.push_back(std::move(text));
  }
  json->EndObject();
}

void RenderChatToken(JsonWriter* json, std::string_view bytes, float logprob) {
  json->Key("token").String(bytes);
  json->Key("logprob").Float(Finite(logprob));
  json->Key("bytes").BeginArray();
  for (const char c : bytes) json->Int(static_cast<unsigned char>(c));
  json->EndArray();
}

}  // namespace

std::int64_t CountCharacters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !Continues(c); });
}

void RenderCompletionLogprobs(JsonWriter* json, std::span<const TokenPiece> tokens, std::int64_t offset) {
  json->BeginObject().Key("text_offset").BeginArray();
  for (const TokenPiece& token : tokens) {
    // A token that goes on with a character begun before counts from that character.
    const bool inside = !token.bytes.empty() && Continues(token.bytes.front());
    json->Int(inside && offset > 0 ? offset - 1 : offset);
    offset += CountCharacters(token.bytes);
  }
  json->EndArray().Key("token_logprobs").BeginArray();
  for (const TokenPiece& token : tokens) json->Float(Finite(token.logprob));
  json->EndArray().Key("tokens").BeginArray();
  for (const TokenPiece& token : tokens) json->String(TokenText(token.bytes));
  json->EndArray().Key("top_logprobs").BeginArray();
  for (const TokenPiece& token : tokens) RenderTopObject(json, token);
  json->EndArray().EndObject();
}

void RenderChatLogprobs(JsonWriter* json, std::span<const TokenPiece> tokens) {
  json->BeginObject().Key("content").BeginArray();
  for (const TokenPiece& token : tokens) {
    json->BeginObject();
    RenderChatToken(json, token.bytes, token.logprob);
    json->Key("top_logprobs").BeginArray();
    for (const TokenPiece::Alternative& other : token.top) {
      json->BeginObject();
      RenderChatToken(json, other.bytes, other.logprob);
      json->EndObject();
    }
    json->EndArray().EndObject();
  }
  json->EndArray().Key("refusal").Null().EndObject();
}

}  // namespace skipjack::http
