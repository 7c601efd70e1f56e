// How the process logs. Prompts and outputs are never passed to a log call.
#pragma once

#include <string>

#include "base/status.h"

namespace skipjack {

// `level`: trace, debug, info, warn, error or off. `format`: text, or json (one object a line: time in UTC,
// level, thread, message). Logs go to stderr, which leaves stdout to answers. Call once, before threads
// start.
Status SetUpLogging(const std::string& level, const std::string& format);

}  // namespace skipjack
