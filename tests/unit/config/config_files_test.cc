// The files in configs/ and the page that documents them say what the program reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "config/config_schema.h"
#include "config/daemon_config.h"
#include "config/yaml_tree.h"

namespace skipjack {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kRoot = fs::path(SKIPJACK_FIXTURES) / "../..";

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every leaf below `node` with its text; list entries are "[]", and so is the text of an empty list.
void Flatten(const YamlNode& node, const std::string& path,
             std::vector<std::pair<std::string, std::string>>* out) {
  if (node.kind == YamlNode::Kind::kScalar) out->emplace_back(path, node.text);
  if (node.kind == YamlNode::Kind::kSequence && node.items.empty()) out->emplace_back(path, "[]");
  for (const YamlNode& item : node.items) Flatten(item, path + "[]", out);
  for (const YamlEntry& entry : node.entries) {
    Flatten(entry.value, path.empty() ? entry.key : path + "." + entry.key, out);
  }
}

TEST(ConfigFilesTest, EveryFileIsAccepted) {
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const auto config = LoadDaemonConfig(entry.path().string());
    EXPECT_TRUE(config.ok()) << config.status().ToString();
  }
  EXPECT_GE(files, 3);
}

TEST(ConfigFilesTest, QuickstartIsWhatTheReadmeSays) {
  const auto config = LoadDaemonConfig((kRoot / "configs/quickstart.yaml").string());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  ASSERT_EQ(config->models.size(), 1u);
  EXPECT_EQ(config->models[0].name, "smollm2-135m");
  EXPECT_EQ(config->models[0].path,
            fs::absolute(kRoot / "models/SmolLM2-135M-Instruct.Q4_1.gguf").lexically_normal().string());
  EXPECT_EQ(config->server.grpc.host, "127.0.0.1");
  EXPECT_EQ(config->server.grpc.port, 50051);
  EXPECT_EQ(config->server.http.host, "127.0.0.1");
  EXPECT_EQ(config->server.http.port, 8080);
}

TEST(ConfigFilesTest, TheSchemaListsEveryKeyOnce) {
  std::set<std::string> paths;
  for (const ConfigKey& key : DaemonConfigKeys()) EXPECT_TRUE(paths.insert(key.path).second) << key.path;
  for (const char* path : {"server.grpc.listen", "server.limits.max_n", "models[].name",
                           "models[].kv.disk.size", "models[].scheduler.policy", "log.format"}) {
    EXPECT_TRUE(paths.contains(path)) << path;
  }
}

TEST(ConfigFilesTest, TheFullExampleSetsEveryKeyToItsDefault) {
  const auto root = ParseYaml(ReadFile(kRoot / "configs/full.yaml"), "full.yaml");
  ASSERT_TRUE(root.ok()) << root.status().ToString();
  std::vector<std::pair<std::string, std::string>> leaves;
  Flatten(*root, "", &leaves);
  std::set<std::string> set_keys;
  for (const auto& [path, text] : leaves) set_keys.insert(path);
  for (const ConfigKey& key : DaemonConfigKeys()) {
    EXPECT_TRUE(set_keys.contains(key.path)) << "configs/full.yaml lacks " << key.path;
    for (const auto& [path, text] : leaves) {
      if (path != key.path || key.default_value == "required") continue;
      EXPECT_EQ(text, key.default_value) << path;
    }
  }
}

TEST(ConfigFilesTest, TheDocumentationHasEveryKeyAndNoOther) {
  const std::string page = ReadFile(kRoot / "docs/configuration.md");
  std::size_t rows = 0;
  for (std::size_t at = page.find("\n| `"); at != std::string::npos; at = page.find("\n| `", at + 1)) ++rows;
  const std::vector<ConfigKey> keys = DaemonConfigKeys();
  EXPECT_EQ(rows, keys.size());
  for (const ConfigKey& key : keys) {
    EXPECT_THAT(page, HasSubstr("\n| `" + key.path + "` | " + key.type + " | `" + key.default_value + "` | " +
                                key.range + " | "));
  }
}

}  // namespace
}  // namespace skipjack
