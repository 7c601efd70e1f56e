#include "model/gguf_errors.h"

#include <array>
#include <cstdio>

namespace skipjack {

std::string Quoted(std::string_view text) {
  constexpr std::size_t kLongest = 96;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
      continue;
    }
    std::array<char, 5> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned>(byte));
    out += escaped.data();
  }
  return out + (text.size() > kLongest ? "...'" : "'");
}

Status GgufErrors::Bad(const std::string& what) const {
  return Status::InvalidArgument(path + ": " + what);
}

Status GgufErrors::CutOff(const std::string& what, std::uint64_t needed) const {
  return Status::DataLoss(path + ": the file is incomplete: " + what + " needs a file of at least " +
                          std::to_string(needed) + " bytes, this one has " + std::to_string(file_bytes));
}

}  // namespace skipjack
