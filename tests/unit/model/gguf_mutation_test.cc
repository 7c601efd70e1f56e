// Broken files by the thousand: cut, flipped and overwritten. Whatever the bytes say, opening must end in a
// clear refusal or in a model whose every tensor lies inside the bytes. Seeds are fixed; run under
// AddressSanitizer too.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "model/model_source.h"
#include "tests/unit/model/gguf_builder.h"

namespace skipjack {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Where the tensor data begins.
std::size_t HeaderBytes(const std::string& text) {
  const auto bytes = gguf::HeapBytes(text);
  const auto file = GgufFile::Parse(bytes);
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  const std::byte* first = (*file)->tensors().front().data.data();
  for (const TensorView& tensor : (*file)->tensors()) first = std::min(first, tensor.data.data());
  return static_cast<std::size_t>(first - bytes.data());
}

void ExpectInside(std::span<const std::byte> bytes, const TensorView& tensor) {
  ASSERT_GE(tensor.data.data(), bytes.data());
  ASSERT_LE(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size());
  const Result<std::int64_t> size = RowBytes(tensor.dtype, tensor.elements());
  ASSERT_TRUE(size.ok());
  ASSERT_EQ(static_cast<std::uint64_t>(*size), tensor.data.size());
}

enum class Outcome { kRefused, kParsed, kModel };

// Opens the bytes and checks what must hold whatever they are.
Outcome Open(const std::string& text) {
  const std::vector<std::byte> bytes = gguf::HeapBytes(text);
  Result<std::unique_ptr<GgufFile>> file = GgufFile::Parse(bytes);
  if (!file.ok()) {
    EXPECT_GT(file.status().message().size(), 10u);
    EXPECT_LT(file.status().message().size(), 600u);
    return Outcome::kRefused;
  }
  for (const TensorView& tensor : (*file)->tensors()) ExpectInside(bytes, tensor);
  const auto model = ModelSource::FromFile(*std::move(file));
  if (!model.ok()) return Outcome::kParsed;
  const ModelConfig& config = (*model)->config();
  EXPECT_EQ(config.heads % config.kv_heads, 0);
  EXPECT_EQ(config.layers, static_cast<std::int32_t>((*model)->tensors().layers.size()));
  EXPECT_EQ((*model)->tensors().token_embedding.rows(), config.vocabulary_rows);
  // What the model promises can be read: the last row of every matrix of the first layer.
  const LayerTensors& layer = (*model)->tensors().layers.front();
  for (const TensorView* tensor : {&layer.query, &layer.key, &layer.value, &layer.gate, &layer.down}) {
    std::vector<float> row(static_cast<std::size_t>(tensor->columns()));
    const auto row_bytes = tensor->data.size() / static_cast<std::size_t>(tensor->rows());
    Dequantize(tensor->dtype, tensor->data.last(row_bytes), row);
  }
  return Outcome::kModel;
}

TEST(GgufMutationTest, EveryCutOfASmallFileIsRefused) {
  const std::string whole = gguf::TinyLlama().Build();
  ASSERT_EQ(Open(whole), Outcome::kModel);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto bytes = gguf::HeapBytes(whole.substr(0, length));
    const auto file = GgufFile::Parse(bytes);
    ASSERT_FALSE(file.ok()) << length;
    if (length < 4) continue;
    ASSERT_EQ(file.status().code(), StatusCode::kDataLoss) << length << ": " << file.status().ToString();
    // Both sizes are in the message, and no cut file is told that it is long enough.
    const std::string message = file.status().message();
    const std::string marker = "at least ";
    const std::size_t at = message.find(marker);
    ASSERT_NE(at, std::string::npos) << message;
    const unsigned long long needed = std::stoull(message.substr(at + marker.size()));
    ASSERT_GT(needed, length) << message;
    ASSERT_LE(needed, whole.size()) << message;
    ASSERT_NE(message.find("has " + std::to_string(length)), std::string::npos) << message;
  }
}

