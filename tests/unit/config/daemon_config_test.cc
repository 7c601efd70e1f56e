#include "config/daemon_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

namespace skipjack {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kModels = "models:\n  - name: m\n    path: m.gguf\n";

Result<DaemonConfig> Parse(const std::string& yaml) {
  return ParseDaemonConfig(yaml, "f.yaml");
}
std::string Error(const std::string& yaml) {
  return Parse(yaml).status().message();
}
// The error of a configuration whose only model has these further lines.
std::string ModelError(const std::string& lines) {
  return Error(kModels + lines);
}

TEST(DaemonConfigTest, DefaultsAreThoseOfTheStructs) {
  const auto config = Parse(kModels);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->server.grpc.port, 50051);
  EXPECT_EQ(config->server.http.host, "127.0.0.1");
  EXPECT_EQ(config->server.limits.max_queued, 1024);
  ASSERT_EQ(config->models.size(), 1u);
  EXPECT_EQ(config->models[0].name, "m");
  EXPECT_EQ(config->models[0].path, "m.gguf");
  EXPECT_EQ(config->models[0].kv.block_tokens, 16);
  EXPECT_EQ(config->log.format, "text");
}

TEST(DaemonConfigTest, EveryKeyArrives) {
  const auto config = Parse(R"(
server:
  insecure: true
  drain_grace: 1m
  on_model_failure: serve_others
  grpc: {enabled: false, listen: "[::]:1"}
  http: {enabled: true, listen: 0.0.0.0:2}
  limits:
    max_queued: 3
    max_request_bytes: 4KiB
    max_pending_bytes: 5MiB
    max_n: 5
    max_connections: 6
    max_stream_bytes: 70000
    header_timeout: 7s
    idle_timeout: 8s
    request_timeout: 500ms
models:
  - name: org/model-1.5:q4@x+y_z
    path: /a/b
    backend: cpu
    compute: bf16
    isa: avx2
    threads: 9
    context_length: 10
    chat_template: t.jinja
    pre_tokenizer: llama-bpe
    stop: ["</s>", "\n\nUser:", 'x y']
    cache_dir: /c/d
    kv:
      block_tokens: 32
      device_memory: 1GiB
      host_memory: 2GiB
      swap: reactive
      disk: {path: /d, size: 3GiB}
      dtype: f32
      prefix_cache: false
    scheduler:
      {policy: index, max_batch_tokens: 12, max_sequences: 11, quantum: 13ms, starvation_bound: 14s,
       ageing_bound: 15m, hysteresis_percent: 16, max_lost_percent: 17, token_gap_target: 18ms,
       max_interrupted_percent: 19, tenant_fairness: true}
  - {name: "2", path: b}
log: {level: debug, format: json}
)");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  const ServerConfig& server = config->server;
  EXPECT_TRUE(server.insecure);
  EXPECT_EQ(server.drain_grace_seconds, 60);
  EXPECT_EQ(server.on_model_failure, "serve_others");
  EXPECT_FALSE(server.grpc_enabled);
  EXPECT_EQ(server.grpc.host, "::");
  EXPECT_EQ(server.grpc.port, 1);
  EXPECT_TRUE(server.http_enabled);
  EXPECT_EQ(server.http.host, "0.0.0.0");
  EXPECT_EQ(server.http.port, 2);
  EXPECT_EQ(server.limits.max_queued, 3);
  EXPECT_EQ(server.limits.max_request_bytes, 4096);
  EXPECT_EQ(server.limits.max_n, 5);
  EXPECT_EQ(server.limits.max_pending_bytes, 5 << 20);
  EXPECT_EQ(server.limits.max_connections, 6);
  EXPECT_EQ(server.limits.max_stream_bytes, 70000);
  EXPECT_EQ(server.limits.header_timeout_seconds, 7);
  EXPECT_EQ(server.limits.idle_timeout_seconds, 8);
  EXPECT_EQ(server.limits.request_timeout_seconds, 0.5);
  ASSERT_EQ(config->models.size(), 2u);
  const ModelEntry& model = config->models[0];
  EXPECT_EQ(model.name, "org/model-1.5:q4@x+y_z");
  EXPECT_EQ(model.path, "/a/b");
  EXPECT_EQ(model.backend, "cpu");
  EXPECT_EQ(model.compute, "bf16");
  EXPECT_EQ(model.isa, "avx2");
  EXPECT_EQ(model.threads, 9);
  EXPECT_EQ(model.context_length, 10);
  EXPECT_EQ(model.chat_template, "t.jinja");
  EXPECT_EQ(model.pre_tokenizer, "llama-bpe");
  EXPECT_EQ(model.stop, (std::vector<std::string>{"</s>", "\n\nUser:", "x y"}));
  EXPECT_TRUE(config->models[1].stop.empty());
  EXPECT_EQ(model.kv.block_tokens, 32);
  EXPECT_EQ(model.kv.device_memory, 1ll << 30);
  EXPECT_EQ(model.kv.host_memory, 2ll << 30);
  EXPECT_EQ(model.kv.swap, "reactive");
  EXPECT_EQ(model.kv.disk_path, "/d");
  EXPECT_EQ(model.kv.disk_size, 3ll << 30);
  EXPECT_EQ(model.kv.dtype, "f32");
  EXPECT_FALSE(model.kv.prefix_cache);
  EXPECT_EQ(model.scheduler.policy, "index");
  EXPECT_EQ(model.scheduler.max_batch_tokens, 12);
  EXPECT_EQ(model.scheduler.max_sequences, 11);
  EXPECT_EQ(model.scheduler.quantum_seconds, 0.013);
  EXPECT_EQ(model.scheduler.starvation_bound_seconds, 14);
  EXPECT_EQ(model.scheduler.ageing_bound_seconds, 900);
  EXPECT_EQ(model.scheduler.hysteresis_percent, 16);
  EXPECT_EQ(model.cache_dir, "/c/d");
  EXPECT_EQ(model.scheduler.max_lost_percent, 17);
  EXPECT_EQ(model.scheduler.max_interrupted_percent, 19);
  EXPECT_EQ(model.scheduler.token_gap_target_seconds, 0.018);
  EXPECT_TRUE(model.scheduler.tenant_fairness);
  EXPECT_EQ(config->models[1].name, "2");
  EXPECT_EQ(config->log.level, "debug");
  EXPECT_EQ(config->log.format, "json");
}

