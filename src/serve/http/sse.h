// Server-sent events (WHATWG HTML, section 9.2).
#pragma once

#include <string>
#include <string_view>

namespace skipjack::http {

inline constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";
inline constexpr std::string_view kSseKeepAlive = ": keep-alive\n\n";
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// `json` has no line breaks.
inline void AppendSseData(std::string* out, std::string_view json) {
  out->append("data: ").append(json).append("\n\n");
}

// An event of type "error" whose data is an error document. OpenAI's clients raise it.
inline void AppendSseError(std::string* out, std::string_view json) {
  out->append("event: error\ndata: ").append(json).append("\n\n");
}

}  // namespace skipjack::http
