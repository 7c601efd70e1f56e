#include "tests/unit/model/gguf_builder.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace skipjack::gguf {

std::string Raw(const void* data, std::size_t size) {
  return {static_cast<const char*>(data), size};
}

std::string Text(const std::string& text) {
  return Bytes<std::uint64_t>(text.size()) + text;
}

GgufBuilder& GgufBuilder::Set(const std::string& key, std::uint32_t type, const std::string& value_bytes) {
  const std::string bytes = Bytes(type) + value_bytes;
  for (auto& [name, value] : keys_) {
    if (name == key) {
      value = bytes;
      return *this;
    }
  }
  keys_.emplace_back(key, bytes);
  return *this;
}

GgufBuilder& GgufBuilder::Strings(const std::string& key, const std::vector<std::string>& values) {
  std::string bytes = Bytes<std::uint32_t>(kText) + Bytes<std::uint64_t>(values.size());
  for (const std::string& value : values) bytes += Text(value);
  return Set(key, kArray, bytes);
}

GgufBuilder& GgufBuilder::Remove(const std::string& key) {
  std::erase_if(keys_, [&](const auto& entry) { return entry.first == key; });
  return *this;
}

GgufBuilder& GgufBuilder::Tensor(const std::string& name, const std::vector<std::uint64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t length : shape) count *= length;
  std::string data;
  const auto seed = static_cast<float>(std::hash<std::string>{}(name) % 97);
  for (std::uint64_t i = 0; i < count; ++i) data += Bytes(seed + static_cast<float>(i) * 0.25f);
  return Add({name, shape, 0, data, -1});
}

GgufBuilder& GgufBuilder::Add(BuilderTensor tensor) {
  tensors_.push_back(std::move(tensor));
  return *this;
}

GgufBuilder& GgufBuilder::RemoveTensor(const std::string& name) {
  std::erase_if(tensors_, [&](const BuilderTensor& tensor) { return tensor.name == name; });
  return *this;
}

BuilderTensor* GgufBuilder::FindTensor(const std::string& name) {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const BuilderTensor& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

std::string GgufBuilder::Header() const {
  std::string out =
      "GGUF" + Bytes(version) + Bytes<std::uint64_t>(tensors_.size()) + Bytes<std::uint64_t>(keys_.size());
  for (const auto& [key, value] : keys_) out += Text(key) + value;
  std::uint64_t offset = 0;
  for (const BuilderTensor& tensor : tensors_) {
    out += Text(tensor.name) + Bytes(static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::uint64_t length : tensor.shape) out += Bytes(length);
    out += Bytes(tensor.type);
    out += Bytes(tensor.offset >= 0 ? static_cast<std::uint64_t>(tensor.offset) : offset);
    offset = (offset + tensor.data.size() + alignment - 1) / alignment * alignment;
  }
  return out;
}

std::string GgufBuilder::Build() const {
  std::string out = Header();
  const auto pad = [&] { out.resize((out.size() + alignment - 1) / alignment * alignment); };
  pad();
  for (const BuilderTensor& tensor : tensors_) {
    out += tensor.data;
    pad();
  }
  return out;
}

GgufBuilder TinyLlama() {
  constexpr std::uint64_t kHidden = 16, kKv = 8, kInner = 24, kRows = 10;
  GgufBuilder builder;
  builder.String("general.architecture", "llama")
      .String("general.name", "tiny")
      .U32("llama.block_count", 2)
      .U32("llama.context_length", 64)
      .U32("llama.embedding_length", kHidden)
      .U32("llama.feed_forward_length", kInner)
      .U32("llama.attention.head_count", 4)
      .U32("llama.attention.head_count_kv", 2)
      .F32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .Strings("tokenizer.ggml.tokens", {"a", "b", "c"});
  builder.Tensor("token_embd.weight", {kHidden, kRows})
      .Tensor("output_norm.weight", {kHidden})
      .Tensor("output.weight", {kHidden, kRows});
  for (const char* layer : {"blk.0.", "blk.1."}) {
    const std::string prefix = layer;
    builder.Tensor(prefix + "attn_norm.weight", {kHidden})
        .Tensor(prefix + "attn_q.weight", {kHidden, kHidden})
        .Tensor(prefix + "attn_k.weight", {kHidden, kKv})
        .Tensor(prefix + "attn_v.weight", {kHidden, kKv})
        .Tensor(prefix + "attn_output.weight", {kHidden, kHidden})
        .Tensor(prefix + "ffn_norm.weight", {kHidden})
        .Tensor(prefix + "ffn_gate.weight", {kHidden, kInner})
        .Tensor(prefix + "ffn_up.weight", {kHidden, kInner})
        .Tensor(prefix + "ffn_down.weight", {kInner, kHidden});
  }
  return builder;
}

std::vector<std::byte> HeapBytes(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

}  // namespace skipjack::gguf
