// The messages of the GGUF readers: every one begins with the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace skipjack {

// `text` from a file made fit for a message: quoted, shortened, other than printable ASCII escaped.
std::string Quoted(std::string_view text);

struct GgufErrors {
  std::string path;
  std::uint64_t file_bytes = 0;

  Status Bad(const std::string& what) const;
  // The file ends too early: `what` would need a file of `needed` bytes.
  Status CutOff(const std::string& what, std::uint64_t needed) const;
};

}  // namespace skipjack
