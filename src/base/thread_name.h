// Names for threads, so that top, gdb and crash reports say who is who.
#pragma once

#include <string_view>

namespace skipjack {

// Names the calling thread. Linux keeps the first 15 bytes.
void SetThreadName(std::string_view name);

}  // namespace skipjack
