// Output of one Generate call that waits to be written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "serve/inference_service.h"
#include "skipjack/v1/inference.pb.h"

namespace skipjack {

struct ResponseOptions {
  bool prompt_token_ids = false;
  bool tokens = false;
  bool logprobs = false;
};

// Clients refuse messages over 4 MiB unless told otherwise.
inline constexpr std::size_t kMaxResponseBytes = 1 << 20;

// Joins what comes into as few messages as it can; one that is full is followed by another. A message is at
// most `max_message_bytes` long, or one token or ChoiceFinish longer. Used under the caller's lock.
class ResponseQueue {
 public:
  explicit ResponseQueue(const ResponseOptions& options, std::size_t max_message_bytes = kMaxResponseBytes)
      : options_(options), max_message_bytes_(max_message_bytes) {}

  // Ids of a long prompt go on in the messages that follow.
  void AddStarted(Accepted accepted);
  void AddDelta(ChoiceDelta delta);
  void AddFinish(ChoiceFinish finish);
  void AddCompleted(const Completed& completed);

  bool empty() const { return slots_.empty(); }
  // About how much text and tokens wait.
  std::int64_t output_bytes() const { return output_bytes_; }
  // The oldest message; `message`'s memory is used again for a later one. Not when empty.
  void TakeFirst(v1::GenerateResponse* message);
  void Clear();

 private:
  struct Slot {
    v1::GenerateResponse message;
    std::size_t size = 0;     // of the message, an upper bound
    std::int64_t output = 0;  // of it, text and tokens
  };

  // A message with room for so much, which is added to its size.
  Slot& RoomFor(std::size_t bytes);
  void CountOutput(Slot& slot, std::size_t bytes);
  void AddText(std::int32_t choice, std::string text);
  void AddToken(std::int32_t choice, TokenPiece piece);

  const ResponseOptions options_;
  const std::size_t max_message_bytes_;
  std::deque<Slot> slots_;
  std::int64_t output_bytes_ = 0;
  v1::GenerateResponse spare_;  // cleared, with the memory of one that was written
};

}  // namespace skipjack
