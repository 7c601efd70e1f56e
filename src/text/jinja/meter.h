// What one rendering may still use. A template comes with a model file and is not trusted: whatever takes
// time or memory in proportion to its values is charged here before it is done, so that a rendering ends with
// ResourceExhausted long before it hurts. Whoever makes a text longer or puts a value into a container needs
// a Meter to do it with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/chat_template.h"

namespace skipjack::jinja {

class Meter {
 public:
  explicit Meter(const TemplateLimits& limits);

  // Work: one step for each evaluated node, each value that is visited, each comparison.
  void Step(std::uint64_t count = 1) {
    if (count > steps_left_) OutOfSteps();
    steps_left_ -= count;
  }

  // Bytes about to be looked at: one step for 64 of them.
  void Read(std::uint64_t bytes) {
    unpaid_bytes_ += bytes;
    if (unpaid_bytes_ < kBytesPerStep) return;
    Step(unpaid_bytes_ / kBytesPerStep);
    unpaid_bytes_ %= kBytesPerStep;
  }

  // Memory about to be taken. What is freed again is not given back: what counts is what was ever made.
  void Grow(std::uint64_t bytes) {
    if (bytes > memory_left_) OutOfMemory();
    memory_left_ -= bytes;
  }

  // The same for a text of `size` bytes that is about to become longer by `more`.
  void GrowText(std::uint64_t size, std::uint64_t more) {
    if (more > text_bytes_ || size > text_bytes_ - more) TextTooLong();
    Grow(more);
  }

  // The same for `count` values in a list or mapping.
  void GrowItems(std::uint64_t count) {
    if (count > memory_left_ / kItemBytes) OutOfMemory();
    memory_left_ -= count * kItemBytes;
  }

  // Bytes that a text may have.
  std::uint64_t text_bytes() const { return text_bytes_; }

  std::uint64_t steps_used() const { return static_cast<std::uint64_t>(limits_.steps) - steps_left_; }
  std::uint64_t memory_used() const { return limits_.memory_bytes - memory_left_; }

  // About what a text object takes beside its bytes, and a value in a container with the room it grows into.
  static constexpr std::uint64_t kTextBytes = 128;
  static constexpr std::uint64_t kItemBytes = 64;

 private:
  static constexpr std::uint64_t kBytesPerStep = 64;

  [[noreturn]] void OutOfSteps() const;
  [[noreturn]] void OutOfMemory() const;
  [[noreturn]] void TextTooLong() const;

  TemplateLimits limits_;
  std::uint64_t steps_left_;
  std::uint64_t memory_left_;
  std::uint64_t text_bytes_;
  std::uint64_t unpaid_bytes_ = 0;  // read, less than a step
};

}  // namespace skipjack::jinja