TEST(DaemonConfigTest, UnknownKeysSuggestTheNearest) {
  EXPECT_EQ(Error("serve:\n  insecure: true\n" + kModels),
            "f.yaml: serve (line 1): is not a key; did you mean 'server'?");
  EXPECT_EQ(Error("server:\n  http:\n    listne: 127.0.0.1:80\n" + kModels),
            "f.yaml: server.http.listne (line 3): is not a key; did you mean 'listen'?");
  EXPECT_EQ(ModelError("    scheduler:\n      max_seqences: 4\n"),
            "f.yaml: models[0].scheduler.max_seqences (line 5): is not a key; did you mean 'max_sequences'?");
  EXPECT_THAT(ModelError("    temperature: 1\n"),
              AllOf(HasSubstr("models[0].temperature (line 4)"), HasSubstr("the keys are name, path"),
                    Not(HasSubstr("mean"))));
  EXPECT_THAT(ModelError("    \"na\\nme\": 1\n"), HasSubstr("na?me"));
}

TEST(DaemonConfigTest, ListsOfTexts) {
  EXPECT_THAT(ModelError("    stop: x\n"), HasSubstr("models[0].stop (line 4): must be a list of texts"));
  EXPECT_THAT(ModelError("    stop:\n"), HasSubstr("models[0].stop (line 4): must be a list of texts"));
  EXPECT_THAT(ModelError("    stop: [a, [b]]\n"), HasSubstr("models[0].stop[1] (line 4): must be a text"));
  EXPECT_THAT(ModelError("    stop: [a, 1]\n"), HasSubstr("put '1' in quotes"));
  EXPECT_THAT(ModelError("    stop: [\"\"]\n"),
              HasSubstr("models[0].stop[0] (line 4): must have 1 to 256 bytes, got 0"));
  EXPECT_THAT(ModelError("    stop: [" + std::string(257, 'x') + "]\n"), HasSubstr("got 257"));
  EXPECT_THAT(ModelError("    stop: [a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r]\n"),
              HasSubstr("has 17 entries, over the limit of 16"));
}

