#include "model/gguf_parser.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "model/byte_reader.h"
#include "model/gguf_errors.h"
#include "model/gguf_value_reader.h"

namespace skipjack {
namespace {

using std::to_string;

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Says what a file is that people mistake for a GGUF.
std::string DescribeForeignFile(std::span<const std::byte> bytes) {
  const std::string_view text = AsText(bytes);
  if (text.empty()) return "the file is empty";
  if (text.starts_with("version https://git-lfs")) return "this is a Git LFS pointer, not the model itself";
  for (const std::string_view old : {"lmgg", "fmgg", "tjgg", "algg"}) {
    if (text.starts_with(old)) return "this is a GGML file from before GGUF: convert the model again";
  }
  if (text.starts_with("<")) return "this looks like a web page, not like a model";
  return "not a GGUF file: it does not begin with \"GGUF\"";
}

struct PlacedTensor {
  TensorView view;
  std::uint64_t offset = 0;  // from the start of the data section
  std::uint64_t bytes = 0;
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& path)
      : bytes_(bytes), errors_{path, bytes.size()}, reader_(bytes), values_(&reader_, &errors_) {}

  Result<GgufPart> Parse();
  Result<GgufSplitInfo> ParseSplitInfo();

 private:
  Status ReadHeader();
  Status ReadMetadata(GgufMetadata* metadata);
  Result<std::uint64_t> Alignment(const GgufMetadata& metadata) const;
  Status ReadTensorTable(std::vector<PlacedTensor>* tensors);
  Status ReadTensor(PlacedTensor* tensor);
  Status ReadShape(TensorView* tensor);
  Status MeasureTensor(PlacedTensor* tensor) const;
  Status PlaceTensors(std::uint64_t alignment, std::vector<PlacedTensor>* tensors) const;
  Status CheckOverlaps(std::vector<PlacedTensor>* tensors) const;
  Status CheckNothingIsAppended(std::uint64_t data_end, std::uint64_t alignment) const;

  std::span<const std::byte> bytes_;
  GgufErrors errors_;
  ByteReader reader_;
  GgufValueReader values_;
  std::uint32_t version_ = 0;
  std::uint64_t tensor_count_ = 0;
  std::uint64_t key_count_ = 0;
};

Status Parser::ReadHeader() {
  if (!AsText(bytes_).starts_with("GGUF")) return errors_.Bad(DescribeForeignFile(bytes_));
  std::uint32_t magic = 0;
  if (!reader_.Read(&magic) || !reader_.Read(&version_))
    return errors_.CutOff("the header", reader_.needed());
  if (version_ != 0 && (version_ & 0xffffu) == 0) {
    return errors_.Bad("this is a big-endian GGUF: convert it to little-endian");
  }
  if (version_ != 2 && version_ != 3) {
    return errors_.Bad("GGUF version " + to_string(version_) + " is not supported (2 and 3 are)");
  }
  if (!reader_.Read(&tensor_count_) || !reader_.Read(&key_count_)) {
    return errors_.CutOff("the header", reader_.needed());
  }
  if (tensor_count_ > kMaxGgufTensors) {
    return errors_.Bad("the header announces " + to_string(tensor_count_) + " tensors, over the limit of " +
                       to_string(kMaxGgufTensors));
  }
  if (key_count_ > kMaxGgufKeys) {
    return errors_.Bad("the header announces " + to_string(key_count_) +
                       " metadata keys, over the limit of " + to_string(kMaxGgufKeys));
  }
  return {};
}

Status Parser::ReadMetadata(GgufMetadata* metadata) {
  for (std::uint64_t i = 0; i < key_count_; ++i) {
    std::string_view key;
    GgufValueType type{};
    if (Status s = values_.ReadKey(&key, &type); !s.ok()) return s;
    Result<GgufValue> value = values_.ReadValue(type, key);
    if (!value.ok()) return value.status();
    if (!metadata->values.emplace(key, *std::move(value)).second) {
      return errors_.Bad("metadata key " + Quoted(key) + " stands twice in the file");
    }
    metadata->keys.emplace_back(key);
  }
  return {};
}

Result<std::uint64_t> Parser::Alignment(const GgufMetadata& metadata) const {
  constexpr std::uint64_t kDefault = 32;
  const auto found = metadata.values.find("general.alignment");
  if (found == metadata.values.end()) return kDefault;
  const std::optional<std::int64_t> value = AsInteger(found->second);
  if (!value) return errors_.Bad("general.alignment is not an integer");
  if (*value < 1 || *value > kMaxGgufAlignment || !std::has_single_bit(static_cast<std::uint64_t>(*value))) {
    return errors_.Bad("general.alignment is " + to_string(*value) + ", not a power of two from 1 to " +
                       to_string(kMaxGgufAlignment));
  }
  return static_cast<std::uint64_t>(*value);
}

Status Parser::ReadShape(TensorView* tensor) {
  const std::string what = "tensor " + Quoted(tensor->name);
  std::uint32_t rank = 0;
  if (!reader_.Read(&rank)) return errors_.CutOff(what, reader_.needed());
  if (rank < 1 || rank > tensor->shape.size()) {
    return errors_.Bad(what + " has " + to_string(rank) + " dimensions; 1 to 4 are possible");
  }
  tensor->rank = static_cast<int>(rank);
  std::int64_t elements = 1;
  for (std::uint32_t i = 0; i < rank; ++i) {
    std::uint64_t length = 0;
    if (!reader_.Read(&length)) return errors_.CutOff(what, reader_.needed());
    if (length == 0 || length > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return errors_.Bad(what + " has a dimension of " + to_string(length));
    }
    tensor->shape[i] = static_cast<std::int64_t>(length);
    if (__builtin_mul_overflow(elements, tensor->shape[i], &elements)) {
      return errors_.Bad(what + " has more numbers than 64 bits can count");
    }
  }
  return {};
}

Status Parser::MeasureTensor(PlacedTensor* tensor) const {
  const TensorView& view = tensor->view;
  const Result<std::int64_t> row = RowBytes(view.dtype, view.shape[0]);
  if (!row.ok()) return errors_.Bad("a row of tensor " + Quoted(view.name) + ": " + row.status().message());
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(*row, view.elements() / view.shape[0], &bytes)) {
    return errors_.Bad("the size of tensor " + Quoted(view.name) + " overflows");
  }
  tensor->bytes = static_cast<std::uint64_t>(bytes);
  return {};
}

