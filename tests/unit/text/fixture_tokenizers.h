// Tokenizers and texts from tests/fixtures/tokenizers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/tokenizer.h"

namespace skipjack {

// Aborts when the file cannot be read; `name` is relative to tests/fixtures/tokenizers.
nlohmann::json ReadFixture(const std::string& name);

// The 75 texts of texts.json.
const std::vector<std::string>& FixtureTexts();

// A tokenizer.json as GGUF would give it; `pre` is not in it.
TokenizerSpec SpecFromTokenizerJson(const nlohmann::json& json, std::string pre);

// The metadata of a GGUF file.
TokenizerSpec SpecFromGguf(const std::string& path);

// "deepseek_llm", "gpt2", "llama3", "qwen2", "smollm2" or "smollm2_real"; made once.
std::shared_ptr<const Tokenizer> FixtureTokenizer(const std::string& name);

// Aborts with the message when Create fails.
std::shared_ptr<const Tokenizer> MustCreate(TokenizerSpec spec);

// The name of a byte's token, as GPT-2's bytes_to_unicode() spells it.
std::string ByteLevelName(int byte);

// Encodes one segment without start or end tokens.
std::vector<TokenId> EncodeText(const Tokenizer& tokenizer, std::string_view text, bool trusted);

}  // namespace skipjack
