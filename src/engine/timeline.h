// What happened to one sequence, event by event. Recorded only for those who ask for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sched/step_plan.h"

namespace skipjack {

struct TimelineEvent {
  enum class Kind : std::uint8_t {
    kSubmitted,
    kLevel,  // it came to another level of the policy
    kScheduled,
    kFirstToken,
    kPreempted,
    kResumed,
    kFinished,
  };
  Kind kind = Kind::kSubmitted;
  double seconds = 0;  // since it was submitted
  std::int64_t level =
      0;  // kSubmitted, kLevel: its level from then on. kPreempted: of who goes first instead
  PreemptionCause cause = PreemptionCause::kPolicy;  // kPreempted
  std::int32_t tokens_lost = 0;                      // kPreempted: whose KV it held
  std::int32_t tokens_restored = 0;                  // kResumed: of these, those that had survived
  std::int32_t tokens_recomputed = 0;                // kResumed: and those that are computed again
  std::int32_t tokens_generated = 0;                 // so far
};

// "submitted", "level", "scheduled", "first_token", "preempted", "resumed", "finished".
std::string_view TimelineEventName(TimelineEvent::Kind kind);

// In the order of time.
struct Timeline {
  static constexpr std::size_t kMostEvents = 64;

  std::vector<TimelineEvent> events;
  std::int32_t left_out = 0;  // events beyond kMostEvents; the first token and the end are never among them

  Timeline() { events.reserve(kMostEvents); }
  // Allocates nothing.
  void Add(const TimelineEvent& event);
};

}  // namespace skipjack