Status Parser::ReadTensor(PlacedTensor* tensor) {
  std::string_view name;
  if (Status s = values_.ReadText(kMaxGgufTensorNameBytes, "the name of a tensor", &name); !s.ok()) return s;
  if (name.empty()) return errors_.Bad("a tensor has no name");
  tensor->view.name = name;
  if (Status s = ReadShape(&tensor->view); !s.ok()) return s;
  std::uint32_t type = 0;
  if (!reader_.Read(&type) || !reader_.Read(&tensor->offset)) {
    return errors_.CutOff("tensor " + Quoted(name), reader_.needed());
  }
  const std::optional<DType> dtype = DTypeFromGguf(type);
  if (!dtype)
    return errors_.Bad("tensor " + Quoted(name) + " has the unknown number type " + to_string(type));
  tensor->view.dtype = *dtype;
  return MeasureTensor(tensor);
}

Status Parser::ReadTensorTable(std::vector<PlacedTensor>* tensors) {
  std::unordered_set<std::string> names;
  for (std::uint64_t i = 0; i < tensor_count_; ++i) {
    PlacedTensor tensor;
    if (Status s = ReadTensor(&tensor); !s.ok()) return s;
    if (!names.insert(tensor.view.name).second) {
      return errors_.Bad("tensor " + Quoted(tensor.view.name) + " stands twice in the file");
    }
    tensors->push_back(std::move(tensor));
  }
  return {};
}

// Gives every tensor its bytes. The data section begins at the next multiple of the alignment after the
// table.
Status Parser::PlaceTensors(std::uint64_t alignment, std::vector<PlacedTensor>* tensors) const {
  if (tensors->empty()) return {};
  const std::uint64_t data_start = (reader_.offset() + alignment - 1) / alignment * alignment;
  std::uint64_t needed = data_start;
  const PlacedTensor* last = &tensors->front();
  for (const PlacedTensor& tensor : *tensors) {
    const std::string what = "tensor " + Quoted(tensor.view.name);
    if (tensor.offset % alignment != 0) {
      return errors_.Bad(what + " begins at offset " + to_string(tensor.offset) +
                         " of the data, which is no multiple of the alignment " + to_string(alignment));
    }
    std::uint64_t end = 0;
    if (__builtin_add_overflow(tensor.offset, tensor.bytes, &end) ||
        __builtin_add_overflow(end, data_start, &end)) {
      return errors_.Bad(what + " has the offset " + to_string(tensor.offset) + ", whose end overflows");
    }
    if (end > needed) {
      needed = end;
      last = &tensor;
    }
  }
  if (needed > bytes_.size()) return errors_.CutOff("tensor " + Quoted(last->view.name), needed);
  for (PlacedTensor& tensor : *tensors) {
    tensor.view.data = bytes_.subspan(static_cast<std::size_t>(data_start + tensor.offset),
                                      static_cast<std::size_t>(tensor.bytes));
  }
  if (Status s = CheckOverlaps(tensors); !s.ok()) return s;
  return CheckNothingIsAppended(needed, alignment);
}

