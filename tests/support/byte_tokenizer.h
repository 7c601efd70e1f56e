// A tokenizer small enough to know by heart: token i is byte i, then come a few control tokens.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace skipjack::testing {

class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr TokenId kBos = 256;  // "<bos>"
  static constexpr TokenId kEos = 257;  // "<eos>"
  static constexpr TokenId kEot = 258;  // "<eot>"
  static constexpr std::int32_t kVocabulary = 259;

  explicit ByteTokenizer(bool add_bos = true);

  // One token per byte. Trusted segments may spell control tokens; BOS comes in front when asked for and not
  // there.
  Result<std::vector<TokenId>> Encode(std::span<const Segment> segments,
                                      const EncodeOptions& options) const override;
  std::size_t MinimumTokens(std::span<const Segment> segments) const override;
  std::string_view TokenBytes(TokenId id) const override;
  bool IsControl(TokenId id) const override { return id >= kBos && id < kVocabulary; }
  bool IsEndOfGeneration(TokenId id) const override { return id == kEos || id == kEot; }
  std::vector<TokenId> EndOfGenerationTokens() const override { return {kEos, kEot}; }
  std::size_t vocabulary_size() const override { return kVocabulary; }
  std::optional<TokenId> bos() const override { return kBos; }
  std::optional<TokenId> eos() const override { return kEos; }

 private:
  const bool add_bos_;
  std::vector<std::string> bytes_;
};

}  // namespace skipjack::testing
