// A bar on the terminal; where stderr is none, one line per phase instead.
#pragma once

#include <mutex>
#include <string>

namespace skipjack::cli {

// Update() may be called from any thread, as often as one likes: it draws only what changed.
class ProgressBar {
 public:
  explicit ProgressBar(std::string title);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `fraction` of this phase, in [0, 1].
  void Update(const std::string& phase, double fraction);
  // Ends the line. Idempotent.
  void Finish();

 private:
  std::mutex mutex_;
  std::string title_;
  std::string phase_;
  int percent_ = -1;
  bool terminal_;
  bool open_ = false;
};

}  // namespace skipjack::cli
