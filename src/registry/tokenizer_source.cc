#include "registry/tokenizer_source.h"

#include <fmt/format.h>

#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace skipjack {
namespace {

bool IsAbsent(const Status& status) {
  return status.code() == StatusCode::kNotFound;
}

Status ReadOptionalId(const GgufFile& file, std::string_view key, std::optional<TokenId>* out) {
  const Result<std::int64_t> value = file.GetInt(key);
  if (!value.ok()) return IsAbsent(value.status()) ? Status() : value.status();
  if (*value < 0 || *value > std::numeric_limits<TokenId>::max()) {
    return Status::InvalidArgument(fmt::format("{} is {}: no token id", key, *value));
  }
  *out = static_cast<TokenId>(*value);
  return {};
}

// `Out` is bool, or std::optional<bool> where an absent key means something of its own.
template <typename Out>
Status ReadOptionalBool(const GgufFile& file, std::string_view key, Out* out) {
  const Result<bool> value = file.GetBool(key);
  if (!value.ok()) return IsAbsent(value.status()) ? Status() : value.status();
  *out = *value;
  return {};
}

Status ReadTokens(const GgufFile& file, std::vector<std::string>* out) {
  const std::vector<std::string>* tokens = file.FindStrings("tokenizer.ggml.tokens");
  if (!tokens || tokens->empty()) {
    return Status::InvalidArgument("tokenizer.ggml.tokens is missing: the file has no vocabulary");
  }
  *out = *tokens;
  return {};
}

// Converters write the types signed or unsigned.
template <typename Integer>
Status TakeTypes(const std::vector<Integer>& values, std::vector<TokenType>* out) {
  out->reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < Integer{1} || values[i] > Integer{6}) {
      return Status::InvalidArgument(
          fmt::format("tokenizer.ggml.token_type[{}] must lie in [1, 6], got {}", i, values[i]));
    }
    out->push_back(static_cast<TokenType>(values[i]));
  }
  return {};
}

Status ReadTypes(const GgufFile& file, std::vector<TokenType>* out) {
  const GgufValue* value = file.Find("tokenizer.ggml.token_type");
  if (!value) return {};
  if (const auto* types = std::get_if<std::vector<std::int64_t>>(value)) return TakeTypes(*types, out);
  if (const auto* types = std::get_if<std::vector<std::uint64_t>>(value)) return TakeTypes(*types, out);
  return Status::InvalidArgument("tokenizer.ggml.token_type must be a list of integers");
}

Status ReadSpecialTokens(const GgufFile& file, TokenizerSpec* spec) {
  if (Status s = ReadOptionalId(file, "tokenizer.ggml.bos_token_id", &spec->bos); !s.ok()) return s;
  if (Status s = ReadOptionalId(file, "tokenizer.ggml.eos_token_id", &spec->eos); !s.ok()) return s;
  if (Status s = ReadOptionalId(file, "tokenizer.ggml.eot_token_id", &spec->eot); !s.ok()) return s;
  if (Status s = ReadOptionalId(file, "tokenizer.ggml.unknown_token_id", &spec->unknown); !s.ok()) return s;
  if (Status s = ReadOptionalId(file, "tokenizer.ggml.padding_token_id", &spec->padding); !s.ok()) return s;
  if (Status s = ReadOptionalBool(file, "tokenizer.ggml.add_bos_token", &spec->add_bos); !s.ok()) return s;
  return ReadOptionalBool(file, "tokenizer.ggml.add_eos_token", &spec->add_eos);
}

// Converters write "default" for a tokenizer that they do not know. Then nothing is known of how it splits
// text.
Status CheckPreTokenizer(const std::string& pre) {
  if (pre != "default") return {};
  return Status::InvalidArgument(
      "tokenizer.ggml.pre is 'default': whoever converted the model did not know how its tokenizer splits "
      "text, "
      "which decides every id. Name the right way with pre_tokenizer in the model's configuration (the "
      "splitting "
      "called 'default', too, if that is what the model was made with)");
}

Result<std::string> ReadStringOr(const GgufFile& file, std::string_view key, std::string fallback) {
  Result<std::string> value = file.GetString(key);
  if (!value.ok() && IsAbsent(value.status())) return fallback;
  return value;
}

}  // namespace

Result<TokenizerSpec> ReadTokenizerSpec(const GgufFile& file, const std::string& pre_tokenizer) {
  TokenizerSpec spec;
  Result<std::string> model = file.GetString("tokenizer.ggml.model");
  if (!model.ok()) return model.status();
  spec.model = *std::move(model);
  spec.pre = pre_tokenizer;
  if (spec.pre.empty()) {
    Result<std::string> pre = ReadStringOr(file, "tokenizer.ggml.pre", "");
    if (!pre.ok()) return pre.status();
    spec.pre = *std::move(pre);
    if (Status s = CheckPreTokenizer(spec.pre); !s.ok()) return s;
  }
  if (Status s = ReadTokens(file, &spec.tokens); !s.ok()) return s;
  if (Status s = ReadTypes(file, &spec.types); !s.ok()) return s;
  if (const std::vector<std::string>* merges = file.FindStrings("tokenizer.ggml.merges"))
    spec.merges = *merges;
  if (Status s = ReadSpecialTokens(file, &spec); !s.ok()) return s;
  return spec;
}

Result<std::optional<std::string>> ReadChatTemplate(const GgufFile& file) {
  Result<std::string> source = file.GetString("tokenizer.chat_template");
  if (source.ok()) return std::optional(*std::move(source));
  if (IsAbsent(source.status())) return std::optional<std::string>();
  return source.status();
}

}  // namespace skipjack
