// The Tokenizer for GGUF's "gpt2" vocabularies.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "text/bpe_model.h"
#include "text/pattern_automaton.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace skipjack {

// Finds the tokens of a set that stand in a text as they are: at each position the longest, left to right.
class WholeTokenMatcher {
 public:
  struct Match {
    std::size_t begin, length;
    TokenId id;
  };

  WholeTokenMatcher(const StringArena& bytes, std::vector<TokenId> tokens);

  // Appends the matches in text[begin, end) in order. Linear in the text, whatever the tokens are.
  void Find(std::string_view text, std::size_t begin, std::size_t end, std::vector<Match>& matches) const;

 private:
  std::vector<TokenId> tokens_;  // by pattern
  std::vector<std::size_t> lengths_;
  PatternAutomaton backwards_;  // over the tokens' bytes from last to first
};

class ByteLevelTokenizer final : public Tokenizer {
 public:
  struct Settings {
    std::optional<TokenId> bos, eos;
    bool add_bos = false;
    bool add_eos = false;
    bool ignore_merges = false;
  };

  ByteLevelTokenizer(Vocabulary vocabulary, const PreTokenizer& pre_tokenizer, const Settings& settings);

  Result<std::vector<TokenId>> Encode(std::span<const Segment> segments,
                                      const EncodeOptions& options) const override;
  std::size_t MinimumTokens(std::span<const Segment> segments) const override;
  std::string_view TokenBytes(TokenId id) const override;
  bool IsControl(TokenId id) const override;
  bool IsEndOfGeneration(TokenId id) const override;
  std::vector<TokenId> EndOfGenerationTokens() const override { return vocabulary_.end_of_generation; }
  std::size_t vocabulary_size() const override { return vocabulary_.kinds.size(); }
  std::optional<TokenId> bos() const override { return settings_.bos; }
  std::optional<TokenId> eos() const override { return settings_.eos; }

 private:
  // A stretch of the joined text.
  struct Run {
    std::size_t begin, end;
    bool trusted;
  };

  static std::vector<Run> RunsOf(std::span<const Segment> segments);
  std::vector<TokenId> EncodeRuns(std::string_view text, std::span<const Run> runs, bool add_special) const;
  void EncodeOrdinary(std::string_view text, BpeWorkspace& work, std::vector<TokenId>& out) const;
  bool Holds(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < vocabulary_.kinds.size(); }

  Vocabulary vocabulary_;
  const PreTokenizer& pre_tokenizer_;
  Settings settings_;
  std::size_t longest_token_;  // bytes of it, of those that Encode() can give; at least 1
  bool leaves_bytes_out_;      // some byte has no token
  BpeModel model_;
  WholeTokenMatcher trusted_tokens_;    // control and user-defined tokens
  WholeTokenMatcher untrusted_tokens_;  // user-defined tokens that are words
};

}  // namespace skipjack
