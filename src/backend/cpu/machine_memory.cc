#include "backend/cpu/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

#include "backend/cpu/cgroup.h"

namespace skipjack {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// nullopt for a missing file, and for "max".
std::optional<std::int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

// The value of "name value" in a file of such lines.
std::int64_t ReadField(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string key; file >> key;) {
    std::int64_t value = 0;
    if (key == name && file >> value) return value;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

std::int64_t Left(std::optional<std::int64_t> limit, std::optional<std::int64_t> usage,
                  std::int64_t file_pages) {
  if (!limit || *limit < 0) return kUnlimited;
  const std::int64_t used = std::max<std::int64_t>(0, usage.value_or(0) - file_pages);
  return std::max<std::int64_t>(0, *limit - used);
}

std::int64_t LeftV2(const std::string& folder) {
  const std::string stat = folder + "/memory.stat";
  return Left(ReadNumber(folder + "/memory.max"), ReadNumber(folder + "/memory.current"),
              ReadField(stat, "inactive_file") + ReadField(stat, "active_file"));
}

std::int64_t LeftV1(const std::string& folder) {
  const std::string stat = folder + "/memory.stat";
  return Left(ReadNumber(folder + "/memory.limit_in_bytes"), ReadNumber(folder + "/memory.usage_in_bytes"),
              ReadField(stat, "total_inactive_file") + ReadField(stat, "total_active_file"));
}

}  // namespace

std::int64_t AvailableMemory(const std::string& root) {
  const std::int64_t kilobytes = ReadField(root + "/proc/meminfo", "MemAvailable:");
  std::int64_t available = kilobytes > 0 ? kilobytes * 1024 : kUnlimited;
  const CgroupFolders folders = FindCgroupFolders(root, "memory");
  for (const std::string& folder : folders.version2) available = std::min(available, LeftV2(folder));
  for (const std::string& folder : folders.version1) available = std::min(available, LeftV1(folder));
  return available;
}

}  // namespace skipjack
