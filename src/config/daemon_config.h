// The daemon's configuration file as checked values. docs/configuration.md lists every key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace skipjack {

struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;  // 0: any free port (the log says which)
};

struct ServerLimits {
  std::int32_t max_queued = 1024;
  std::int64_t max_request_bytes = 8 << 20;
  std::int64_t max_pending_bytes = 256 << 20;  // of requests that arrive or wait to be read and tokenised
  std::int32_t max_n = 8;
  std::int32_t max_connections = 4096;
  std::int64_t max_stream_bytes = 4 << 20;  // unsent output of one stream beyond which it is cut
  double header_timeout_seconds = 10;
  double idle_timeout_seconds = 120;
  double request_timeout_seconds = 0;  // 0: none
};

struct ServerConfig {
  bool grpc_enabled = true;
  ListenAddress grpc{"127.0.0.1", 50051};
  bool http_enabled = true;
  ListenAddress http{"127.0.0.1", 8080};
  ServerLimits limits;
  double drain_grace_seconds = 30;
  bool insecure = false;  // required to listen beyond loopback
  // What a model that does not load means: exit serve_others
  std::string on_model_failure = "exit";
};

struct KvSettings {
  std::int32_t block_tokens = 16;
  // Bytes; 0: enough for max_sequences full contexts, at most a quarter of the machine's memory.
  std::int64_t device_memory = 0;
  std::int64_t host_memory = 0;
  std::string disk_path;
  std::int64_t disk_size = 0;
  std::string swap = "proactive";  // recompute reactive proactive
  std::string dtype = "auto";      // auto f32 f16 bf16
  bool prefix_cache = true;
};

struct SchedulerSettings {
  std::string policy = "fcfs";  // request orca fcfs mlfq index
  std::int32_t max_batch_tokens = 512;
  std::int32_t max_sequences = 32;
  double quantum_seconds = 0;  // 0: the minimum iteration time
  double starvation_bound_seconds = 3;
  double ageing_bound_seconds = 120;
  std::int32_t hysteresis_percent = 30;
  std::int32_t max_lost_percent = 2;
  std::int32_t max_interrupted_percent = 10;  // 0: steps are never interrupted
  double token_gap_target_seconds = 0;        // 0: none
  bool tenant_fairness = false;
  std::string record;  // a file; empty: none
};

struct ModelEntry {
  std::string name;
  std::string path;
  std::string backend = "auto";     // auto cpu cuda
  std::string compute = "auto";     // auto f32 bf16 int8
  std::string isa = "auto";         // auto generic avx2 avx512
  std::int32_t threads = 0;         // 0: what the cgroup allows
  std::int32_t context_length = 0;  // 0: the model's own
  std::string chat_template;        // path of a template that replaces the model's; empty: the model's own
  std::string pre_tokenizer;        // overrides tokenizer.ggml.pre; empty: the model's own
  std::string cache_dir;            // "none", or a folder; empty: `.skipjack` beside the model
  std::vector<std::string> stop;    // ends an answer as an end token does, and is no part of it
  KvSettings kv;
  SchedulerSettings scheduler;
};

struct LogConfig {
  std::string level = "info";
  std::string format = "text";  // text json
};

struct DaemonConfig {
  ServerConfig server;
  std::vector<ModelEntry> models;
  LogConfig log;
};

// Strict: an unknown or duplicate key, a wrong type, a value out of range or settings that contradict each
// other are InvalidArgument. Its message has one line for each error, which begins with `origin` and names
// the key path and the line: "f.yaml: server.http.listen (line 4): ...". Relative paths stay as they are.
Result<DaemonConfig> ParseDaemonConfig(const std::string& yaml, const std::string& origin);

// Reads the file; relative paths in it are resolved against its folder. Whether the models exist is not
// looked at.
Result<DaemonConfig> LoadDaemonConfig(const std::string& path);

}  // namespace skipjack
