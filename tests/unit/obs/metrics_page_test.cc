#include "obs/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "obs/logging.h"

namespace skipjack {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

FinishEvent Finished(FinishReason reason, std::int32_t tokens, double decode_seconds) {
  FinishEvent event;
  event.reason = reason;
  event.prompt_tokens = 10;
  event.generated_tokens = tokens;
  event.timings.decode_seconds = decode_seconds;
  return event;
}

TEST(MetricsPage, ReadsTheEnginesStateAtEachScrape) {
  EngineStats stats;
  MetricsPage page;
  page.AddEngine(
      "m", [&] { return stats; }, nullptr);

  stats.scheduler.running = 3;
  stats.scheduler.waiting = 4;
  stats.pending_submissions = 2;
  EXPECT_THAT(page.Render(), HasSubstr("skipjack_requests_running{model=\"m\"} 3"));
  EXPECT_THAT(page.Render(), HasSubstr("skipjack_requests_waiting{model=\"m\"} 6"));

  stats.scheduler.running = 0;
  EXPECT_THAT(page.Render(), HasSubstr("skipjack_requests_running{model=\"m\"} 0"));
}

TEST(MetricsPage, CountsByLevelAndCause) {
  EngineStats stats;
  stats.scheduler.waiting_by_level[0] = 5;
  stats.scheduler.running_by_level[15] = 2;
  stats.scheduler.preemptions_by_cause = {1, 2, 3, 4};
  stats.scheduler.demotions = 7;
  MetricsPage page;
  page.AddEngine(
      "m", [&] { return stats; }, nullptr);
  const std::string text = page.Render();
  EXPECT_THAT(text, HasSubstr("skipjack_scheduler_sequences{model=\"m\",level=\"0\",state=\"waiting\"} 5"));
  EXPECT_THAT(text, HasSubstr("skipjack_scheduler_sequences{model=\"m\",level=\"15\",state=\"running\"} 2"));
  EXPECT_THAT(text, Not(HasSubstr("level=\"16\"")));
  const char* const causes[] = {"priority", "deadline", "policy", "growth"};
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(text, HasSubstr("skipjack_scheduler_preemptions_total{model=\"m\",cause=\"" +
                                std::string(causes[i]) + "\"} " + std::to_string(i + 1)));
  }
  EXPECT_THAT(text, HasSubstr("skipjack_scheduler_demotions_total{model=\"m\"} 7"));
}

TEST(MetricsPage, NamesEveryFamilyOnceWithSeveralModels) {
  MetricsPage page;
  for (const char* model : {"a", "b"}) {
    page.AddEngine(
        model, [] { return EngineStats(); }, std::make_shared<EngineMetrics>(model));
  }
  const std::string text = page.Render();
  for (const char* name : {"skipjack_requests_total", "skipjack_time_to_first_token_seconds"}) {
    const std::string header = std::string("# TYPE ") + name + " ";
    const std::size_t first = text.find(header);
    ASSERT_NE(first, std::string::npos) << name;
    EXPECT_EQ(text.find(header, first + 1), std::string::npos) << name;
  }
  EXPECT_THAT(text, HasSubstr("skipjack_kv_blocks{model=\"b\",tier=\"device\",state=\"free\"} 0"));
}

TEST(EngineMetrics, CountsOnlyFinishedJobsInCompletionTimes) {
  MetricsPage page;
  const auto metrics = std::make_shared<EngineMetrics>("m");
  page.AddEngine(
      "m", [] { return EngineStats(); }, metrics);

  metrics->OnFinish(Finished(FinishReason::kStop, 5, 2.0), 3.0);
  metrics->OnFinish(Finished(FinishReason::kCancelled, 5, 2.0), 100.0);
  metrics->OnFinish(Finished(FinishReason::kLength, 1, 0.0), 1.0);

  const std::string text = page.Render();
  EXPECT_THAT(text, HasSubstr("skipjack_job_completion_time_seconds_count{model=\"m\"} 2"));
  EXPECT_THAT(text, HasSubstr("skipjack_job_completion_time_seconds_sum{model=\"m\"} 4"));
  // One token has no gap; five tokens in 2 s after the first have a mean gap of 0.5 s.
  EXPECT_THAT(text, HasSubstr("skipjack_time_per_output_token_seconds_count{model=\"m\"} 1"));
  EXPECT_THAT(text, HasSubstr("skipjack_time_per_output_token_seconds_sum{model=\"m\"} 0.5"));
}

TEST(EngineMetrics, WhoDiedWaitingHasWaited) {
  EngineMetrics metrics("m");
  MetricsPage page;
  page.Add([&] { return metrics.Collect(); });
  FinishEvent died = Finished(FinishReason::kError, 0, 0.0);
  died.timings.queue_seconds = 7.0;
  metrics.OnFinish(died, 7.0);
  metrics.OnFirstToken(2.0, 1.0);
  metrics.OnFinish(Finished(FinishReason::kStop, 3, 1.0), 3.0);  // its wait has been seen already
  EXPECT_THAT(page.Render(), HasSubstr("skipjack_queue_time_seconds_count{model=\"m\"} 2"));
  EXPECT_THAT(page.Render(), HasSubstr("skipjack_queue_time_seconds_sum{model=\"m\"} 8"));
}

TEST(MetricsPage, ShowsFaultsOfTheScheduler) {
  EngineStats stats;
  stats.scheduler.faults = 2;
  MetricsPage page;
  page.AddEngine(
      "m", [&] { return stats; }, nullptr);
  EXPECT_THAT(page.Render(), HasSubstr("skipjack_scheduler_faults_total{model=\"m\"} 2"));
}

TEST(MetricsPage, KnowsWhenTheProcessStarted) {
  MetricsPage page;
  page.Add(ProcessFamilies);
  const std::string text = page.Render();
  const std::string name = "\nprocess_start_time_seconds ";
  const std::size_t at = text.find(name);
  ASSERT_NE(at, std::string::npos);
  const double start = std::stod(text.substr(at + name.size()));
  const auto now = static_cast<double>(std::time(nullptr));
  // The boot's time is known to the second.
  EXPECT_LE(start, now + 1);
  EXPECT_GE(start, now - 3600);
}

TEST(MetricsPage, TellsAboutTheProcess) {
  MetricsPage page;
  page.Add(ProcessFamilies);
  const std::string text = page.Render();
  EXPECT_THAT(text, HasSubstr("process_resident_memory_bytes"));
  EXPECT_THAT(text, Not(HasSubstr("process_resident_memory_bytes 0\n")));
  EXPECT_THAT(text, Not(HasSubstr("process_open_fds 0\n")));
}

TEST(Logging, RefusesUnknownLevelsAndFormats) {
  EXPECT_THAT(SetUpLogging("loud", "text").message(), HasSubstr("'loud'"));
  EXPECT_THAT(SetUpLogging("info", "xml").message(), HasSubstr("'xml'"));
  EXPECT_TRUE(SetUpLogging("off", "json").ok());
}

}  // namespace
}  // namespace skipjack
