// What a GGUF file is made of, for people and for programs.
#pragma once

#include <string>

#include "base/status.h"
#include "model/gguf_file.h"

namespace skipjack {

// Metadata (long arrays shortened), tensors, parameters, bits per weight, memory needed, and last whether we
// can run the model and if not, why. Works for any well-formed GGUF, also for architectures that we do not
// run and for files without tensors. As text, everything that the file says is escaped, so that it cannot
// steer a terminal; as JSON (one object), bytes that are no UTF-8 become U+FFFD.
std::string InspectReport(const GgufFile& file, bool json);

// Opens `path` (see ModelSource::Open) and reports on it.
Result<std::string> InspectModel(const std::string& path, bool json);

}  // namespace skipjack
