#include "model/gguf_file.h"

#include <optional>
#include <utility>

#include "model/gguf_errors.h"
#include "model/gguf_parser.h"
#include "model/gguf_split.h"
#include "model/mapped_file.h"

namespace skipjack {
namespace {

// Keys that each part of a set has for itself.
bool IsPerPart(const std::string& key) {
  return key.starts_with("split.") || key == "general.alignment";
}

}  // namespace

GgufFile::GgufFile() = default;
GgufFile::~GgufFile() = default;

Result<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  const Result<std::vector<std::string>> paths = FindGgufSet(path);
  if (!paths.ok()) return paths.status();
  std::unique_ptr<GgufFile> file(new GgufFile);
  for (const std::string& part_path : *paths) {
    Result<std::unique_ptr<MappedFile>> mapping = MappedFile::Open(part_path);
    if (!mapping.ok()) return mapping.status();
    Result<GgufPart> part = ParseGgufPart((*mapping)->bytes(), part_path);
    if (!part.ok()) return part.status();
    file->mappings_.push_back(*std::move(mapping));
    if (Status s = file->AddPart(*std::move(part)); !s.ok()) return s;
  }
  if (paths->size() > 1 && file->Find("split.tensors.count") != nullptr) {
    const Result<std::int64_t> announced = file->GetInt("split.tensors.count");
    if (!announced.ok()) return announced.status();
    if (static_cast<std::uint64_t>(*announced) != file->tensors_.size()) {
      return Status::InvalidArgument(file->path() + ": split.tensors.count is " + std::to_string(*announced) +
                                     ", but the " + std::to_string(paths->size()) + " parts hold " +
                                     std::to_string(file->tensors_.size()) +
                                     " tensors: they are not parts of one model");
    }
  }
  return file;
}

Result<std::unique_ptr<GgufFile>> GgufFile::Parse(std::span<const std::byte> bytes) {
  Result<GgufPart> part = ParseGgufPart(bytes, "<memory>");
  if (!part.ok()) return part.status();
  std::unique_ptr<GgufFile> file(new GgufFile);
  if (Status s = file->AddPart(*std::move(part)); !s.ok()) return s;
  return file;
}

// The first part brings the metadata; the others may only repeat it.
Status GgufFile::AddPart(GgufPart part) {
  if (paths_.empty()) {
    version_ = part.version;
    metadata_ = std::move(part.metadata);
  } else {
    for (const std::string& key : part.metadata.keys) {
      if (IsPerPart(key)) continue;
      const GgufValue* first = Find(key);
      if (first == nullptr || *first != part.metadata.values.at(key)) {
        return Status::InvalidArgument(part.path + ": metadata key " + Quoted(key) +
                                       " differs from the first part, " + path() +
                                       ": they are not parts of one model");
      }
    }
  }
  paths_.push_back(part.path);
  for (TensorView& tensor : part.tensors) {
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
      return Status::InvalidArgument(part.path + ": tensor " + Quoted(tensor.name) +
                                     " is in an earlier part too: they are not parts of one model");
    }
    tensors_.push_back(std::move(tensor));
  }
  return {};
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = metadata_.values.find(std::string(key));
  return found == metadata_.values.end() ? nullptr : &found->second;
}

namespace {

Status Absent(const GgufFile& file, std::string_view key) {
  return Status::NotFound(file.path() + ": metadata key " + Quoted(key) + " is missing");
}

Status NotA(const GgufFile& file, std::string_view key, std::string_view type) {
  return Status::InvalidArgument(file.path() + ": metadata key " + Quoted(key) + " is not " +
                                 std::string(type));
}

}  // namespace

Result<std::int64_t> GgufFile::GetInt(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Absent(*this, key);
  const std::optional<std::int64_t> integer = AsInteger(*value);
  if (!integer) return NotA(*this, key, "an integer of 64 bits");
  return *integer;
}

Result<double> GgufFile::GetFloat(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Absent(*this, key);
  if (const auto* number = std::get_if<double>(value)) return *number;
  const std::optional<std::int64_t> integer = AsInteger(*value);
  if (!integer) return NotA(*this, key, "a number");
  return static_cast<double>(*integer);
}

Result<bool> GgufFile::GetBool(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Absent(*this, key);
  if (const auto* boolean = std::get_if<bool>(value)) return *boolean;
  return NotA(*this, key, "a boolean");
}

Result<std::string> GgufFile::GetString(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Absent(*this, key);
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  return NotA(*this, key, "a text");
}

const std::vector<std::string>* GgufFile::FindStrings(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value == nullptr ? nullptr : std::get_if<std::vector<std::string>>(value);
}

const TensorView* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(std::string(name));
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

void GgufFile::Prefetch(std::span<const std::byte> part) const {
  for (const std::unique_ptr<MappedFile>& mapping : mappings_) mapping->Prefetch(part);
}

void GgufFile::DropMappedPages() const {
  for (const std::unique_ptr<MappedFile>& mapping : mappings_) mapping->DropPages();
}

}  // namespace skipjack
