// The keys of the configuration file, for its documentation and tests.
#pragma once

#include <vector>

#include "config/config_section.h"

namespace skipjack {

// In the order of the file; the same definitions that ParseDaemonConfig reads by.
std::vector<ConfigKey> DaemonConfigKeys();

}  // namespace skipjack
