// What the engine knows of a sequence from its acceptance until its end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"
#include "sampling/sequence_sampler.h"

namespace skipjack {

// Made on the submitter's thread, owned by the step loop from then on.
struct LiveSequence {
  LiveSequence(SequenceId id_, const SequenceRequest& request, std::shared_ptr<SequenceSink> sink_,
               TimePoint now)
      : id(id_),
        sink(std::move(sink_)),
        sampler(request.sampling, request.prompt, request.end_tokens),
        prompt_tokens(static_cast<std::int32_t>(request.prompt.size())),
        realtime(request.priority == PriorityClass::kRealtime),
        request_id(request.request_id),
        deadline(request.deadline),
        submitted(now),
        timeline(request.timeline ? std::make_shared<Timeline>() : nullptr) {}

  // As of `now`, which counts where a phase has not ended.
  Timings TimingsAt(TimePoint now) const {
    Timings timings;
    timings.queue_seconds = ToSeconds(first_scheduled.value_or(now) - submitted);
    if (first_scheduled) timings.prefill_seconds = ToSeconds(first_token.value_or(now) - *first_scheduled);
    if (first_token) timings.decode_seconds = ToSeconds(last_token - *first_token);
    timings.cached_tokens = cached_tokens;
    timings.preemptions = preemptions;
    return timings;
  }

  TimelineEvent EventAt(TimelineEvent::Kind kind, TimePoint at) const {
    return {.kind = kind, .seconds = ToSeconds(at - submitted), .tokens_generated = sampler.generated()};
  }

  const SequenceId id;
  const std::shared_ptr<SequenceSink> sink;
  SequenceSampler sampler;
  const std::int32_t prompt_tokens;
  const bool realtime;
  const std::string request_id;
  const std::optional<TimePoint> deadline;

  const TimePoint submitted;
  std::optional<TimePoint> first_scheduled;
  std::optional<TimePoint> first_token;
  TimePoint last_token;
  std::int32_t cached_tokens = 0;
  std::int32_t preemptions = 0;
  std::optional<std::int32_t> away_with;  // preempted, and not back yet: the tokens whose KV it had then

  const std::shared_ptr<Timeline> timeline;  // or nullptr
  std::int64_t level = 0;                    // with a timeline: the last one in it
};

}  // namespace skipjack
