#include "backend/cpu/machine_memory.h"

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

struct Group {
  std::int64_t limit = kUnlimited;
  std::int64_t left = kUnlimited;
};

Group MakeGroup(std::optional<std::int64_t> limit, std::optional<std::int64_t> usage,
                std::int64_t file_pages) {
  if (!limit || *limit < 0) return {};
  const std::int64_t used = std::max<std::int64_t>(0, usage.value_or(0) - file_pages);
  return {*limit, std::max<std::int64_t>(0, *limit - used)};
}

Group ReadGroupV2(const std::string& folder) {
  const std::string stat = folder + "/memory.stat";
  return MakeGroup(ReadNumber(folder + "/memory.max"), ReadNumber(folder + "/memory.current"),
                   ReadField(stat, "inactive_file") + ReadField(stat, "active_file"));
}

Group ReadGroupV1(const std::string& folder) {
  const std::string stat = folder + "/memory.stat";
  return MakeGroup(ReadNumber(folder + "/memory.limit_in_bytes"),
                   ReadNumber(folder + "/memory.usage_in_bytes"),
                   ReadField(stat, "total_inactive_file") + ReadField(stat, "total_active_file"));
}

std::int64_t ReadMeminfo(const std::string& root, const std::string& name) {
  const std::int64_t kilobytes = ReadField(root + "/proc/meminfo", name);
  return kilobytes > 0 ? kilobytes * 1024 : kUnlimited;
}

}  // namespace

MachineMemory ReadMachineMemory(const std::string& root) {
  MachineMemory memory{ReadMeminfo(root, "MemTotal:"), ReadMeminfo(root, "MemAvailable:")};
  const auto apply = [&](const Group& group) {
    memory.total = std::min(memory.total, group.limit);
    memory.available = std::min(memory.available, group.left);
  };
  const CgroupFolders folders = FindCgroupFolders(root, "memory");
  for (const std::string& folder : folders.version2) apply(ReadGroupV2(folder));
  for (const std::string& folder : folders.version1) apply(ReadGroupV1(folder));
  return memory;
}

}  // namespace skipjack
