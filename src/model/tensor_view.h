// One named tensor inside a model file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tensor/dtype.h"

namespace skipjack {

// `data` lives as long as the file it came from, holds exactly the tensor's bytes, and may lie at any
// alignment.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  // GGUF order: shape[0] is the contiguous dimension (input features), shape[1] the rows (output features).
  std::array<std::int64_t, 4> shape{1, 1, 1, 1};
  int rank = 1;
  std::span<const std::byte> data;

  std::int64_t columns() const { return shape[0]; }
  std::int64_t rows() const { return shape[1]; }
  std::int64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  bool empty() const { return data.empty(); }
};

}  // namespace skipjack
