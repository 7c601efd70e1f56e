#include "registry/latency_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace skipjack {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "skipjack step times";
constexpr int kVersion = 1;
constexpr std::int64_t kMaxBytes = 64 << 10;
// No step, and no part of one, takes longer.
constexpr double kMostSeconds = 3600;

struct Term {
  const char* name;
  double LatencyCoefficients::*value;
};
constexpr Term kTerms[] = {{"step", &LatencyCoefficients::step},
                           {"decoder", &LatencyCoefficients::decoder},
                           {"context", &LatencyCoefficients::context},
                           {"prompt_token", &LatencyCoefficients::prompt_token},
                           {"prompt_pair", &LatencyCoefficients::prompt_pair}};

// Closes when it goes.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }

 private:
  const int fd_;
};

std::string MachineName() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t at = line.find(": ");
    return at == std::string::npos ? std::string() : line.substr(at + 2);
  }
  return {};
}

// FNV-1a, which is the same everywhere.
std::uint64_t HashOf(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Json ToJson(const LatencyKey& key) {
  Json model = Json::array();
  for (const LatencyKey::File& file : key.model) {
    model.push_back({{"name", file.name}, {"bytes", file.bytes}, {"modified_ns", file.modified_ns}});
  }
  return {{"model", std::move(model)}, {"runner", key.runner}, {"machine", key.machine}};
}

// NotFound, or DataLoss for what is no small file.
Result<std::string> ReadSmallFile(const std::string& path) {
  // Opening must not wait, whatever lies there (a pipe, say).
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Status::NotFound("there is none");
    return Status::DataLoss(fmt::format("it cannot be opened: {}", std::strerror(errno)));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return Status::DataLoss("it is no regular file");
  if (status.st_size > kMaxBytes) {
    return Status::DataLoss(fmt::format("it has {} bytes, at most {} are read", status.st_size, kMaxBytes));
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Status::DataLoss("it cannot be read to its end");
    done += static_cast<std::size_t>(count);
  }
  return text;
}

// nullopt unless all five are there, none negative or out of range, and not all 0.
std::optional<LatencyCoefficients> ParseSeconds(const Json& json) {
  const auto seconds = json.find("seconds");
  if (seconds == json.end() || !seconds->is_object()) return std::nullopt;
  LatencyCoefficients coefficients;
  for (const Term& term : kTerms) {
    const auto it = seconds->find(term.name);
    if (it == seconds->end() || !it->is_number()) return std::nullopt;
    const auto value = it->get<double>();
    if (!(value >= 0 && value <= kMostSeconds)) return std::nullopt;
    coefficients.*term.value = value;
  }
  if (coefficients == LatencyCoefficients{}) return std::nullopt;
  return coefficients;
}

Status Failed(const std::string& what, const std::string& path) {
  return Status::Unavailable(fmt::format("{} {}: {}", what, path, std::strerror(errno)));
}

Status WriteAll(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Failed("cannot write", path);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  // Before the name points to it, so that no crash leaves an empty file under that name.
  return ::fsync(fd) == 0 ? Status() : Failed("cannot write", path);
}

// `path` ends in XXXXXX, which become what no other file has.
Status WriteNewFile(std::string* path, std::string_view text) {
  const Descriptor file(::mkostemp(path->data(), O_CLOEXEC));
  if (file.get() < 0) return Failed("cannot make", *path);
  Status status = WriteAll(file.get(), text, *path);
  if (status.ok() && ::fchmod(file.get(), 0644) != 0) status = Failed("cannot share", *path);
  if (!status.ok()) ::unlink(path->c_str());
  return status;
}

// Names of files may be any bytes; what is no UTF-8 is replaced, here and wherever it is compared.
std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

Result<LatencyKey> MakeLatencyKey(const std::vector<std::string>& model_paths, std::string runner) {
  LatencyKey key;
  for (const std::string& path : model_paths) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
      return Status::NotFound(fmt::format("{}: {}", path, std::strerror(errno)));
    constexpr std::int64_t kNanoseconds = 1'000'000'000;
    key.model.push_back({.name = std::filesystem::path(path).filename().string(),
                         .bytes = status.st_size,
                         .modified_ns = status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec});
  }
  key.runner = std::move(runner);
  key.machine = MachineName();
  return key;
}

