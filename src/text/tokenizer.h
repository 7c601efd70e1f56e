// Text to token ids and back. A Tokenizer is immutable and may be used from any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace skipjack {

// A piece of a prompt. Only trusted segments (template scaffolding, operator settings) may turn into control
// tokens; user text never does, whatever it spells.
struct Segment {
  std::string text;
  bool trusted = false;

  friend bool operator==(const Segment&, const Segment&) = default;
};

// GGUF's tokenizer.ggml.token_type.
enum class TokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// The vocabulary as a model file gives it.
struct TokenizerSpec {
  std::string model;  // tokenizer.ggml.model: "gpt2" is byte-level BPE
  std::string pre;    // tokenizer.ggml.pre: which pre-tokenizer; empty or unknown is refused
  std::vector<std::string> tokens;
  std::vector<TokenType> types;     // as long as tokens, or empty (all normal)
  std::vector<std::string> merges;  // "left right", best first
  std::optional<TokenId> bos, eos, eot, unknown, padding;
  std::optional<bool> add_bos;  // absent: what the pre-tokenizer's family does (Llama 3 has one)
  bool add_eos = false;
  bool ignore_merges = false;  // true for the families that are known to, whatever it says here
};

struct EncodeOptions {
  bool add_special = true;  // put BOS in front (and EOS behind) where the model wants one, never twice
};

class Tokenizer {
 public:
  // Refuses unknown models and pre-tokenizers by name, ids outside the vocabulary and malformed merges.
  static Result<std::shared_ptr<const Tokenizer>> Create(TokenizerSpec spec);

  virtual ~Tokenizer() = default;

  // Near linear in the text; work memory about 40 bytes per byte of its longest word. Invalid UTF-8 is
  // refused. Control tokens and user-defined markers are recognised inside runs of trusted segments,
  // user-defined tokens of letters, digits and spaces everywhere; at each position the longest. The text
  // between such tokens is encoded as one, also across the borders of segments, as the models' own tokenizers
  // do with the whole prompt. A byte that has no token is left out, which they do too.
  virtual Result<std::vector<TokenId>> Encode(std::span<const Segment> segments,
                                              const EncodeOptions& options) const = 0;

  // Encode() gives at least so many tokens for these segments: for refusing at once what could never fit.
  // Looks at each byte once at most, so it costs next to nothing beside Encode().
  virtual std::size_t MinimumTokens(std::span<const Segment> segments) const = 0;

  // Raw bytes of a token ("\xf0\x9f" is possible); for a control token the bytes of its name. Empty for an id
  // outside the vocabulary.
  virtual std::string_view TokenBytes(TokenId id) const = 0;
  // Control tokens produce no output text.
  virtual bool IsControl(TokenId id) const = 0;
  // Ends a generation: EOS, EOT and the end-of-turn tokens that the vocabulary names.
  virtual bool IsEndOfGeneration(TokenId id) const = 0;
  virtual std::vector<TokenId> EndOfGenerationTokens() const = 0;

  virtual std::size_t vocabulary_size() const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;

  // Bytes of `ids` joined; control tokens left out when `skip_special`. Parts that form no character become
  // U+FFFD (one per maximal bad part).
  std::string Decode(std::span<const TokenId> ids, bool skip_special) const;
};

}  // namespace skipjack
