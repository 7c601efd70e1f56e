// A tokenizer's vocabulary after checking: every id, type and merge that a model file gave is sound.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "text/bpe_model.h"
#include "text/piece_table.h"
#include "text/tokenizer.h"

namespace skipjack {

enum class TokenKind : std::uint8_t {
  kText,         // made by merges from the byte alphabet
  kUserDefined,  // matched as a whole before everything else
  kControl,      // matched as a whole in trusted text alone; no output text
  kReserved,     // unused and unnamed ones: never matched; no output text
};

struct Vocabulary {
  StringArena bytes;                       // what each token stands for; for control tokens their names
  std::vector<TokenKind> kinds;            // by id
  std::vector<TokenId> pieces;             // kText tokens whose names are spelt in the byte alphabet
  std::array<TokenId, 256> byte_tokens{};  // the token of each single byte, or -1
  std::vector<BpeModel::Merge> merges;
  std::vector<TokenId> end_of_generation;  // sorted
};

// Reads everything in `spec` but model and pre. Errors name the GGUF key they are about.
Result<Vocabulary> BuildVocabulary(const TokenizerSpec& spec);

}  // namespace skipjack