TEST(GgufMutationTest, CutsOfARealFileAreRefused) {
  const std::string whole = ReadFile(SKIPJACK_FIXTURES "/gguf/llama.Q4_K_M.gguf");
  const std::size_t header = HeaderBytes(whole);
  std::mt19937 random(11);
  for (int i = 0; i < 800; ++i) {
    const bool in_header = i % 4 != 0;
    const std::size_t length = in_header ? random() % header : header + random() % (whole.size() - header);
    ASSERT_EQ(Open(whole.substr(0, length)), Outcome::kRefused) << length;
  }
}

TEST(GgufMutationTest, FlippedBitsAnywhereInTheHeader) {
  std::string text = gguf::TinyLlama().Build();
  const std::size_t header = HeaderBytes(text);
  std::array<int, 3> outcomes{};
  for (std::size_t i = 0; i < header * 8; ++i) {
    const char before = text[i / 8];
    text[i / 8] = static_cast<char>(before ^ (1 << (i % 8)));
    ++outcomes[static_cast<std::size_t>(Open(text))];
    text[i / 8] = before;
  }
  // Most bits are structure, names or shapes; the rest (a token's text, an epsilon) may change without
  // notice.
  EXPECT_GT(outcomes[0] + outcomes[1], outcomes[2] * 4);
  EXPECT_GT(outcomes[0], 1000);
  EXPECT_GT(outcomes[1], 1000);
}

// Numbers that break careless arithmetic, written over every place of the header.
TEST(GgufMutationTest, HostileNumbersAnywhereInTheHeader) {
  constexpr std::array<std::uint64_t, 10> kHostile{0,
                                                   1,
                                                   0x7fffffff,
                                                   0x80000000,
                                                   0xffffffff,
                                                   0x100000000,
                                                   0x7fffffffffffffff,
                                                   0x8000000000000000,
                                                   0xffffffffffffffe0,
                                                   0xffffffffffffffff};
  const std::string whole = gguf::TinyLlama().Build();
  const std::size_t header = HeaderBytes(whole);
  for (std::size_t at = 4; at + 8 <= header; ++at) {
    for (const std::uint64_t value : kHostile) {
      std::string text = whole;
      std::memcpy(text.data() + at, &value, sizeof value);
      Open(text);
    }
  }
}

TEST(GgufMutationTest, RandomDamageToRealFiles) {
  std::mt19937 random(23);
  for (const char* name : {"/gguf/llama.Q4_K_M.gguf", "/gguf/llama.IQ4_NL.gguf"}) {
    const std::string whole = ReadFile(std::string(SKIPJACK_FIXTURES) + name);
    const std::size_t header = HeaderBytes(whole);
    // The tail is kept short: the data is not what is under test, its bounds are.
    for (int i = 0; i < 1500; ++i) {
      std::string text = whole;
      const unsigned damages = 1 + random() % 4;
      for (unsigned d = 0; d < damages; ++d) {
        const std::size_t at = random() % header;
        switch (random() % 4) {
          case 0:
            text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
            break;
          case 1:
            text[at] = static_cast<char>(random());
            break;
          case 2:
            text.erase(at, 1 + random() % 16);
            break;
          default:
            text.insert(at, 1 + random() % 16, static_cast<char>(random()));
            break;
        }
      }
      Open(text);
    }
  }
}

TEST(GgufMutationTest, KeysAndTensorsShuffledBetweenEntries) {
  std::mt19937 random(31);
  for (int i = 0; i < 2000; ++i) {
    gguf::GgufBuilder builder = gguf::TinyLlama();
    auto& keys = builder.keys();
    auto& tensors = builder.tensors();
    const std::size_t a = random();
    const std::size_t b = random();
    switch (random() % 5) {
      case 0:
        keys[a % keys.size()].second.swap(keys[b % keys.size()].second);
        break;
      case 1:
        builder.Remove(std::string(keys[a % keys.size()].first));
        break;
      case 2:
        builder.RemoveTensor(std::string(tensors[a % tensors.size()].name));
        break;
      case 3:
        tensors[a % tensors.size()].shape.swap(tensors[b % tensors.size()].shape);
        break;
      default:
        tensors[a % tensors.size()].type = static_cast<std::uint32_t>(b % 48);
        break;
    }
    Open(builder.Build());
  }
}

}  // namespace
}  // namespace skipjack
