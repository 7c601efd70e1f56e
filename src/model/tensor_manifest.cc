#include "model/tensor_manifest.h"

#include <cstddef>
#include <span>
#include <unordered_set>
#include <utility>

#include "model/gguf_errors.h"

namespace skipjack {
namespace {

std::string ShapeText(std::span<const std::int64_t> shape) {
  std::string text(1, '[');
  for (const std::int64_t length : shape) {
    if (text.size() > 1) text.append(", ");
    text.append(std::to_string(length));
  }
  text.push_back(']');
  return text;
}

bool SameShape(const TensorView& tensor, const std::vector<std::int64_t>& shape) {
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] != (i < shape.size() ? shape[i] : 1)) return false;
  }
  return true;
}

std::string DecodableTypes() {
  std::string names;
  for (std::uint32_t value = 0; value < 256; ++value) {
    const auto type = DTypeFromGguf(value);
    if (!type || !Info(*type).can_dequantize) continue;
    if (!names.empty()) names += ' ';
    names += Info(*type).name;
  }
  return names;
}

}  // namespace

void TensorManifest::Require(std::string name, std::vector<std::int64_t> shape, TensorView* destination) {
  entries_.push_back({std::move(name), std::move(shape), destination, true});
}

void TensorManifest::Allow(std::string name, std::vector<std::int64_t> shape, TensorView* destination) {
  entries_.push_back({std::move(name), std::move(shape), destination, false});
}

Status TensorManifest::Bind(const GgufFile& file) const {
  std::unordered_set<std::string> expected;
  for (const Entry& entry : entries_) {
    expected.insert(entry.name);
    const TensorView* tensor = file.FindTensor(entry.name);
    if (tensor == nullptr) {
      if (!entry.required) continue;
      return Status::InvalidArgument(file.path() + ": tensor " + entry.name + " is missing" +
                                     (file.tensors().empty() ? " (the file holds no tensors at all)" : ""));
    }
    if (!SameShape(*tensor, entry.shape)) {
      const auto rank = static_cast<std::size_t>(tensor->rank);
      return Status::InvalidArgument(file.path() + ": tensor " + entry.name + " has the shape " +
                                     ShapeText(std::span(tensor->shape).first(rank)) + ", expected " +
                                     ShapeText(entry.shape));
    }
    if (!Info(tensor->dtype).can_dequantize) {
      return Status::Unimplemented(file.path() + ": tensor " + entry.name + " has the number type " +
                                   std::string(Info(tensor->dtype).name) +
                                   ", which is not supported (supported: " + DecodableTypes() + ")");
    }
    *entry.destination = *tensor;
  }
  for (const TensorView& tensor : file.tensors()) {
    if (!expected.contains(tensor.name)) {
      return Status::InvalidArgument(
          file.path() + ": tensor " + Quoted(tensor.name) +
          " is none that this architecture has; the model is refused, because leaving it "
          "out might change results");
    }
  }
  return {};
}

}  // namespace skipjack
