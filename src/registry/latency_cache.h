// What a scheduler learnt of a model's step times, in a small file, so that a restart starts informed.
//
// The file says what its numbers hold for and is ignored where that is not what runs now. It is a cache: it
// may be lost, deleted or damaged at any time, and several processes may share it, of which the last to write
// counts.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "sched/latency_model.h"

namespace skipjack {

// Another model file, another runner or another machine takes other times.
struct LatencyKey {
  struct File {
    std::string name;  // without its folder
    std::int64_t bytes = 0;
    std::int64_t modified_ns = 0;  // since 1970

    friend bool operator==(const File&, const File&) = default;
  };

  std::vector<File> model;  // all parts, in order
  std::string runner;       // ModelRunner::description(): instruction set, number types, threads
  std::string machine;      // the processor's name; empty where the system does not say

  friend bool operator==(const LatencyKey&, const LatencyKey&) = default;
};

// Looks at the files. NotFound when one is gone.
Result<LatencyKey> MakeLatencyKey(const std::vector<std::string>& model_paths, std::string runner);

// Where a model's cache lies. `configured` is models[].cache_dir: a folder, "none", or empty for `.skipjack`
// beside the model. Empty: nowhere.
std::string CacheFolder(const std::string& configured, const std::string& model_path);

// The file of one model, runner and machine in `folder`: these have a name each, so that several share a
// folder, and a model file that was replaced takes over the name.
std::string LatencyCachePath(const std::string& folder, const LatencyKey& key);

// Numbers that were learnt (not all 0). NotFound where there is no file; DataLoss for one that is damaged,
// with what is wrong; FailedPrecondition for one that holds for something else, naming that.
Result<LatencyCoefficients> ReadLatencyCache(const std::string& path, const LatencyKey& key);

// Makes the folder. Whoever reads the file at the same time sees the old or the new one, whole.
Status WriteLatencyCache(const std::string& path, const LatencyKey& key,
                         const LatencyCoefficients& coefficients);

// One model's cache and what it holds. From any thread.
class LatencyMemory {
 public:
  // `model` is for logs.
  LatencyMemory(std::string model, std::string path, LatencyKey key);

  // What an earlier run learnt; all 0 where there is nothing to be used. The log says why, if there is
  // something.
  LatencyCoefficients Recall();
  // Writes them, unless they are what the file holds or nothing was learnt. The first failure is logged.
  void Keep(const LatencyCoefficients& learnt);

 private:
  const std::string model_;
  const std::string path_;
  const LatencyKey key_;
  std::mutex mutex_;           // also keeps writes in order
  LatencyCoefficients saved_;  // what the file holds, as far as we know
  bool complained_ = false;
};

}  // namespace skipjack
