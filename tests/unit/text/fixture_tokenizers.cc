#include "tests/unit/text/fixture_tokenizers.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>

#include "model/gguf_file.h"

namespace skipjack {
namespace {

[[noreturn]] void Fail(const std::string& message) {
  std::cerr << message << std::endl;
  std::abort();
}

template <class T>
T Must(Result<T> result) {
  if (!result.ok()) Fail(result.status().ToString());
  return *std::move(result);
}

std::optional<TokenId> IdOf(const GgufFile& file, const std::string& key) {
  if (file.Find(key) == nullptr) return std::nullopt;
  return static_cast<TokenId>(Must(file.GetInt(key)));
}

}  // namespace

nlohmann::json ReadFixture(const std::string& name) {
  std::ifstream file(std::string(SKIPJACK_FIXTURES "/tokenizers/") + name);
  if (!file) Fail("cannot read the fixture " + name);
  return nlohmann::json::parse(file);
}

const std::vector<std::string>& FixtureTexts() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> result;
    for (const auto& entry : ReadFixture("texts.json")) result.push_back(entry.at("text"));
    return result;
  }();
  return texts;
}

TokenizerSpec SpecFromTokenizerJson(const nlohmann::json& json, std::string pre) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = std::move(pre);
  const auto& model = json.at("model");
  const auto& vocabulary = model.at("vocab");
  std::size_t size = vocabulary.size();
  for (const auto& token : json.at("added_tokens"))
    size = std::max(size, token.at("id").get<std::size_t>() + 1);
  spec.tokens.resize(size);
  spec.types.resize(size, TokenType::kNormal);
  for (const auto& [name, id] : vocabulary.items()) spec.tokens.at(id.get<std::size_t>()) = name;
  for (const auto& token : json.at("added_tokens")) {
    const auto id = token.at("id").get<std::size_t>();
    spec.tokens.at(id) = token.at("content");
    spec.types.at(id) = token.at("special") ? TokenType::kControl : TokenType::kUserDefined;
  }
  for (const auto& merge : model.at("merges")) {
    spec.merges.push_back(merge.is_string()
                              ? merge.get<std::string>()
                              : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
  }
  spec.ignore_merges = model.value("ignore_merges", false);
  spec.add_bos = false;
  return spec;
}

TokenizerSpec SpecFromGguf(const std::string& path) {
  const std::unique_ptr<GgufFile> file = Must(GgufFile::Open(path));
  TokenizerSpec spec;
  spec.model = Must(file->GetString("tokenizer.ggml.model"));
  spec.pre = Must(file->GetString("tokenizer.ggml.pre"));
  spec.tokens = *file->FindStrings("tokenizer.ggml.tokens");
  spec.merges = *file->FindStrings("tokenizer.ggml.merges");
  for (const std::int64_t type :
       std::get<std::vector<std::int64_t>>(*file->Find("tokenizer.ggml.token_type"))) {
    spec.types.push_back(static_cast<TokenType>(type));
  }
  spec.bos = IdOf(*file, "tokenizer.ggml.bos_token_id");
  spec.eos = IdOf(*file, "tokenizer.ggml.eos_token_id");
  spec.unknown = IdOf(*file, "tokenizer.ggml.unknown_token_id");
  spec.padding = IdOf(*file, "tokenizer.ggml.padding_token_id");
  if (file->Find("tokenizer.ggml.add_bos_token") != nullptr) {
    spec.add_bos = Must(file->GetBool("tokenizer.ggml.add_bos_token"));
  }
  return spec;
}

std::shared_ptr<const Tokenizer> MustCreate(TokenizerSpec spec) {
  return Must(Tokenizer::Create(std::move(spec)));
}

std::shared_ptr<const Tokenizer> FixtureTokenizer(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const Tokenizer>> made;
  auto& tokenizer = made[name];
  if (tokenizer) return tokenizer;
  if (name == "smollm2_real") {
    tokenizer = MustCreate(SpecFromGguf(SKIPJACK_FIXTURES "/tokenizers/smollm2_real.vocab.gguf"));
    return tokenizer;
  }
  const std::map<std::string, std::string> pre = {{"deepseek_llm", "deepseek-coder"},
                                                  {"gpt2", "gpt-2"},
                                                  {"llama3", "llama-bpe"},
                                                  {"qwen2", "qwen2"},
                                                  {"smollm2", "smollm"}};
  TokenizerSpec spec = SpecFromTokenizerJson(ReadFixture(name + ".json"), pre.at(name));
  if (name == "llama3" || name == "deepseek_llm") {
    spec.bos = 640;
    spec.add_bos = true;
  }
  tokenizer = MustCreate(std::move(spec));
  return tokenizer;
}

std::string ByteLevelName(int byte) {
  const auto stands_for_itself = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xFF && b != 0xAD);
  };
  int code = byte;
  if (!stands_for_itself(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += stands_for_itself(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

std::vector<TokenId> EncodeText(const Tokenizer& tokenizer, std::string_view text, bool trusted) {
  const Segment segment{std::string(text), trusted};
  return Must(tokenizer.Encode({&segment, 1}, {.add_special = false}));
}

}  // namespace skipjack
