#include "cli/progress_bar.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace skipjack::cli {
namespace {

constexpr int kWidth = 30;

}  // namespace

ProgressBar::ProgressBar(std::string title)
    : title_(std::move(title)), terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  Finish();
}

void ProgressBar::Update(const std::string& phase, double fraction) {
  const std::lock_guard lock(mutex_);
  const int percent = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100);
  if (phase == phase_ && percent == percent_) return;
  if (!terminal_ && phase != phase_) fmt::print(stderr, "{}: {}\n", title_, phase);
  phase_ = phase;
  percent_ = percent;
  if (!terminal_) return;
  const int filled = percent * kWidth / 100;
  fmt::print(stderr, "\r\x1b[K{}  [{}{}] {:3d}%  {}", title_,
             std::string(static_cast<std::size_t>(filled), '#'),
             std::string(static_cast<std::size_t>(kWidth - filled), '.'), percent, phase);
  std::fflush(stderr);
  open_ = true;
}

void ProgressBar::Finish() {
  const std::lock_guard lock(mutex_);
  if (open_) fmt::print(stderr, "\n");
  open_ = false;
}

}  // namespace skipjack::cli