Status Parser::CheckOverlaps(std::vector<PlacedTensor>* tensors) const {
  std::vector<const PlacedTensor*> order;
  order.reserve(tensors->size());
  for (const PlacedTensor& tensor : *tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const PlacedTensor* a, const PlacedTensor* b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::uint64_t end = order[i - 1]->offset + order[i - 1]->bytes;
    if (order[i]->offset < end) {
      return errors_.Bad("tensors " + Quoted(order[i - 1]->view.name) + " and " +
                         Quoted(order[i]->view.name) + " overlap: the first ends at offset " +
                         to_string(end) + ", the second begins at " + to_string(order[i]->offset));
    }
  }
  return {};
}

// Parts of a split set joined with `cat` look like the first part with something behind it.
Status Parser::CheckNothingIsAppended(std::uint64_t data_end, std::uint64_t alignment) const {
  const std::uint64_t padded = (data_end + alignment - 1) / alignment * alignment;
  for (const std::uint64_t end : {data_end, padded}) {
    if (end < bytes_.size() && AsText(bytes_.subspan(static_cast<std::size_t>(end))).starts_with("GGUF")) {
      return errors_.Bad(
          "a second GGUF file follows at byte " + to_string(end) +
          ": the parts of a split model were joined byte by byte. Keep them as separate files in one "
          "folder, or merge them with a GGUF split tool");
    }
  }
  return {};
}

Result<GgufPart> Parser::Parse() {
  GgufPart part;
  part.path = errors_.path;
  if (Status s = ReadHeader(); !s.ok()) return s;
  part.version = version_;
  if (Status s = ReadMetadata(&part.metadata); !s.ok()) return s;
  const Result<std::uint64_t> alignment = Alignment(part.metadata);
  if (!alignment.ok()) return alignment.status();
  std::vector<PlacedTensor> tensors;
  if (Status s = ReadTensorTable(&tensors); !s.ok()) return s;
  if (Status s = PlaceTensors(*alignment, &tensors); !s.ok()) return s;
  part.tensors.reserve(tensors.size());
  for (PlacedTensor& tensor : tensors) part.tensors.push_back(std::move(tensor.view));
  return part;
}

Result<GgufSplitInfo> Parser::ParseSplitInfo() {
  if (Status s = ReadHeader(); !s.ok()) return s;
  GgufSplitInfo info;
  const std::array<std::pair<std::string_view, std::int64_t*>, 3> fields{
      {{"split.no", &info.number}, {"split.count", &info.count}, {"split.tensors.count", &info.tensors}}};
  std::size_t found = 0;
  for (std::uint64_t i = 0; i < key_count_ && found < fields.size(); ++i) {
    std::string_view key;
    GgufValueType type{};
    if (Status s = values_.ReadKey(&key, &type); !s.ok()) return s;
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const auto& candidate) { return candidate.first == key; });
    if (field == fields.end()) {
      if (Status s = values_.SkipValue(type, key); !s.ok()) return s;
      continue;
    }
    Result<GgufValue> value = values_.ReadValue(type, key);
    if (!value.ok()) return value.status();
    const std::optional<std::int64_t> integer = AsInteger(*value);
    if (!integer || *integer < 0) return errors_.Bad(std::string(key) + " is not an integer from 0");
    *field->second = *integer;
    ++found;
  }
  if (info.count < 1) info.count = 1;  // writers store 0 for "not split"
  if (info.count > kMaxGgufParts) {
    return errors_.Bad("split.count is " + to_string(info.count) + ", over the limit of " +
                       to_string(kMaxGgufParts));
  }
  if (info.number >= info.count) {
    return errors_.Bad("split.no is " + to_string(info.number) + ", but split.count is " +
                       to_string(info.count) + " (numbers begin at 0)");
  }
  return info;
}

}  // namespace

Result<GgufPart> ParseGgufPart(std::span<const std::byte> bytes, const std::string& path) {
  return Parser(bytes, path).Parse();
}

Result<GgufSplitInfo> ReadGgufSplitInfo(std::span<const std::byte> bytes, const std::string& path) {
  return Parser(bytes, path).ParseSplitInfo();
}

std::optional<std::int64_t> AsInteger(const GgufValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<std::uint64_t>(&value)) {
    if (*number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return static_cast<std::int64_t>(*number);
    }
  }
  return std::nullopt;
}

}  // namespace skipjack
