#include "text/vocabulary.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "text/byte_alphabet.h"

namespace skipjack {
namespace {

// From names to ids. Nameless tokens stay out of it; there may be many of them.
class NameIndex {
 public:
  explicit NameIndex(const std::vector<std::string>& names) : table_(names.size()) {
    for (const std::string& name : names) names_.Add(name);
  }

  TokenId Find(std::string_view name) const { return table_.Find(names_, name); }
  bool Contains(std::string_view name) const { return Find(name) >= 0; }
  void Insert(TokenId id) { table_.Insert(names_, id); }

 private:
  StringArena names_;
  PieceTable table_;
};

// Names by which vocabularies call the tokens that end a turn, a text or a file. Some files give them as
// ordinary tokens; they are control tokens all the same.
constexpr std::string_view kEndNames[] = {"<|endoftext|>",
                                          "<|end_of_text|>",
                                          "<|eot_id|>",
                                          "<|eom_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<end_of_turn>",
                                          "<end_of_utterance>",
                                          "<｜end▁of▁sentence｜>",
                                          "<EOT>",
                                          "[EOT]",
                                          "[EOS]",
                                          "<|fim_pad|>",
                                          "<|repo_name|>",
                                          "<|file_sep|>"};

Status CheckSizes(const TokenizerSpec& spec) {
  constexpr std::size_t kMost = std::numeric_limits<TokenId>::max();
  const std::size_t count = spec.tokens.size();
  if (count == 0) return Status::InvalidArgument("tokenizer.ggml.tokens: the vocabulary is empty");
  if (count > kMost) {
    return Status::InvalidArgument(
        fmt::format("tokenizer.ggml.tokens: {} tokens; at most {} can be numbered", count, kMost));
  }
  if (!spec.types.empty() && spec.types.size() != count) {
    return Status::InvalidArgument(
        fmt::format("tokenizer.ggml.token_type: {} types for {} tokens", spec.types.size(), count));
  }
  return Status::Ok();
}

Status CheckId(std::string_view key, const std::optional<TokenId>& id, std::size_t count) {
  if (!id || (*id >= 0 && static_cast<std::size_t>(*id) < count)) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("tokenizer.ggml.{}: id {} lies outside the vocabulary of {} tokens", key, *id, count));
}

Status CheckSpecialIds(const TokenizerSpec& spec) {
  const std::pair<std::string_view, const std::optional<TokenId>*> ids[] = {
      {"bos_token_id", &spec.bos},
      {"eos_token_id", &spec.eos},
      {"eot_token_id", &spec.eot},
      {"unknown_token_id", &spec.unknown},
      {"padding_token_id", &spec.padding}};
  for (const auto& [key, id] : ids) {
    if (Status status = CheckId(key, *id, spec.tokens.size()); !status.ok()) return status;
  }
  if (spec.add_bos.value_or(false) && !spec.bos) {
    return Status::InvalidArgument("tokenizer.ggml.add_bos_token is true, but there is no bos_token_id");
  }
  if (spec.add_eos && !spec.eos) {
    return Status::InvalidArgument("tokenizer.ggml.add_eos_token is true, but there is no eos_token_id");
  }
  return Status::Ok();
}

Result<NameIndex> IndexNames(const std::vector<std::string>& tokens) {
  NameIndex index(tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].empty()) continue;
    if (const TokenId first = index.Find(tokens[i]); first >= 0) {
      return Status::InvalidArgument(
          fmt::format("tokenizer.ggml.tokens: '{}' stands twice, as id {} and {}", tokens[i], first, i));
    }
    index.Insert(static_cast<TokenId>(i));
  }
  return index;
}

bool IsEndName(std::string_view name) {
  return std::find(std::begin(kEndNames), std::end(kEndNames), name) != std::end(kEndNames);
}

Status BadType(const TokenizerSpec& spec, std::size_t id, std::string_view why) {
  return Status::InvalidArgument(
      fmt::format("tokenizer.ggml.token_type: token {} '{}' {}", id, spec.tokens[id], why));
}

// Where a file gives no types, what it declares to be a start or an end is one.
TokenType TypeWithoutTypes(const TokenizerSpec& spec, std::size_t id) {
  const auto token = static_cast<TokenId>(id);
  const bool declared = spec.bos == token || spec.eos == token || spec.eot == token;
  return declared ? TokenType::kControl : TokenType::kNormal;
}

