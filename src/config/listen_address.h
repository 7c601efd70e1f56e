// Addresses to listen on.
#pragma once

#include <string_view>

#include "base/status.h"
#include "config/daemon_config.h"

namespace skipjack {

// "127.0.0.1:8080", "[::1]:8080", "localhost:8080". The message of a failure continues a sentence: "is not
// ...".
Result<ListenAddress> ParseListenAddress(std::string_view text);

// What ParseListenAddress reads.
std::string FormatListenAddress(const ListenAddress& address);

// Only this machine can reach it: 127.0.0.0/8, ::1 and localhost. Other names are not looked up and count as
// beyond.
bool IsLoopback(const ListenAddress& address);

// Both cannot be bound at the same time: the same port (other than 0) on the same host, or on a wildcard.
bool Collide(const ListenAddress& a, const ListenAddress& b);

}  // namespace skipjack
