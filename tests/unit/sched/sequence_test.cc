#include "sched/sequence.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace skipjack {
namespace {

using enum SequencePhase;

constexpr SequencePhase kAll[] = {kWaiting, kPrefilling, kDecoding, kPreempted, kFinished};

// How a fresh sequence gets into each phase.
std::vector<SequencePhase> PathTo(SequencePhase phase) {
  switch (phase) {
    case kWaiting:
      return {};
    case kPrefilling:
      return {kPrefilling};
    case kDecoding:
      return {kPrefilling, kDecoding};
    case kPreempted:
      return {kPrefilling, kPreempted};
    case kFinished:
      return {kFinished};
  }
  return {};
}

TEST(Sequence, MovesOnlyAlongTheArrows) {
  const std::set<std::pair<SequencePhase, SequencePhase>> arrows = {
      {kWaiting, kPrefilling},   {kWaiting, kFinished},     {kPrefilling, kDecoding},
      {kPrefilling, kPreempted}, {kPrefilling, kFinished},  {kDecoding, kPreempted},
      {kDecoding, kFinished},    {kPreempted, kPrefilling}, {kPreempted, kFinished},
  };
  for (const SequencePhase from : kAll) {
    for (const SequencePhase to : kAll) {
      Sequence sequence(SubmitRequest{.sequence = 1, .prompt = {1}, .max_tokens = 1}, 0, BlockTable());
      for (const SequencePhase step : PathTo(from)) ASSERT_TRUE(sequence.MoveTo(step));
      const bool allowed = arrows.contains({from, to});
      EXPECT_EQ(sequence.MoveTo(to), allowed) << SequencePhaseName(from) << " to " << SequencePhaseName(to);
      EXPECT_EQ(sequence.phase(), allowed ? to : from);
    }
  }
}

TEST(Sequence, CountsTokens) {
  Sequence sequence(SubmitRequest{.sequence = 1, .prompt = {1, 2, 3}, .max_tokens = 5}, 0, BlockTable());
  EXPECT_EQ(sequence.remaining(), 3);
  sequence.scheduled = 2;
  EXPECT_FALSE(sequence.samples());
  sequence.computed = 2;
  sequence.scheduled = 1;
  EXPECT_TRUE(sequence.samples());
  sequence.computed = 3;
  sequence.tokens.push_back(4);
  EXPECT_EQ(sequence.generated(), 1);
  EXPECT_EQ(sequence.remaining(), 1);
}

}  // namespace
}  // namespace skipjack
