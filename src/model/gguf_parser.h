// One GGUF file (or one part of a split set) from its bytes. Trusts nothing in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/gguf_value.h"
#include "model/tensor_view.h"

namespace skipjack {

// What one file may ask of us. All of it lies far above real models.
inline constexpr std::uint64_t kMaxGgufKeys = 1 << 16;
inline constexpr std::uint64_t kMaxGgufTensors = 1 << 17;
inline constexpr std::uint64_t kMaxGgufKeyBytes = (1 << 16) - 1;
inline constexpr std::uint64_t kMaxGgufTensorNameBytes = 256;
inline constexpr std::uint64_t kMaxGgufStringBytes = 256 << 20;
inline constexpr std::uint64_t kMaxGgufArrayElements = 1 << 24;  // over all arrays of a file
inline constexpr std::int64_t kMaxGgufAlignment = 1 << 20;
inline constexpr std::int64_t kMaxGgufParts = 4096;

struct GgufPart {
  std::string path;
  std::uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<TensorView> tensors;  // into the bytes that were parsed
};

// `path` is for messages.
Result<GgufPart> ParseGgufPart(std::span<const std::byte> bytes, const std::string& path);

struct GgufSplitInfo {
  std::int64_t number = 0;    // split.no, from 0
  std::int64_t count = 1;     // split.count; 1 when the file is not split
  std::int64_t tensors = -1;  // split.tensors.count, of all parts together; -1 when not given
};

// Reads only as far as the keys that say which part of which set this is.
Result<GgufSplitInfo> ReadGgufSplitInfo(std::span<const std::byte> bytes, const std::string& path);

// An integer however it is stored; nullopt for anything else and for what int64 cannot hold.
std::optional<std::int64_t> AsInteger(const GgufValue& value);

}  // namespace skipjack
