// Rendered chats as one text.
#pragma once

#include <span>
#include <string>

#include "text/tokenizer.h"

namespace skipjack::testing {

inline std::string JoinSegments(std::span<const Segment> segments) {
  std::string out;
  for (const Segment& segment : segments) out += segment.text;
  return out;
}

}  // namespace skipjack::testing
