// The tensors an architecture has: each with its name, its shape and where it goes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/gguf_file.h"
#include "model/tensor_view.h"

namespace skipjack {

class TensorManifest {
 public:
  // `destination` must outlive Bind(). Shapes are in GGUF order.
  void Require(std::string name, std::vector<std::int64_t> shape, TensorView* destination);
  // Left empty when the file does not have it.
  void Allow(std::string name, std::vector<std::int64_t> shape, TensorView* destination);

  // Fills all destinations, or names the tensor that is missing, left over, of a wrong shape, or of a type
  // that cannot be decoded.
  Status Bind(const GgufFile& file) const;

 private:
  struct Entry {
    std::string name;
    std::vector<std::int64_t> shape;
    TensorView* destination;
    bool required;
  };

  std::vector<Entry> entries_;
};

}  // namespace skipjack