TEST(DaemonConfigTest, DuplicateKeys) {
  EXPECT_THAT(ModelError("    path: other\n"),
              AllOf(HasSubstr("models[0].path (line 4)"), HasSubstr("first in line 3")));
  EXPECT_THAT(Error("log: {level: info}\n" + kModels + "log: {level: warn}\n"), HasSubstr("log (line 5)"));
}

TEST(DaemonConfigTest, WrongTypes) {
  EXPECT_THAT(ModelError("    threads: two\n"),
              HasSubstr("models[0].threads (line 4): must be an integer, got 'two'"));
  for (const char* value :
       {"\"2\"", "2.0", "2e1", "0x2", "1_000", "[2]", "{a: 2}", "", "~", "true", "2 threads"}) {
    EXPECT_THAT(ModelError(std::string("    threads: ") + value + "\n"),
                HasSubstr("threads (line 4): must be an integer"))
        << value;
  }
  for (const char* value : {"yes", "on", "True", "1", "\"true\"", "[true]", ""}) {
    EXPECT_THAT(Error(std::string("server:\n  insecure: ") + value + "\n" + kModels),
                HasSubstr("server.insecure (line 2): must be true or false"))
        << value;
  }
  for (const char* value : {"lots", "4GB", "-1", "1.5", "[1]", ""}) {
    EXPECT_THAT(ModelError(std::string("    kv:\n      device_memory: ") + value + "\n"),
                HasSubstr("models[0].kv.device_memory (line 5): must be a size"))
        << value;
  }
  for (const char* value : {"30", "fast", "-1s", "{}", ""}) {
    EXPECT_THAT(Error(std::string("server:\n  drain_grace: ") + value + "\n" + kModels),
                HasSubstr("server.drain_grace (line 2): must be a duration"))
        << value;
  }
  for (const char* value : {"123", "1.5", "true", "null"}) {
    EXPECT_THAT(ModelError(std::string("    pre_tokenizer: ") + value + "\n"),
                HasSubstr("models[0].pre_tokenizer (line 4): must be"));
  }
  EXPECT_THAT(ModelError("    chat_template: \"a\\nb\"\n"), HasSubstr("control characters"));
  EXPECT_THAT(ModelError("    chat_template: " + std::string(5000, 'x') + "\n"), HasSubstr("5000 bytes"));
  EXPECT_THAT(ModelError("    kv: 16\n"),
              HasSubstr("models[0].kv (line 4): must be a mapping (key: value), got '16'"));
  EXPECT_THAT(ModelError("    kv: [16]\n"), HasSubstr("must be a mapping (key: value), got a list"));
  EXPECT_THAT(Error("server:\n  http:\n    listen: [::1]:80\n" + kModels), HasSubstr("line 3"));
  EXPECT_THAT(Error("- a\n- b\n"), HasSubstr("must be a mapping"));
  EXPECT_THAT(Error("just words"), HasSubstr("must be a mapping"));
}

TEST(DaemonConfigTest, OutOfRange) {
  EXPECT_EQ(ModelError("    threads: -1\n"),
            "f.yaml: models[0].threads (line 4): must be 0 to 1024, got '-1'");
  EXPECT_THAT(ModelError("    threads: 1025\n"), HasSubstr("0 to 1024"));
  EXPECT_THAT(ModelError("    threads: 99999999999999999999999\n"), HasSubstr("must be 0 to 1024"));
  EXPECT_THAT(ModelError("    threads: 4294967297\n"), HasSubstr("must be 0 to 1024"));
  EXPECT_THAT(ModelError("    kv: {block_tokens: 24}\n"),
              HasSubstr("must be a multiple of 16, 16 to 4096, got '24'"));
  EXPECT_THAT(ModelError("    kv: {block_tokens: 0}\n"), HasSubstr("multiple of 16"));
  EXPECT_THAT(ModelError("    kv: {device_memory: 65TiB}\n"), HasSubstr("must be 0 to 64TiB, got '65TiB'"));
  EXPECT_THAT(ModelError("    scheduler: {max_sequences: 0}\n"), HasSubstr("must be 1 to 65536"));
  EXPECT_THAT(ModelError("    compute: int4\n"),
              HasSubstr("must be one of auto, f32, bf16, int8, got 'int4'"));
  EXPECT_THAT(ModelError("    scheduler: {policy: lottery}\n"),
              HasSubstr("must be one of request, orca, fcfs, mlfq, index, got 'lottery'"));
  EXPECT_THAT(Error("server: {limits: {max_request_bytes: 1}}\n" + kModels),
              HasSubstr("must be 1KiB to 1GiB, got '1'"));
  EXPECT_THAT(Error("server: {limits: {idle_timeout: 2000h}}\n" + kModels), HasSubstr("must be 1s to 24h"));
}

