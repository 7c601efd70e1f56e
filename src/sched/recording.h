// What a scheduler was asked, written down and asked again.
//
// A scheduler is deterministic: the same configuration and the same calls give the same plans. A recording
// holds both, and the hash of every plan, so that what happened in a running daemon can be repeated step by
// step elsewhere. It holds the token ids of prompts and answers, which are the users' texts.
//
// Text, a line a call; times in nanoseconds, seconds as the shortest decimal that reads back the same:
//   config NAME=VALUE ...
//   submit SEQUENCE MAX_TOKENS PRIORITY ARRIVAL DEADLINE|- SALT|- TENANT|- TOKEN...
//   cancel SEQUENCE
//   plan NOW HASH
//   complete NOW STEP FAILED DROPPED HOST_SECONDS DISK_SECONDS N {OUTCOME}xN BLOCK...
// Salt and tenant are hexadecimal; an outcome is SEQUENCE TOKEN FINISHED TAINTED.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "sched/scheduler.h"

namespace skipjack {

// Hands every call on to `scheduler`, made from `config`, and writes it to `out`. What cannot be written is
// lost: the scheduler goes on.
std::unique_ptr<Scheduler> RecordScheduler(std::unique_ptr<Scheduler> scheduler,
                                           const SchedulerConfig& config, std::unique_ptr<std::ostream> out);

struct ReplayReport {
  std::uint64_t plans = 0;  // that were not empty
  std::uint64_t sequences = 0;
  // The first plan, by step, that is not what was recorded; none: all were the same.
  std::optional<std::uint64_t> differs_at;
  SchedulerStats stats = {};  // after the last call
};

// Makes the scheduler of a recording and asks it the same; stops at the first plan that differs.
// InvalidArgument names the line that is no part of a recording; one that breaks off is replayed as far as it
// goes.
Result<ReplayReport> ReplayRecording(std::istream* in);

}  // namespace skipjack
