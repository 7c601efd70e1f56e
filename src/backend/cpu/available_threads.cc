#include "backend/cpu/available_threads.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/cpu/cgroup.h"
#include "backend/cpu/cpu_runner.h"

namespace skipjack {
namespace {

std::optional<std::string> ReadFirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::int64_t> ParseInt(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// Whole CPUs of "quota microseconds in each period"; nullopt when there is no limit or the numbers make no
// sense.
std::optional<int> WholeCpus(std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<int>(std::clamp<std::int64_t>(*quota / *period, 1, std::numeric_limits<int>::max()));
}

// cpu.max holds "max 100000" or "150000 100000".
std::optional<int> QuotaV2(const std::string& folder) {
  const std::optional<std::string> line = ReadFirstLine(folder + "/cpu.max");
  if (!line) return std::nullopt;
  std::istringstream words(*line);
  std::string quota;
  std::string period;
  words >> quota >> period;
  return WholeCpus(ParseInt(quota), ParseInt(period));
}

// A quota of -1 means none.
std::optional<int> QuotaV1(const std::string& folder) {
  const std::optional<std::string> quota = ReadFirstLine(folder + "/cpu.cfs_quota_us");
  const std::optional<std::string> period = ReadFirstLine(folder + "/cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return WholeCpus(ParseInt(*quota), ParseInt(*period));
}

int AffinityCpus() {
  // The kernel refuses a mask smaller than its own, so grow it until it fits.
  for (std::size_t cpus = 1024; cpus <= (1U << 20); cpus *= 2) {
    std::vector<cpu_set_t> mask(CPU_ALLOC_SIZE(cpus) / sizeof(cpu_set_t));
    const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) == 0) return std::max(1, CPU_COUNT_S(bytes, mask.data()));
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

int ThreadsWithinQuota(const std::string& root, int affinity_cpus) {
  int limit = std::max(1, affinity_cpus);
  const CgroupFolders folders = FindCgroupFolders(root, "cpu");
  for (const std::string& folder : folders.version2) limit = std::min(limit, QuotaV2(folder).value_or(limit));
  for (const std::string& folder : folders.version1) limit = std::min(limit, QuotaV1(folder).value_or(limit));
  return limit;
}

int AvailableThreads() {
  return ThreadsWithinQuota("", AffinityCpus());
}

}  // namespace skipjack