TEST(DaemonConfigTest, ABatchMustHaveATokenForEverySequence) {
  EXPECT_EQ(
      ModelError("    scheduler:\n      max_sequences: 12\n      max_batch_tokens: 11\n"),
      "f.yaml: models[0].scheduler.max_batch_tokens (line 6): is 11, less than max_sequences, 12: every "
      "running sequence needs a token in each step; raise the one or lower the other");
  // Against the default of the other.
  EXPECT_THAT(ModelError("    scheduler: {max_sequences: 513}\n"),
              AllOf(HasSubstr("models[0].scheduler.max_batch_tokens (line 4): is 512"), HasSubstr("513")));
  EXPECT_THAT(ModelError("    scheduler: {max_batch_tokens: 31}\n"), HasSubstr("max_sequences, 32"));
  EXPECT_TRUE(Parse(kModels + "    scheduler: {max_batch_tokens: 32}\n").ok());
}

TEST(DaemonConfigTest, BlockTablesMustBeAddressable) {
  const std::string scheduler = "    scheduler: {max_sequences: 65536, max_batch_tokens: 65536}\n";
  EXPECT_THAT(ModelError("    context_length: 16777216\n" + scheduler),
              AllOf(HasSubstr("models[0].context_length (line 4): 16777216 tokens"), HasSubstr("65536"),
                    HasSubstr("68719476736 block table entries")));
  EXPECT_TRUE(Parse(kModels + "    context_length: 16777216\n").ok());
  EXPECT_TRUE(Parse(kModels + "    context_length: 131072\n" + scheduler).ok());
}

TEST(DaemonConfigTest, ModelsAreRequired) {
  EXPECT_EQ(Error("log: {level: info}\n"), "f.yaml: models (line 1): is required");
  EXPECT_EQ(Error(""), "f.yaml: models: is required");
  for (const char* yaml : {"models:\n", "models: []\n"}) {
    EXPECT_EQ(Error(yaml), "f.yaml: models (line 1): must have at least one entry");
  }
  EXPECT_THAT(Error("models: {name: m, path: p}\n"), HasSubstr("must be a list (- ...), got a mapping"));
  EXPECT_THAT(Error("models: m.gguf\n"), HasSubstr("must be a list"));
  EXPECT_THAT(Error("models:\n  - name: a\n  -\n"), AllOf(HasSubstr("models[0].path (line 2): is required"),
                                                          HasSubstr("models[1].name: is required")));
  EXPECT_THAT(Error("models: [{name: \"\", path: p}]\n"),
              HasSubstr("models[0].name (line 1): must not be empty"));
  EXPECT_THAT(Error("models: [{name: a, path: \"\"}]\n"),
              HasSubstr("models[0].path (line 1): must not be empty"));
  std::string many = "models:\n";
  for (int i = 0; i < 65; ++i) many += "  - {name: m" + std::to_string(i) + ", path: p}\n";
  EXPECT_THAT(Error(many), HasSubstr("65 entries, over the limit of 64"));
}

