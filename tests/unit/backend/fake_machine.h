// A made-up /proc and /sys in a temporary folder.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace skipjack {

class FakeMachine {
 public:
  FakeMachine()
      : root_(testing::TempDir() + "/machine_" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;

  // What goes before /proc and /sys.
  const std::string& root() const { return root_; }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void SetMemory(std::int64_t total, std::int64_t available) const {
    Write("/proc/meminfo", "MemTotal: " + std::to_string(total / 1024) +
                               " kB\nMemAvailable: " + std::to_string(available / 1024) + " kB\n");
  }

 private:
  std::string root_;
};

}  // namespace skipjack
