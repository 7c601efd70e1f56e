// Start-up check of attention and the row-wise kernels: a level against the generic one, on a small problem.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/cpu/float_kernels.h"

namespace skipjack::kernels {
namespace {

constexpr int kTokens = 3;
constexpr int kGroup = 3;
constexpr int kHeadDim = 40;
constexpr int kLength = kAttentionChunk + 21;  // two softmax chunks, the last tile cut
constexpr int kBlockTokens = kKeyLanes;
constexpr int kBlocks = (kLength + kBlockTokens - 1) / kBlockTokens;
constexpr std::size_t kQueryFloats = std::size_t{kTokens} * kGroup * kHeadDim;

// Numbers in [-1, 1) from a linear congruential generator.
class Noise {
 public:
  float Next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) * 0x1p-31f;
  }
  std::vector<float> Floats(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = Next();
    return values;
  }

 private:
  std::uint64_t state_ = 1;
};

bool Close(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= 1e-5f + 1e-5f * std::abs(b[i]))) return false;
  }
  return true;
}

using Attend = void (*)(const AttentionItem&, float*);

std::vector<float> RunAttention(Attend attend, const std::vector<float>& query, const void* keys,
                                const void* values, std::size_t element_bytes) {
  std::vector<std::int32_t> table(kBlocks);
  for (int b = 0; b < kBlocks; ++b) table[static_cast<std::size_t>(b)] = b;
  std::vector<float> output(kQueryFloats);
  std::vector<float> scratch(kAttentionScratchFloats + 16);
  const auto misaligned = reinterpret_cast<std::uintptr_t>(scratch.data()) % 64;
  AttentionItem item;
  item.query = query.data();
  item.output = output.data();
  item.query_stride = item.output_stride = kGroup * kHeadDim;
  item.tokens = kTokens;
  item.group = kGroup;
  item.head_dim = kHeadDim;
  item.position = kLength - kTokens;
  item.keys = keys;
  item.values = values;
  item.block_stride = static_cast<std::int64_t>(kBlockTokens * ValueStride(kHeadDim) * element_bytes);
  item.block_table = table.data();
  item.block_tokens = kBlockTokens;
  item.end_chunk = AttentionChunks(kLength);
  attend(item, scratch.data() + (64 - misaligned) % 64 / sizeof(float));
  return output;
}

// Keys and values in blocks of the same stride, which is large enough for both.
bool AttentionAgrees(Attend attend, Attend reference, const std::vector<float>& query, const void* keys,
                     const void* values, std::size_t element_bytes) {
  return Close(RunAttention(attend, query, keys, values, element_bytes),
               RunAttention(reference, query, keys, values, element_bytes));
}

bool RowsAgree(const ElementwiseKernels& level, const ElementwiseKernels& reference, Noise& noise) {
  constexpr int kCount = 150;
  const std::vector<float> x = noise.Floats(kCount);
  const std::vector<float> weight = noise.Floats(kCount);
  std::vector<float> a(kCount), b(kCount);
  level.rms_norm(x.data(), weight.data(), kCount, 1e-5f, a.data());
  reference.rms_norm(x.data(), weight.data(), kCount, 1e-5f, b.data());
  if (!Close(a, b)) return false;
  level.rotate_pairs(x.data(), weight.data(), kCount / 2, 0.5f, a.data());
  reference.rotate_pairs(x.data(), weight.data(), kCount / 2, 0.5f, b.data());
  if (!Close(a, b)) return false;
  std::vector<std::uint16_t> half_a(kCount), half_b(kCount);
  level.to_half(x.data(), kCount, half_a.data());
  reference.to_half(x.data(), kCount, half_b.data());
  if (half_a != half_b) return false;
  level.to_bfloat16(x.data(), kCount, half_a.data());
  reference.to_bfloat16(x.data(), kCount, half_b.data());
  return half_a == half_b;
}

}  // namespace

std::string FloatSelfTest(const FloatKernels& tested) {
  const FloatKernels& reference = *SelectFloatKernels(IsaLevel::kGeneric);
  Noise noise;
  const std::vector<float> query = noise.Floats(kQueryFloats);
  const std::size_t elements = std::size_t{kBlocks} * kBlockTokens * ValueStride(kHeadDim);
  const std::vector<float> keys = noise.Floats(elements);
  const std::vector<float> values = noise.Floats(elements);
  std::vector<std::uint16_t> narrow_keys(elements), narrow_values(elements);
  const auto count = static_cast<int>(elements);

  std::string failed;
  const auto note = [&](bool good, const char* name) {
    if (!good) failed += (failed.empty() ? "" : ", ") + std::string(name);
  };
  note(RowsAgree(tested.elementwise, reference.elementwise, noise), "row-wise");
  note(AttentionAgrees(tested.attention.attend_f32, reference.attention.attend_f32, query, keys.data(),
                       values.data(), sizeof(float)),
       "attention f32");
  reference.elementwise.to_half(keys.data(), count, narrow_keys.data());
  reference.elementwise.to_half(values.data(), count, narrow_values.data());
  note(AttentionAgrees(tested.attention.attend_f16, reference.attention.attend_f16, query, narrow_keys.data(),
                       narrow_values.data(), sizeof(std::uint16_t)),
       "attention f16");
  reference.elementwise.to_bfloat16(keys.data(), count, narrow_keys.data());
  reference.elementwise.to_bfloat16(values.data(), count, narrow_values.data());
  note(AttentionAgrees(tested.attention.attend_bf16, reference.attention.attend_bf16, query,
                       narrow_keys.data(), narrow_values.data(), sizeof(std::uint16_t)),
       "attention bf16");
  return failed;
}

}  // namespace skipjack::kernels
