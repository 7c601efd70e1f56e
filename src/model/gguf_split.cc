#include "model/gguf_split.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "model/gguf_parser.h"
#include "model/mapped_file.h"

namespace skipjack {
namespace {

namespace fs = std::filesystem;
using std::to_string;

constexpr std::size_t kMaxFolderEntries = 10000;

struct Candidate {
  std::string path;
  GgufSplitInfo split;
};

struct Folder {
  std::vector<Candidate> candidates;    // in the order of their names
  std::vector<std::string> unreadable;  // begin like a GGUF, but say nothing of themselves
};

std::string FileName(const std::string& path) {
  return fs::path(path).filename().string();
}

// The name without "-00001-of-00003.gguf", or the whole name where it does not end so.
std::string Stem(const std::string& path) {
  constexpr std::string_view kShape = "-00000-of-00000.gguf";
  const std::string name = FileName(path);
  if (name.size() <= kShape.size()) return name;
  const std::string_view tail = std::string_view(name).substr(name.size() - kShape.size());
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool matches = kShape[i] == '0' ? tail[i] >= '0' && tail[i] <= '9' : tail[i] == kShape[i];
    if (!matches) return name;
  }
  return name.substr(0, name.size() - kShape.size());
}

bool BeginsLikeGguf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  return file.read(magic, sizeof magic) && std::string_view(magic, sizeof magic) == "GGUF";
}

Result<GgufSplitInfo> ReadSplit(const std::string& path) {
  const Result<std::unique_ptr<MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return ReadGgufSplitInfo((*file)->bytes(), path);
}

Result<Folder> ReadFolder(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> files;
  std::size_t entries = 0;
  for (fs::directory_iterator it(path, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    if (++entries > kMaxFolderEntries) {
      return Status::InvalidArgument(path.string() + ": more than " + to_string(kMaxFolderEntries) +
                                     " entries in this folder; put the model into one of its own");
    }
    std::error_code ignored;  // a broken link is no candidate
    if (it->is_regular_file(ignored) && BeginsLikeGguf(it->path())) files.push_back(it->path());
  }
  if (error) return Status::InvalidArgument(path.string() + ": " + error.message());
  std::sort(files.begin(), files.end());

  Folder folder;
  for (const fs::path& file : files) {
    const Result<GgufSplitInfo> split = ReadSplit(file.string());
    if (split.ok()) {
      folder.candidates.push_back({file.string(), *split});
    } else {
      folder.unreadable.push_back(file.string());
    }
  }
  return folder;
}

bool SameSet(const GgufSplitInfo& a, const GgufSplitInfo& b) {
  return a.count == b.count && a.tensors == b.tensors;
}

bool SameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  return a == b || (fs::equivalent(a, b, error) && !error);
}

std::string Names(const std::vector<std::string>& paths) {
  std::string names;
  for (const std::string& path : paths) {
    if (!names.empty()) names += ", ";
    names += FileName(path);
  }
  return names;
}

// Without further names of files that are there already.
std::vector<std::string> DistinctFiles(const std::vector<std::string>& paths) {
  std::vector<std::string> distinct;
  for (const std::string& path : paths) {
    const bool seen = std::any_of(distinct.begin(), distinct.end(),
                                  [&](const std::string& other) { return SameFile(path, other); });
    if (!seen) distinct.push_back(path);
  }
  return distinct;
}

// Of the files that claim to be one part, the one that belongs to `start`; empty when there is none.
Result<std::string> ChoosePart(const std::vector<std::string>& claims, const std::string& start,
                               std::int64_t number) {
  for (const std::string& path : claims) {
    if (SameFile(path, start)) return start;
  }
  const std::vector<std::string> distinct = DistinctFiles(claims);
  if (distinct.empty()) return std::string();
  if (distinct.size() == 1) return distinct.front();
  std::vector<std::string> alike;
  for (const std::string& path : distinct) {
    if (Stem(path) == Stem(start)) alike.push_back(path);
  }
  if (alike.size() == 1) return alike.front();
  return Status::InvalidArgument(start + ": several files claim to be part " + to_string(number + 1) +
                                 " of this set: " + Names(distinct) + "; keep one set in a folder");
}