TEST(DaemonConfigTest, ModelNames) {
  EXPECT_THAT(Error("models:\n  - {name: a, path: p}\n  - {name: b, path: p}\n  - {name: a, path: q}\n"),
              HasSubstr("models[2].name (line 4): 'a' names an earlier model too"));
  for (const char* name : {"a b", "a\\\\b", "größe", "a,b", "a'b"}) {
    EXPECT_THAT(Error(std::string("models: [{name: \"") + name + "\", path: p}]\n"),
                HasSubstr("models[0].name"))
        << name;
  }
  EXPECT_THAT(Error("models: [{name: " + std::string(129, 'a') + ", path: p}]\n"), HasSubstr("1 to 128"));
  EXPECT_TRUE(Parse("models: [{name: " + std::string(128, 'a') + ", path: p}]\n").ok());
  EXPECT_THAT(Error("models: [{name: 7, path: p}]\n"), HasSubstr("in quotes"));
}

TEST(DaemonConfigTest, ListeningBeyondThisMachineMustBeMeant) {
  for (const char* address : {"0.0.0.0:80", "\"[::]:80\"", "10.1.2.3:80", "example.com:80"}) {
    const std::string http = std::string("  http: {listen: ") + address + "}\n" + kModels;
    EXPECT_THAT(Error("server:\n" + http),
                AllOf(HasSubstr("server.http.listen (line 2)"), HasSubstr("server.insecure: true")));
    EXPECT_TRUE(Parse("server:\n  insecure: true\n" + http).ok()) << address;
  }
  EXPECT_THAT(Error("server: {grpc: {listen: 0.0.0.0:80}}\n" + kModels), HasSubstr("server.grpc.listen"));
  EXPECT_TRUE(Parse("server: {grpc: {enabled: false, listen: 0.0.0.0:80}}\n" + kModels).ok());
  EXPECT_TRUE(Parse("server: {http: {listen: \"[::1]:80\"}}\n" + kModels).ok());
  EXPECT_THAT(Error("server: {http: {listen: 8080}}\n" + kModels), HasSubstr("server.http.listen"));
  EXPECT_THAT(Error("server: {http: {listen: nonsense}}\n" + kModels),
              HasSubstr("'nonsense' is not an address like"));
}

TEST(DaemonConfigTest, PortsMustDiffer) {
  EXPECT_THAT(Error("server:\n  grpc: {listen: 127.0.0.1:80}\n  http: {listen: 127.0.0.1:80}\n" + kModels),
              AllOf(HasSubstr("server.http.listen (line 3)"), HasSubstr("taken by server.grpc.listen")));
  EXPECT_THAT(Error("server:\n  http: {listen: 127.0.0.1:50051}\n" + kModels),
              HasSubstr("taken by"));  // the default
  EXPECT_TRUE(Parse("server:\n  grpc: {enabled: false}\n  http: {listen: 127.0.0.1:50051}\n" + kModels).ok());
  EXPECT_TRUE(
      Parse("server:\n  grpc: {listen: 127.0.0.1:0}\n  http: {listen: 127.0.0.1:0}\n" + kModels).ok());
  EXPECT_THAT(Error("server:\n  grpc: {enabled: false}\n  http: {enabled: false}\n" + kModels),
              HasSubstr("server (line 2): grpc and http are both disabled"));
}

TEST(DaemonConfigTest, OneRequestMustFitIntoWhatAllMayHold) {
  EXPECT_THAT(Error("server:\n  limits: {max_request_bytes: 2MiB, max_pending_bytes: 1MiB}\n" + kModels),
              AllOf(HasSubstr("server.limits.max_pending_bytes (line 2)"), HasSubstr("1048576"),
                    HasSubstr("2097152")));
  EXPECT_TRUE(
      Parse("server:\n  limits: {max_request_bytes: 2MiB, max_pending_bytes: 2MiB}\n" + kModels).ok());
  EXPECT_THAT(Error("server:\n  limits: {max_request_bytes: 1GiB}\n" + kModels),
              HasSubstr("max_pending_bytes"));
}

TEST(DaemonConfigTest, DiskNeedsPathAndSize) {
  EXPECT_THAT(ModelError("    kv: {disk: {path: d}}\n"), HasSubstr("models[0].kv.disk.size"));
  EXPECT_THAT(ModelError("    kv: {disk: {size: 1GiB}}\n"), HasSubstr("models[0].kv.disk.path"));
  EXPECT_TRUE(Parse(kModels + "    kv: {disk: {path: \"\", size: 0}}\n").ok());
}

