#include "base/thread_name.h"

#include <pthread.h>

#include <array>
#include <cstddef>

namespace skipjack {

void SetThreadName(std::string_view name) {
  constexpr std::size_t kLongest = 15;
  std::array<char, kLongest + 1> buffer{};
  name.copy(buffer.data(), kLongest);
  // It fails only for names that are too long.
  pthread_setname_np(pthread_self(), buffer.data());
}

}  // namespace skipjack
