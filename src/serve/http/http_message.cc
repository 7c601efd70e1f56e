#include "serve/http/http_message.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include <fmt/format.h>

namespace skipjack::http {
namespace {

char ToLower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = ToLower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// A field value is written by us, but parts of it may stem from a client: nothing that ends the line passes.
void AppendField(std::string* out, std::string_view name, std::string_view value) {
  *out += name;
  *out += ": ";
  for (const char c : value) *out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  *out += "\r\n";
}

}  // namespace

const std::string* RequestHead::Find(std::string_view name) const {
  for (const auto& [field, value] : fields) {
    if (field == name) return &value;
  }
  return nullptr;
}

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

std::string SerializeHead(const Response& response, const Framing& framing, std::string_view date) {
  std::string out;
  out.reserve(256);
  out += "HTTP/1.1 ";
  out += std::to_string(response.status);
  out += ' ';
  out += ReasonPhrase(response.status);
  out += "\r\n";
  AppendField(&out, "Date", date);
  if (!response.content_type.empty()) AppendField(&out, "Content-Type", response.content_type);
  if (framing.body == Framing::Body::kLength) {
    AppendField(&out, "Content-Length", std::to_string(response.body.size()));
  } else if (framing.body == Framing::Body::kChunked) {
    AppendField(&out, "Transfer-Encoding", "chunked");
  }
  for (const auto& [name, value] : response.fields) AppendField(&out, name, value);
  if (!framing.keep_alive) {
    AppendField(&out, "Connection", "close");
  } else if (framing.version == 10) {
    AppendField(&out, "Connection", "keep-alive");
  }
  out += "\r\n";
  return out;
}

std::string FormatHttpDate(std::int64_t unix_seconds) {
  using namespace std::chrono;  // NOLINT: calendar types read badly when qualified
  constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const sys_seconds time{seconds(unix_seconds)};
  const sys_days day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[weekday(day).c_encoding()],
                     static_cast<unsigned>(date.day()), kMonths[static_cast<unsigned>(date.month()) - 1],
                     static_cast<int>(date.year()), clock.hours().count(), clock.minutes().count(),
                     clock.seconds().count());
}

void AppendChunk(std::string* out, std::string_view data) {
  std::array<char, 16> size;
  const auto [end, error] = std::to_chars(size.data(), size.data() + size.size(), data.size(), 16);
  out->append(size.data(), end);
  *out += "\r\n";
  *out += data;
  *out += "\r\n";
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = HexValue(text[i + 1]);
    const int low = HexValue(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool IsUsableRequestId(std::string_view id) {
  const auto usable = [](char c) {
    return c > 0x20 && c < 0x7f && c != '"' && c != '\\' && c != ',' && c != ';';
  };
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), usable);
}

std::string MediaType(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (!content_type.empty() && content_type.back() == ' ') content_type.remove_suffix(1);
  std::string type(content_type);
  std::transform(type.begin(), type.end(), type.begin(), ToLower);
  return type;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return ToLower(x) == ToLower(y); });
}

}  // namespace skipjack::http
