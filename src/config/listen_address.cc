#include "config/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "config/message_text.h"

namespace skipjack {
namespace {

constexpr std::string_view kShape = "is not an address like 127.0.0.1:8080 or \"[::1]:8080\"";

bool IsIpv4(const std::string& host) {
  in_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool IsIpv6(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsLoopbackIpv6(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET6, host.c_str(), &address) == 1 && IN6_IS_ADDR_LOOPBACK(&address);
}

bool IsWildcard(const std::string& host) {
  in6_addr address{};
  return host == "0.0.0.0" ||
         (::inet_pton(AF_INET6, host.c_str(), &address) == 1 && IN6_IS_ADDR_UNSPECIFIED(&address));
}

// Letters, digits, '-' and '.', with at least one letter, so that a broken IPv4 address is no name.
bool IsHostName(std::string_view host) {
  if (host.empty() || host.size() > 253 || host.front() == '-' || host.front() == '.') return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return std::any_of(host.begin(), host.end(), letter) && std::all_of(host.begin(), host.end(), [&](char c) {
           return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
         });
}

}  // namespace

Result<ListenAddress> ParseListenAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Status::InvalidArgument(std::string(kShape));
  const std::string_view port = text.substr(colon + 1);
  std::string host(text.substr(0, colon));
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "*") {
    return Status::InvalidArgument("names no host; 0.0.0.0 or \"[::]\" would listen on all of them");
  }
  const bool valid = bracketed ? IsIpv6(host) : IsIpv4(host) || IsHostName(host);
  if (!valid) return Status::InvalidArgument(std::string(kShape));

  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number > 65535) {
    return Status::InvalidArgument("has the port '" + std::string(port.substr(0, 32)) +
                                   "'; ports are 0 to 65535");
  }
  return ListenAddress{host, static_cast<std::uint16_t>(number)};
}

std::string FormatListenAddress(const ListenAddress& address) {
  const bool ipv6 = address.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

bool IsLoopback(const ListenAddress& address) {
  if (address.host == "localhost" || IsLoopbackIpv6(address.host)) return true;
  return IsIpv4(address.host) && address.host.starts_with("127.");
}

bool Collide(const ListenAddress& a, const ListenAddress& b) {
  if (a.port != b.port || a.port == 0) return false;
  return a.host == b.host || IsWildcard(a.host) || IsWildcard(b.host) ||
         (IsLoopback(a) && IsLoopback(b) && (a.host == "localhost" || b.host == "localhost"));
}

}  // namespace skipjack
