// What a GGUF file says about its tokenizer and chat template.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "model/gguf_file.h"
#include "text/tokenizer.h"

namespace skipjack {

// `pre_tokenizer` overrides tokenizer.ggml.pre unless empty; "default" counts only when it comes from there.
// A key of the wrong type is an error that names it; a key that the format leaves out may be absent.
Result<TokenizerSpec> ReadTokenizerSpec(const GgufFile& file, const std::string& pre_tokenizer);

// tokenizer.chat_template, where there is one.
Result<std::optional<std::string>> ReadChatTemplate(const GgufFile& file);

}  // namespace skipjack
