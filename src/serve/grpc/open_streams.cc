#include "serve/grpc/open_streams.h"

#include "serve/grpc/generate_stream.h"

namespace skipjack {

void OpenStreams::Add(GenerateStream* stream) {
  std::lock_guard lock(mutex_);
  streams_.insert(stream);
}

void OpenStreams::Remove(GenerateStream* stream) {
  std::lock_guard lock(mutex_);
  streams_.erase(stream);
  if (streams_.empty()) empty_.notify_all();
}

std::int32_t OpenStreams::Count() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::int32_t>(streams_.size());
}

bool OpenStreams::WaitUntilEmpty(Duration grace) {
  std::unique_lock lock(mutex_);
  return empty_.wait_for(lock, grace, [this] { return streams_.empty(); });
}

std::vector<std::shared_ptr<GenerateStream>> OpenStreams::List() const {
  std::vector<std::shared_ptr<GenerateStream>> streams;
  std::lock_guard lock(mutex_);
  for (GenerateStream* stream : streams_) streams.push_back(stream->shared_from_this());
  return streams;
}

}  // namespace skipjack
