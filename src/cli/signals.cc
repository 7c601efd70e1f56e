#include "cli/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace skipjack::cli {
namespace {

sigset_t Watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

Signals::Signals() {
  const sigset_t set = Watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

Signals::~Signals() {
  close(signal_fd_);
  close(wake_fd_);
  const sigset_t set = Watched();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

std::optional<int> Signals::Wait(std::optional<std::chrono::milliseconds> timeout) {
  pollfd descriptors[2] = {{signal_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
  const int limit = timeout ? static_cast<int>(timeout->count()) : -1;
  if (poll(descriptors, 2, limit) <= 0) return std::nullopt;
  signalfd_siginfo info{};
  if (read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    return static_cast<int>(info.ssi_signo);
  }
  std::uint64_t count = 0;
  if (read(wake_fd_, &count, sizeof(count)) < 0) return std::nullopt;
  return std::nullopt;
}

void Signals::Wake() {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the waiter wakes anyway.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

}  // namespace skipjack::cli