Status MissingPart(const std::string& start, const Folder& folder, std::int64_t number, std::int64_t count) {
  // A part with others appended to it is the better explanation, as is one that is broken itself.
  const Result<std::unique_ptr<MappedFile>> file = MappedFile::Open(start);
  if (!file.ok()) return file.status();
  if (const Result<GgufPart> part = ParseGgufPart((*file)->bytes(), start); !part.ok()) return part.status();
  std::string message = start + ": part " + to_string(number + 1) + " of " + to_string(count) +
                        " (split.no " + to_string(number) + ") is missing in the folder";
  if (!folder.unreadable.empty())
    message += "; these files there cannot be read: " + Names(folder.unreadable);
  return Status::NotFound(message);
}

Result<std::vector<std::string>> CollectSet(const Folder& folder, const Candidate& start) {
  std::map<std::int64_t, std::vector<std::string>> claims;
  for (const Candidate& candidate : folder.candidates) {
    if (SameSet(candidate.split, start.split)) claims[candidate.split.number].push_back(candidate.path);
  }
  claims[start.split.number].push_back(start.path);
  std::vector<std::string> set;
  for (std::int64_t number = 0; number < start.split.count; ++number) {
    Result<std::string> part = ChoosePart(claims[number], start.path, number);
    if (!part.ok()) return part.status();
    if (part->empty()) return MissingPart(start.path, folder, number, start.split.count);
    set.push_back(*std::move(part));
  }
  return set;
}

// One file of each model that these parts of equally large sets belong to. Parts that are all different are
// one set; where two files claim to be the same part, every stem is a set of its own.
std::vector<const Candidate*> OnePerSet(const std::vector<const Candidate*>& parts) {
  std::map<std::int64_t, std::vector<std::string>> claims;
  std::map<std::string, const Candidate*> stems;
  bool ambiguous = false;
  for (const Candidate* part : parts) {
    std::vector<std::string>& paths = claims[part->split.number];
    paths.push_back(part->path);
    ambiguous = ambiguous || DistinctFiles(paths).size() > 1;
    stems.emplace(Stem(part->path), part);
  }
  if (!ambiguous) return {parts.front()};
  std::vector<const Candidate*> sets;
  for (const auto& [stem, part] : stems) sets.push_back(part);
  return sets;
}

// Where a folder holds one model, a file of it.
Result<Candidate> OnlyModel(const std::string& path, const Folder& folder) {
  if (folder.candidates.empty()) {
    if (!folder.unreadable.empty()) return ReadSplit(folder.unreadable.front()).status();
    return Status::NotFound(path + ": no GGUF file in this folder");
  }
  std::vector<const Candidate*> models;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<const Candidate*>>
      parts;  // by count and tensors
  for (const Candidate& candidate : folder.candidates) {
    const GgufSplitInfo& split = candidate.split;
    if (split.count == 1) {
      models.push_back(&candidate);
    } else {
      parts[{split.count, split.tensors}].push_back(&candidate);
    }
  }
  for (const auto& [kind, members] : parts) {
    const std::vector<const Candidate*> sets = OnePerSet(members);
    models.insert(models.end(), sets.begin(), sets.end());
  }
  if (models.size() == 1) return *models.front();
  std::vector<std::string> names;
  for (const Candidate* model : models) names.push_back(model->path);
  return Status::InvalidArgument(path + ": this folder holds several models; name one file of " +
                                 Names(names));
}

}  // namespace

Result<std::vector<std::string>> FindGgufSet(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return Status::NotFound(path + ": no such file or folder");
  if (fs::is_directory(status)) {
    const Result<Folder> folder = ReadFolder(path);
    if (!folder.ok()) return folder.status();
    const Result<Candidate> start = OnlyModel(path, *folder);
    if (!start.ok()) return start.status();
    return CollectSet(*folder, *start);
  }
  const Result<GgufSplitInfo> split = ReadSplit(path);
  if (!split.ok()) return split.status();
  if (split->count == 1) return std::vector<std::string>{path};
  fs::path parent = fs::path(path).parent_path();
  const Result<Folder> folder = ReadFolder(parent.empty() ? fs::path(".") : parent);
  if (!folder.ok()) return folder.status();
  return CollectSet(*folder, {path, *split});
}

}  // namespace skipjack