std::string CacheFolder(const std::string& configured, const std::string& model_path) {
  if (configured == "none") return {};
  if (!configured.empty()) return configured;
  return (std::filesystem::path(model_path).parent_path() / ".skipjack").string();
}

std::string LatencyCachePath(const std::string& folder, const LatencyKey& key) {
  const std::string name = key.model.empty() ? std::string("model") : key.model.front().name;
  const std::uint64_t hash = HashOf(key.runner + '\n' + key.machine);
  return (std::filesystem::path(folder) / fmt::format("{}.{:016x}.steps.json", name, hash)).string();
}

Result<LatencyCoefficients> ReadLatencyCache(const std::string& path, const LatencyKey& key) {
  const Result<std::string> text = ReadSmallFile(path);
  if (!text.ok()) return text.status();
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Status::DataLoss("it is damaged: no JSON object");
  const auto is = [&](const char* name, const Json& value) {
    const auto it = json.find(name);
    return it != json.end() && *it == value;
  };
  if (!is("format", kFormat)) return Status::DataLoss("it is damaged: no file of step times");
  if (!is("version", kVersion)) return Status::FailedPrecondition("it has another version");
  const auto holds_for = json.find("for");
  if (holds_for == json.end() || !holds_for->is_object())
    return Status::DataLoss("it is damaged: it does not say what it holds for");
  const Json wanted = Json::parse(Dump(ToJson(key)));
  for (const char* part : {"model", "runner", "machine"}) {
    if (!holds_for->contains(part) || (*holds_for)[part] != wanted[part])
      return Status::FailedPrecondition(fmt::format("it holds for another {}", part));
  }
  const std::optional<LatencyCoefficients> coefficients = ParseSeconds(json);
  if (!coefficients) return Status::DataLoss("it is damaged: its seconds are missing or out of range");
  return *coefficients;
}

Status WriteLatencyCache(const std::string& path, const LatencyKey& key,
                         const LatencyCoefficients& coefficients) {
  Json seconds = Json::object();
  for (const Term& term : kTerms) seconds[term.name] = coefficients.*term.value;
  const Json json = {{"format", kFormat}, {"version", kVersion}, {"for", ToJson(key)}, {"seconds", seconds}};

  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error)
    return Status::Unavailable(fmt::format("cannot make the folder of {}: {}", path, error.message()));
  std::string draft = path + ".XXXXXX";
  if (Status status = WriteNewFile(&draft, Dump(json)); !status.ok()) return status;
  if (::rename(draft.c_str(), path.c_str()) == 0) return {};
  const Status status = Failed("cannot replace", path);
  ::unlink(draft.c_str());
  return status;
}

LatencyMemory::LatencyMemory(std::string model, std::string path, LatencyKey key)
    : model_(std::move(model)), path_(std::move(path)), key_(std::move(key)) {}

LatencyCoefficients LatencyMemory::Recall() {
  std::lock_guard guard(mutex_);
  const Result<LatencyCoefficients> read = ReadLatencyCache(path_, key_);
  if (read.ok()) {
    saved_ = *read;
    spdlog::debug("model '{}': starts with the step times of {}", model_, path_);
    return saved_;
  }
  if (read.status().code() != StatusCode::kNotFound) {
    spdlog::warn("model '{}': the step times in {} are not used, {}", model_, path_, read.status().message());
  }
  return {};
}

void LatencyMemory::Keep(const LatencyCoefficients& learnt) {
  std::lock_guard guard(mutex_);
  if (learnt == LatencyCoefficients{} || learnt == saved_) return;
  const Status status = WriteLatencyCache(path_, key_, learnt);
  if (status.ok()) {
    saved_ = learnt;
  } else if (!std::exchange(complained_, true)) {
    spdlog::warn("model '{}': what steps take is not kept for the next start: {}", model_, status.message());
  }
}

}  // namespace skipjack