TEST(DaemonConfigTest, ReactiveSwappingNeedsHostMemoryBesideADisk) {
  const std::string disk = "    kv: {swap: reactive, disk: {path: d, size: 1GiB}";
  EXPECT_THAT(ModelError(disk + "}\n"), HasSubstr("models[0].kv.swap"));
  EXPECT_TRUE(Parse(kModels + disk + ", host_memory: 1GiB}\n").ok());
}

TEST(DaemonConfigTest, AllErrorsAreReportedTogetherUpToALimit) {
  const std::string error =
      Error("servr: {}\nlog: {level: loud}\nmodels:\n  - {name: a, path: p, threads: x}\n");
  EXPECT_THAT(error, AllOf(HasSubstr("servr (line 1)"), HasSubstr("log.level (line 2)"),
                           HasSubstr("models[0].threads (line 4)")));
  std::string many = kModels;
  for (int i = 0; i < 1000; ++i) many += "k" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(Error(many), HasSubstr("and 980 more errors"));
  EXPECT_EQ(Parse(many).status().code(), StatusCode::kInvalidArgument);
}

TEST(DaemonConfigTest, EmptySectionsAreDefaults) {
  EXPECT_TRUE(Parse("server:\n  limits:\nlog:\n" + kModels + "    kv:\n    scheduler:\n").ok());
}

class ConfigFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "skipjack-config-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(ConfigFileTest, PathsAreMeantFromTheFilesFolder) {
  std::filesystem::create_directory(folder_ / "etc");
  const std::filesystem::path path = folder_ / "etc" / "c.yaml";
  std::ofstream(path)
      << "models:\n  - {name: a, path: ../models/a.gguf, chat_template: t.jinja,"
         " cache_dir: cache}\n"
         "  - {name: b, path: /abs/b.gguf, kv: {disk: {path: spill, size: 1GiB}}, cache_dir: none}\n";
  const auto config = LoadDaemonConfig(path.string());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->models[0].path, (folder_ / "models/a.gguf").string());
  EXPECT_EQ(config->models[0].chat_template, (folder_ / "etc/t.jinja").string());
  EXPECT_EQ(config->models[0].cache_dir, (folder_ / "etc/cache").string());
  EXPECT_EQ(config->models[1].path, "/abs/b.gguf");
  EXPECT_EQ(config->models[1].cache_dir, "none");  // a word, not a folder
  EXPECT_EQ(config->models[1].chat_template, "");
  EXPECT_EQ(config->models[1].kv.disk_path, (folder_ / "etc/spill").string());
}

TEST_F(ConfigFileTest, WhatCannotBeReadIsNamed) {
  EXPECT_EQ(LoadDaemonConfig("/nowhere/c.yaml").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(LoadDaemonConfig(folder_.string()).status().message(), HasSubstr("not a regular file"));
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(LoadDaemonConfig(pipe).status().message(), HasSubstr("not a regular file"));
  const std::string big = (folder_ / "big.yaml").string();
  std::ofstream(big) << std::string(2 << 20, '#');
  EXPECT_THAT(LoadDaemonConfig(big).status().message(), AllOf(HasSubstr(big), HasSubstr("over the limit")));
}

// Damaged files end in an error or in a configuration, never in anything else. Run under AddressSanitizer
// too.
TEST(DaemonConfigTest, DamagedFiles) {
  std::ifstream file(SKIPJACK_FIXTURES "/../../configs/full.yaml");
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_TRUE(Parse(whole).ok()) << Error(whole);
  constexpr std::array<const char*, 16> kPieces{"\n",  "  ", "- ", ": ", "[", "]",    "{",     "}",
                                                "&a ", "*a", "!",  "\"", "'", "\xff", "---\n", "? "};
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    const unsigned damages = 1 + static_cast<unsigned>(random() % 4);
    for (unsigned d = 0; d < damages; ++d) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 40);
          break;
        case 2:
          text.insert(at, kPieces[random() % kPieces.size()]);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 200));
          break;
      }
    }
    const auto config = Parse(text);
    if (config.ok()) {
      EXPECT_FALSE(config->models.empty());
    } else {
      EXPECT_TRUE(config.status().message().starts_with("f.yaml: ")) << config.status().message();
    }
  }
}

}  // namespace
}  // namespace skipjack
