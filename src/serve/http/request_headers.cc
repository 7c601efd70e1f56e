#include "serve/http/request_headers.h"

#include <algorithm>
#include <cctype>

namespace skipjack::http {

bool WantsStrict(const RequestHead& head) {
  const std::string* value = head.Find("x-skipjack-strict");
  return value != nullptr && EqualsIgnoringCase(*value, "true");
}

std::string TenantOf(const RequestHead& head) {
  const std::string* tenant = head.Find("x-skipjack-tenant");
  return tenant == nullptr ? "" : *tenant;
}

std::pair<std::string, std::string> IgnoredFieldsWarning(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNames = 8;
  constexpr std::size_t kLongestName = 64;
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    if (i > 0) list += ", ";
    // The client chose these characters: only harmless ones go back into a header.
    for (const char c : names[i].substr(0, kLongestName)) {
      const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
      list += plain && static_cast<unsigned char>(c) < 0x80 ? c : '?';
    }
  }
  if (names.size() > kMostNames) list += ", ...";
  return {"Warning", "299 skipjack \"unknown fields were ignored: " + list + "\""};
}

}  // namespace skipjack::http
