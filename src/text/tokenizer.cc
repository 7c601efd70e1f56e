#include "text/tokenizer.h"

#include <utility>

#include <fmt/format.h>

#include "text/byte_level_tokenizer.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace skipjack {

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  if (spec.model != "gpt2") {
    return Status::InvalidArgument(
        fmt::format("tokenizer.ggml.model is '{}'; known: gpt2 (byte-level BPE)", spec.model));
  }
  const PreTokenizer* pre_tokenizer = FindPreTokenizer(spec.pre);
  if (pre_tokenizer == nullptr) {
    const std::string problem = spec.pre.empty() ? "is missing" : fmt::format("is '{}'", spec.pre);
    return Status::InvalidArgument(
        fmt::format("tokenizer.ggml.pre {}, and how text is split decides every id; name the right one with "
                    "pre_tokenizer in the model's configuration, one of: {}",
                    problem, KnownPreTokenizers()));
  }
  Result<Vocabulary> vocabulary = BuildVocabulary(spec);
  if (!vocabulary.ok()) return vocabulary.status();
  const ByteLevelTokenizer::Settings settings{
      .bos = spec.bos,
      .eos = spec.eos,
      .add_bos = spec.add_bos.value_or(pre_tokenizer->add_bos && spec.bos.has_value()),
      .add_eos = spec.add_eos,
      .ignore_merges = spec.ignore_merges || pre_tokenizer->ignore_merges};
  return std::shared_ptr<const Tokenizer>(
      std::make_shared<ByteLevelTokenizer>(*std::move(vocabulary), *pre_tokenizer, settings));
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (!(skip_special && IsControl(id))) bytes += TokenBytes(id);
  }
  std::string text;
  text.reserve(bytes.size());
  AppendLossyUtf8(bytes, text);
  return text;
}

}  // namespace skipjack
