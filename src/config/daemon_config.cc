#include "config/daemon_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>

#include "config/config_schema.h"
#include "config/config_section.h"
#include "config/listen_address.h"
#include "config/message_text.h"
#include "config/yaml_tree.h"

namespace skipjack {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kGiB = kKiB * kKiB * kKiB;
constexpr std::int64_t kMaxMemory = 64 * kKiB * kGiB;
constexpr double kDay = 24 * 3600;

void ReadLimits(ConfigSection section, ServerLimits* limits) {
  section.Integer("max_queued", 1, 1'000'000, &limits->max_queued);
  section.Bytes("max_request_bytes", kKiB, kGiB, &limits->max_request_bytes);
  section.Bytes("max_pending_bytes", kKiB, 64 * kGiB, &limits->max_pending_bytes);
  if (limits->max_pending_bytes < limits->max_request_bytes) {
    section.Error("max_pending_bytes", "is " + std::to_string(limits->max_pending_bytes) +
                                           " and must not be less than max_request_bytes, " +
                                           std::to_string(limits->max_request_bytes));
  }
  section.Integer("max_n", 1, 1024, &limits->max_n);
  section.Integer("max_connections", 1, 1'000'000, &limits->max_connections);
  section.Bytes("max_stream_bytes", 64 * kKiB, kGiB, &limits->max_stream_bytes);
  section.Seconds("header_timeout", 0.1, 3600, &limits->header_timeout_seconds);
  section.Seconds("idle_timeout", 1, kDay, &limits->idle_timeout_seconds);
  section.Seconds("request_timeout", 0, kDay, &limits->request_timeout_seconds);
  section.Finish();
}

// Listening beyond this machine hands the models to everybody who can reach the port.
void CheckReach(ConfigSection* section, bool enabled, const ListenAddress& address, bool insecure) {
  if (!enabled || insecure || IsLoopback(address)) return;
  section->Error("listen",
                 "'" + FormatListenAddress(address) +
                     "' is reachable from other machines, without encryption or authentication; set "
                     "server.insecure: true to allow that");
}

void ReadServer(ConfigSection section, ServerConfig* server) {
  section.Flag("insecure", &server->insecure);
  section.Seconds("drain_grace", 0, 3600, &server->drain_grace_seconds);
  section.Choice("on_model_failure", {"exit", "serve_others"}, &server->on_model_failure);
  ConfigSection grpc = section.Section("grpc");
  grpc.Flag("enabled", &server->grpc_enabled);
  grpc.Listen("listen", &server->grpc);
  grpc.Finish();
  ConfigSection http = section.Section("http");
  http.Flag("enabled", &server->http_enabled);
  http.Listen("listen", &server->http);
  http.Finish();
  ReadLimits(section.Section("limits"), &server->limits);
  section.Finish();

  CheckReach(&grpc, server->grpc_enabled, server->grpc, server->insecure);
  CheckReach(&http, server->http_enabled, server->http, server->insecure);
  if (!server->grpc_enabled && !server->http_enabled) {
    section.Error("grpc and http are both disabled, so nobody could reach the models");
  }
  if (server->grpc_enabled && server->http_enabled && Collide(server->grpc, server->http)) {
    http.Error("listen", "'" + FormatListenAddress(server->http) + "' is taken by server.grpc.listen, '" +
                             FormatListenAddress(server->grpc) + "'");
  }
}

void ReadKv(ConfigSection section, KvSettings* kv) {
  section.Multiple("block_tokens", 16, 16, 4096, &kv->block_tokens);
  section.Bytes("device_memory", 0, kMaxMemory, &kv->device_memory);
  section.Bytes("host_memory", 0, kMaxMemory, &kv->host_memory);
  section.Choice("swap", {"recompute", "reactive", "proactive"}, &kv->swap);
  section.Choice("dtype", {"auto", "f32", "f16", "bf16"}, &kv->dtype);
  section.Flag("prefix_cache", &kv->prefix_cache);
  ConfigSection disk = section.Section("disk");
  disk.Text("path", "a folder; empty: none", &kv->disk_path);
  disk.Bytes("size", 0, kMaxMemory, &kv->disk_size);
  disk.Finish();
  if (kv->disk_path.empty() != (kv->disk_size == 0)) {
    disk.Error(kv->disk_path.empty() ? "path" : "size", "path and size must both be given, or neither");
  }
  if (kv->swap == "reactive" && kv->disk_size > 0 && kv->host_memory == 0) {
    section.Error("swap", "reactive needs host_memory: no step waits for a disk to be written");
  }
  section.Finish();
}

void ReadScheduler(ConfigSection section, SchedulerSettings* scheduler) {
  section.Choice("policy", {"request", "orca", "fcfs", "mlfq", "index"}, &scheduler->policy);
  section.Integer("max_batch_tokens", 1, 1 << 20, &scheduler->max_batch_tokens);
  section.Integer("max_sequences", 1, 65536, &scheduler->max_sequences);
  section.Seconds("quantum", 0, 60, &scheduler->quantum_seconds);
  section.Seconds("starvation_bound", 0, kDay, &scheduler->starvation_bound_seconds);
  section.Seconds("ageing_bound", 0, kDay, &scheduler->ageing_bound_seconds);
  section.Integer("hysteresis_percent", 0, 1000, &scheduler->hysteresis_percent);
  section.Integer("max_lost_percent", 0, 100, &scheduler->max_lost_percent);
  section.Integer("max_interrupted_percent", 0, 100, &scheduler->max_interrupted_percent);
  section.Seconds("token_gap_target", 0, 60, &scheduler->token_gap_target_seconds);
  section.Flag("tenant_fairness", &scheduler->tenant_fairness);
  section.Text("record", "a file; empty: none", &scheduler->record);
  section.Finish();
  if (scheduler->max_batch_tokens < scheduler->max_sequences) {
    section.Error(
        "max_batch_tokens",
        fmt::format("is {}, less than max_sequences, {}: every running sequence needs a token in each "
                    "step; raise the one or lower the other",
                    scheduler->max_batch_tokens, scheduler->max_sequences));
  }
}

// What would be found out only when the model's weights are there.
void CheckContext(ConfigSection* section, const ModelEntry& model) {
  if (model.context_length == 0) return;
  const std::int64_t blocks =
      (std::int64_t{model.context_length} + model.kv.block_tokens - 1) / model.kv.block_tokens;
  const std::int64_t entries = blocks * model.scheduler.max_sequences;
  constexpr std::int64_t kMostEntries = std::numeric_limits<std::int32_t>::max();
  if (entries <= kMostEntries) return;
  section->Error(
      "context_length",
      fmt::format("{} tokens for each of scheduler.max_sequences = {} make {} block table entries; "
                  "at most {} are possible",
                  model.context_length, model.scheduler.max_sequences, entries, kMostEntries));
}

bool IsModelName(std::string_view name) {
  constexpr std::string_view kAlso = "._-/:@+";
  return name.size() <= 128 && std::all_of(name.begin(), name.end(), [&](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  kAlso.find(c) != std::string_view::npos;
         });
}

void ReadModel(ConfigSection& section, ModelEntry* model) {
  constexpr std::size_t kMaxEndStrings = 16;
  constexpr std::size_t kMaxEndStringBytes = 256;
  section.RequiredText("name", "1 to 128 of A-Z a-z 0-9 . _ - / : @ +", &model->name);
  section.RequiredText("path", "a .gguf file, a part of a split set, or a folder with one model",
                       &model->path);
  section.Choice("backend", {"auto", "cpu", "cuda"}, &model->backend);
  section.Choice("compute", {"auto", "f32", "bf16", "int8"}, &model->compute);
  section.Choice("isa", {"auto", "generic", "avx2", "avx512"}, &model->isa);
  section.Integer("threads", 0, 1024, &model->threads);
  section.Integer("context_length", 0, 1 << 24, &model->context_length);
  section.Text("chat_template", "a file; empty: the model's own", &model->chat_template);
  section.Text("pre_tokenizer", "a name; empty: the model's own", &model->pre_tokenizer);
  section.Text("cache_dir", "a folder, or none; empty: .skipjack beside the model", &model->cache_dir);
  section.TextList("stop", kMaxEndStrings, kMaxEndStringBytes, &model->stop);
  ReadKv(section.Section("kv"), &model->kv);
  ReadScheduler(section.Section("scheduler"), &model->scheduler);
  section.Finish();
  CheckContext(&section, *model);
  if (!IsModelName(model->name)) {
    section.Error("name", Shown(model->name) + " must be 1 to 128 of A-Z a-z 0-9 . _ - / : @ +");
  }
}

void ReadModels(ConfigSection* root, std::vector<ModelEntry>* models) {
  constexpr std::size_t kMaxModels = 64;
  std::set<std::string> names;
  root->RequiredList("models", kMaxModels, [&](ConfigSection& section) {
    ModelEntry model;
    ReadModel(section, &model);
    if (!model.name.empty() && !names.insert(model.name).second) {
      section.Error("name", Shown(model.name) + " names an earlier model too");
    }
    models->push_back(std::move(model));
  });
}

void ReadLog(ConfigSection section, LogConfig* log) {
  section.Choice("level", {"trace", "debug", "info", "warn", "error"}, &log->level);
  section.Choice("format", {"text", "json"}, &log->format);
  section.Finish();
}

void ReadDaemon(ConfigSection root, DaemonConfig* config) {
  ReadServer(root.Section("server"), &config->server);
  ReadModels(&root, &config->models);
  ReadLog(root.Section("log"), &config->log);
  root.Finish();
}

Result<std::string> ReadConfigFile(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return Status::NotFound(path + ": no such file");
  if (!std::filesystem::is_regular_file(status))
    return Status::InvalidArgument(path + ": not a regular file");
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxYamlBytes + 1, '\0');  // one more than is allowed, for ParseYaml to refuse
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open())
    return Status::InvalidArgument(path + ": cannot be read: " + std::strerror(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// Paths in the file are meant from where the file lies, wherever the daemon is started.
void ResolveAgainst(const std::filesystem::path& folder, std::string* path) {
  if (!path->empty()) *path = (folder / *path).lexically_normal().string();
}

}  // namespace

std::vector<ConfigKey> DaemonConfigKeys() {
  ConfigReport report = ConfigReport::ForSchema();
  DaemonConfig config;
  ReadDaemon(ConfigSection(&report, nullptr, ""), &config);
  return report.keys();
}

Result<DaemonConfig> ParseDaemonConfig(const std::string& yaml, const std::string& origin) {
  const Result<YamlNode> root = ParseYaml(yaml, origin);
  if (!root.ok()) return root.status();
  ConfigReport report(origin);
  DaemonConfig config;
  ReadDaemon(ConfigSection(&report, &*root, ""), &config);
  if (Status status = report.status(); !status.ok()) return status;
  return config;
}

Result<DaemonConfig> LoadDaemonConfig(const std::string& path) {
  const Result<std::string> text = ReadConfigFile(path);
  if (!text.ok()) return text.status();
  Result<DaemonConfig> config = ParseDaemonConfig(*text, path);
  if (!config.ok()) return config.status();
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(path, error).parent_path();
  for (ModelEntry& model : config->models) {
    ResolveAgainst(folder, &model.path);
    ResolveAgainst(folder, &model.chat_template);
    ResolveAgainst(folder, &model.kv.disk_path);
    ResolveAgainst(folder, &model.scheduler.record);
    if (model.cache_dir != "none") ResolveAgainst(folder, &model.cache_dir);
  }
  return config;
}

}  // namespace skipjack
