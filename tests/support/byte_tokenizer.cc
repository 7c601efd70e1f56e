#include "tests/support/byte_tokenizer.h"

namespace skipjack::testing {

ByteTokenizer::ByteTokenizer(bool add_bos) : add_bos_(add_bos) {
  for (int i = 0; i < 256; ++i) bytes_.emplace_back(1, static_cast<char>(i));
  bytes_.insert(bytes_.end(), {"<bos>", "<eos>", "<eot>"});
}

Result<std::vector<TokenId>> ByteTokenizer::Encode(std::span<const Segment> segments,
                                                   const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  for (const Segment& segment : segments) {
    std::string_view rest = segment.text;
    while (!rest.empty()) {
      TokenId id = static_cast<unsigned char>(rest.front());
      for (TokenId control = kBos; segment.trusted && control < kVocabulary; ++control) {
        if (rest.starts_with(TokenBytes(control))) id = control;
      }
      ids.push_back(id);
      rest.remove_prefix(TokenBytes(id).size());
    }
  }
  if (options.add_special && add_bos_ && (ids.empty() || ids.front() != kBos)) ids.insert(ids.begin(), kBos);
  return ids;
}

std::size_t ByteTokenizer::MinimumTokens(std::span<const Segment> segments) const {
  constexpr std::size_t kLongest = 5;  // "<bos>"
  std::size_t tokens = 0;
  for (const Segment& segment : segments) {
    tokens += segment.trusted ? segment.text.size() / kLongest : segment.text.size();
  }
  return tokens;
}

std::string_view ByteTokenizer::TokenBytes(TokenId id) const {
  if (id < 0 || id >= kVocabulary) return {};
  return bytes_[static_cast<std::size_t>(id)];
}

}  // namespace skipjack::testing
