#include "cli/bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace skipjack::cli {
namespace {

RequestRecord Record(double due, std::vector<double> tokens, const std::string& error = "") {
  RequestRecord record;
  record.due = due;
  record.sent = due + 0.001;
  record.token_times = std::move(tokens);
  record.finished = record.token_times.empty() ? due + 1 : record.token_times.back();
  record.prompt_tokens = 10;
  record.error = error;
  return record;
}

TEST(Report, ComputesEachFigureAsDefined) {
  ReportOptions options;
  options.warmup_fraction = 0;
  options.slo_ttft_seconds = 1.0;
  options.slo_tpot_seconds = 0.6;
  const Report report = MakeReport(
      {Record(0, {1.0, 1.5, 2.0}), Record(1, {3.0, 4.0}), Record(2, {}, "full"), Record(2, {}, "full")},
      options);
  EXPECT_EQ(report.requests, 4u);
  EXPECT_EQ(report.failed, 2u);
  EXPECT_DOUBLE_EQ(report.jct.mean, (2.0 + 3.0) / 2);
  EXPECT_DOUBLE_EQ(report.ttft.mean, (1.0 + 2.0) / 2);
  EXPECT_DOUBLE_EQ(report.tpot.mean, (0.5 + 1.0) / 2);
  EXPECT_EQ(report.gap.count, 3u);
  EXPECT_DOUBLE_EQ(report.gap.max, 1.0);
  EXPECT_DOUBLE_EQ(report.normalized.mean, (2.0 / 3 + 3.0 / 2) / 2);
  EXPECT_DOUBLE_EQ(report.duration_seconds, 4.0);
  EXPECT_DOUBLE_EQ(report.output_tokens_per_second, 5.0 / 4);
  EXPECT_DOUBLE_EQ(report.total_tokens_per_second, 25.0 / 4);
  EXPECT_EQ(report.goodput_fraction, 0.25);
  EXPECT_NEAR(report.dispatch_lag.p99, 0.001, 1e-9);
  EXPECT_THAT(report.errors, ::testing::ElementsAre("2 x full"));
}

TEST(Report, GoodputCountsWhoMeetsEveryBoundThatIsSet) {
  const std::vector<RequestRecord> records = {Record(0, {1.0, 1.5, 2.0}), Record(1, {3.0, 4.0}),
                                              Record(2, {2.5, 4.5}), Record(3, {}, "full")};
  const auto fraction = [&](std::optional<double> ttft, std::optional<double> tpot,
                            std::optional<double> jct) {
    return MakeReport(records, {.warmup_fraction = 0,
                                .slo_ttft_seconds = ttft,
                                .slo_tpot_seconds = tpot,
                                .slo_jct_seconds = jct})
        .goodput_fraction;
  };
  EXPECT_EQ(fraction({}, {}, {}), std::nullopt);
  EXPECT_EQ(fraction(1.0, {}, {}), 0.5);
  EXPECT_EQ(fraction({}, 1.0, {}), 0.5);
  EXPECT_EQ(fraction({}, {}, 2.5), 0.5);
  EXPECT_EQ(fraction(1.0, 1.0, 2.5), 0.25);
  EXPECT_EQ(fraction(0.1, {}, {}), 0.0);
  const Report missed = MakeReport(records, {.slo_ttft_seconds = 0.1});
  EXPECT_THAT(ReportTable(missed), ::testing::HasSubstr("goodput under the SLO: 0.00 requests/s (0.0 %)"));
  EXPECT_THAT(ReportTable(MakeReport(records, {})), ::testing::Not(::testing::HasSubstr("goodput")));
}

TEST(Report, LeavesTheWarmUpOut) {
  std::vector<RequestRecord> records;
  for (int i = 0; i < 10; ++i) records.push_back(Record(i, {i + (i == 0 ? 100.0 : 1.0)}));
  const Report report = MakeReport(records, {});
  EXPECT_EQ(report.requests, 9u);
  EXPECT_DOUBLE_EQ(report.jct.max, 1.0);
}

TEST(Report, SurvivesNothing) {
  EXPECT_EQ(MakeReport({}, {}).requests, 0u);
  EXPECT_THAT(ReportTable(MakeReport({}, {})), ::testing::HasSubstr("0 requests"));
}

TEST(Summarize, TakesTheNearestRank) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  const Distribution d = Summarize(samples);
  EXPECT_DOUBLE_EQ(d.mean, 50.5);
  EXPECT_EQ(d.p50, 50);
  EXPECT_EQ(d.p90, 90);
  EXPECT_EQ(d.p99, 99);
  EXPECT_EQ(d.max, 100);
  EXPECT_EQ(Summarize({3}).p99, 3);
}

}  // namespace
}  // namespace skipjack::cli