Result<TokenKind> KindOf(const TokenizerSpec& spec, std::size_t id) {
  const TokenType type = spec.types.empty() ? TypeWithoutTypes(spec, id) : spec.types[id];
  if (spec.tokens[id].empty()) return TokenKind::kReserved;
  switch (type) {
    case TokenType::kNormal:
      return IsEndName(spec.tokens[id]) ? TokenKind::kControl : TokenKind::kText;
    case TokenType::kUserDefined:
      return IsEndName(spec.tokens[id]) ? TokenKind::kControl : TokenKind::kUserDefined;
    case TokenType::kUnknown:
    case TokenType::kControl:
      return TokenKind::kControl;
    case TokenType::kUnused:
      return TokenKind::kReserved;
    case TokenType::kByte:
      return BadType(spec, id, "is of type byte, which byte-level BPE does not have");
  }
  return BadType(spec, id, fmt::format("has the unknown type {}", static_cast<std::int32_t>(type)));
}

Status AddTokens(const TokenizerSpec& spec, Vocabulary& vocabulary) {
  vocabulary.byte_tokens.fill(-1);
  vocabulary.kinds.reserve(spec.tokens.size());
  for (std::size_t i = 0; i < spec.tokens.size(); ++i) {
    const Result<TokenKind> kind = KindOf(spec, i);
    if (!kind.ok()) return kind.status();
    vocabulary.kinds.push_back(*kind);
    // Names outside the byte alphabet belong to added tokens, which stand for themselves.
    const std::optional<std::string> bytes =
        *kind == TokenKind::kText ? BytesFromByteLevelName(spec.tokens[i]) : std::nullopt;
    vocabulary.bytes.Add(bytes ? std::string_view(*bytes) : std::string_view(spec.tokens[i]));
    if (!bytes) continue;
    vocabulary.pieces.push_back(static_cast<TokenId>(i));
    if (bytes->size() == 1) {
      vocabulary.byte_tokens[static_cast<unsigned char>(bytes->front())] = static_cast<TokenId>(i);
    }
  }
  return Status::Ok();
}

Status BadMerge(std::size_t rank, std::string_view merge, std::string_view why) {
  return Status::InvalidArgument(fmt::format("tokenizer.ggml.merges: merge {} '{}' {}", rank, merge, why));
}

Status AddMerges(const TokenizerSpec& spec, const NameIndex& index, Vocabulary& vocabulary) {
  vocabulary.merges.reserve(spec.merges.size());
  std::string joined;
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const std::string_view merge = spec.merges[rank];
    const std::size_t space = merge.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == merge.size() ||
        merge.find(' ', space + 1) != std::string_view::npos) {
      return BadMerge(rank, merge, "is not two tokens with one space between them");
    }
    joined.assign(merge, 0, space).append(merge, space + 1);
    TokenId ids[3];
    const std::string_view names[3] = {merge.substr(0, space), merge.substr(space + 1), joined};
    for (int i = 0; i < 3; ++i) {
      ids[i] = index.Find(names[i]);
      if (ids[i] < 0) {
        return BadMerge(rank, merge,
                        fmt::format("needs the token '{}', which the vocabulary lacks", names[i]));
      }
      if (vocabulary.kinds[static_cast<std::size_t>(ids[i])] != TokenKind::kText) {
        return BadMerge(rank, merge,
                        fmt::format("has the part '{}', which is not an ordinary token", names[i]));
      }
    }
    vocabulary.merges.push_back({ids[0], ids[1], ids[2]});
  }
  return Status::Ok();
}

void AddEndOfGeneration(const TokenizerSpec& spec, const NameIndex& index, Vocabulary& vocabulary) {
  auto& ends = vocabulary.end_of_generation;
  for (const std::string_view name : kEndNames) {
    if (index.Contains(name)) ends.push_back(index.Find(name));
  }
  // Where answers end with <|return|> or <|call|>, <|end|> only closes one of several messages.
  if (index.Contains("<|return|>") && index.Contains("<|call|>")) std::erase(ends, index.Find("<|end|>"));
  for (const std::optional<TokenId>& id : {spec.eos, spec.eot}) {
    if (id) ends.push_back(*id);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
}

}  // namespace

Result<Vocabulary> BuildVocabulary(const TokenizerSpec& spec) {
  if (Status status = CheckSizes(spec); !status.ok()) return status;
  if (Status status = CheckSpecialIds(spec); !status.ok()) return status;
  const Result<NameIndex> index = IndexNames(spec.tokens);
  if (!index.ok()) return index.status();

  Vocabulary vocabulary;
  if (Status status = AddTokens(spec, vocabulary); !status.ok()) return status;
  if (Status status = AddMerges(spec, *index, vocabulary); !status.ok()) return status;
  AddEndOfGeneration(spec, *index, vocabulary);
  return vocabulary;
}

}  // namespace skipjack
