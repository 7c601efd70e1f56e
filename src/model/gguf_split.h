// Which files make up a model: one, or the parts of a split set.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace skipjack {

// The parts of the model at `path`, in the order of the set. `path` is a GGUF file, any part of a set, or a
// folder that holds exactly one model. Other parts are looked for in the same folder, and what the files say
// of themselves (split.no, split.count, split.tensors.count) decides; names only break a tie between two
// files that claim to be the same part. A missing part is named.
Result<std::vector<std::string>> FindGgufSet(const std::string& path);

}  // namespace skipjack
