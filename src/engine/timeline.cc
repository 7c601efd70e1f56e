#include "engine/timeline.h"

namespace skipjack {

std::string_view TimelineEventName(TimelineEvent::Kind kind) {
  switch (kind) {
    case TimelineEvent::Kind::kSubmitted:
      return "submitted";
    case TimelineEvent::Kind::kLevel:
      return "level";
    case TimelineEvent::Kind::kScheduled:
      return "scheduled";
    case TimelineEvent::Kind::kFirstToken:
      return "first_token";
    case TimelineEvent::Kind::kPreempted:
      return "preempted";
    case TimelineEvent::Kind::kResumed:
      return "resumed";
    case TimelineEvent::Kind::kFinished:
      return "finished";
  }
  return "unknown";
}

void Timeline::Add(const TimelineEvent& event) {
  // Each of these comes once: room is kept for them.
  const bool kept =
      event.kind == TimelineEvent::Kind::kFirstToken || event.kind == TimelineEvent::Kind::kFinished;
  if (events.size() < (kept ? kMostEvents : kMostEvents - 2)) {
    events.push_back(event);
  } else {
    ++left_out;
  }
}

}  // namespace skipjack
