// Start-up check of the kernels of one level against plain scalar arithmetic.
#pragma once

#include <string>

#include "kernels/cpu/linear.h"

namespace skipjack::kernels {

// Runs every kernel of the table on small random data (milliseconds). Empty when all agree; else the
// names of those that do not ("quantize int8, linear Q4_1"), so that a caller can fall back a level and say
// why.
std::string SelfTest(const KernelTable& table);

}  // namespace skipjack::kernels
