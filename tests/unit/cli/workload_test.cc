#include "cli/bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace skipjack::cli {
namespace {

using ::testing::HasSubstr;

WorkloadOptions Drawn(std::int32_t requests) {
  WorkloadOptions options;
  options.requests = requests;
  options.vocabulary = 1000;
  options.rate = 100;
  return options;
}

class TraceFile {
 public:
  explicit TraceFile(const std::string& text) : path_(::testing::TempDir() + "/skipjack_trace.jsonl") {
    std::ofstream(path_) << text;
  }
  ~TraceFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Agents send again what they sent before: about as much of a prompt stands in one before it as in the trace.
TEST(Workload, AgentsContinueEarlierPrompts) {
  WorkloadOptions options = Drawn(400);
  options.lengths = "agent";
  options.max_prompt_tokens = 4096;
  const auto shared_part = [](const WorkloadOptions& of) {
    const auto requests = MakeWorkload(of);
    EXPECT_TRUE(requests.ok());
    std::vector<std::vector<TokenId>> before;
    double shared = 0;
    double total = 0;
    for (const PlannedRequest& request : *requests) {
      const auto& prompt = std::get<std::vector<TokenId>>(request.prompt);
      std::ptrdiff_t longest = 0;
      for (const auto& other : before) {
        const auto end = std::mismatch(prompt.begin(), prompt.end(), other.begin(), other.end()).first;
        longest = std::max(longest, end - prompt.begin());
      }
      shared += static_cast<double>(longest);
      total += static_cast<double>(prompt.size());
      before.push_back(prompt);
    }
    return shared / total;
  };
  EXPECT_NEAR(shared_part(options), 0.64, 0.04);
  options.lengths = "sharegpt";
  EXPECT_LT(shared_part(options), 0.05);
}

TEST(Workload, ATraceOfTextsNeedsNoVocabulary) {
  const TraceFile file("{\"arrival_s\": 0, \"prompt\": \"hello\", \"max_tokens\": 3}\n");
  WorkloadOptions options;
  options.trace = file.path();
  EXPECT_TRUE(MakeWorkload(options).ok());
  const TraceFile counted("{\"arrival_s\": 0, \"prompt_tokens\": 5, \"max_tokens\": 3}\n");
  options.trace = counted.path();
  EXPECT_THAT(MakeWorkload(options).status().message(), HasSubstr("--vocabulary"));
}

TEST(Workload, IsTheSameForTheSameSeed) {
  const auto a = MakeWorkload(Drawn(50));
  const auto b = MakeWorkload(Drawn(50));
  ASSERT_TRUE(a.ok() && b.ok());
  for (std::size_t i = 0; i < a->size(); ++i) {
    EXPECT_EQ((*a)[i].arrival_seconds, (*b)[i].arrival_seconds);
    EXPECT_EQ((*a)[i].prompt, (*b)[i].prompt);
  }
}

TEST(Workload, KeepsTheRequestsWhenTheRateChanges) {
  WorkloadOptions slow = Drawn(50);
  slow.rate = 1;
  slow.lengths = "sharegpt";
  WorkloadOptions fast = slow;
  fast.rate = 50;
  const auto a = MakeWorkload(slow);
  const auto b = MakeWorkload(fast);
  ASSERT_TRUE(a.ok() && b.ok());
  for (std::size_t i = 0; i < a->size(); ++i) {
    EXPECT_EQ((*a)[i].prompt, (*b)[i].prompt);
    EXPECT_EQ((*a)[i].max_tokens, (*b)[i].max_tokens);
    EXPECT_NEAR((*a)[i].arrival_seconds, (*b)[i].arrival_seconds * 50, 1e-6);
  }
}

// Mean and coefficient of variation of the gaps.
std::pair<double, double> Gaps(const WorkloadOptions& options) {
  const auto workload = MakeWorkload(options);
  EXPECT_TRUE(workload.ok());
  double sum = 0;
  double squares = 0;
  const auto count = static_cast<double>(workload->size() - 1);
  for (std::size_t i = 1; i < workload->size(); ++i) {
    const double gap = (*workload)[i].arrival_seconds - (*workload)[i - 1].arrival_seconds;
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / count;
  return {mean, std::sqrt(squares / count - mean * mean) / mean};
}

TEST(Workload, ArrivesAsAsked) {
  WorkloadOptions options = Drawn(40000);
  options.lengths = "fixed:1:1";
  auto [mean, cv] = Gaps(options);
  EXPECT_NEAR(mean, 0.01, 0.0003);
  EXPECT_NEAR(cv, 1.0, 0.03);
  options.arrivals = "gamma";
  options.cv = 3;
  std::tie(mean, cv) = Gaps(options);
  EXPECT_NEAR(mean, 0.01, 0.0006);
  EXPECT_NEAR(cv, 3.0, 0.2);
  options.arrivals = "uniform";
  std::tie(mean, cv) = Gaps(options);
  EXPECT_NEAR(mean, 0.01, 1e-9);
}

TEST(Workload, ClipsLengthsAndKeepsIdsInTheVocabulary) {
  WorkloadOptions options = Drawn(500);
  options.lengths = "azure-conv";
  options.max_prompt_tokens = 100;
  options.max_output_tokens = 20;
  const auto workload = MakeWorkload(options);
  ASSERT_TRUE(workload.ok());
  for (const PlannedRequest& request : *workload) {
    const auto& ids = std::get<std::vector<TokenId>>(request.prompt);
    EXPECT_LE(ids.size(), 100u);
    EXPECT_LE(request.max_tokens, 20);
    EXPECT_TRUE(std::all_of(ids.begin(), ids.end(), [](TokenId id) { return id >= 62 && id < 1000; }));
  }
}

TEST(Workload, ATraceMayTellWhereAnswersEndAndWhoAsks) {
  const std::string begin = "{\"arrival_s\": 0, \"prompt\": \"hi\", \"max_tokens\": 9";
  WorkloadOptions options;
  const auto read = [&](const std::string& rest) {
    const TraceFile trace(begin + rest + "}\n");
    options.trace = trace.path();
    return MakeWorkload(options);
  };
  const auto told = read(", \"output_tokens\": 4, \"tenant\": \"t\", \"priority\": 2");
  ASSERT_TRUE(told.ok()) << told.status().ToString();
  EXPECT_EQ((*told)[0].max_tokens, 9);
  EXPECT_EQ((*told)[0].output_tokens, 4);
  EXPECT_EQ((*told)[0].tenant, "t");
  EXPECT_EQ((*told)[0].priority, 2);
  const auto plain = read("");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ((*plain)[0].output_tokens, 9);
  EXPECT_EQ((*plain)[0].priority, 1);
  for (const char* bad : {", \"output_tokens\": 10", ", \"output_tokens\": 0", ", \"tenant\": 3",
                          ", \"priority\": 3", ", \"priority\": \"high\""}) {
    EXPECT_THAT(read(bad).status().message(), HasSubstr(":1: '")) << bad;
  }
}

TEST(Workload, ReplaysATraceInOrderOfArrival) {
  const TraceFile trace(
      "{\"arrival_s\": 2.5, \"prompt\": \"hi\", \"max_tokens\": 3}\n\n"
      "{\"arrival_s\": 0.5, \"prompt_tokens\": 4, \"max_tokens\": 7}\n");
  WorkloadOptions options = Drawn(1);
  options.trace = trace.path();
  const auto workload = MakeWorkload(options);
  ASSERT_TRUE(workload.ok()) << workload.status().ToString();
  ASSERT_EQ(workload->size(), 2u);
  EXPECT_EQ(std::get<std::vector<TokenId>>((*workload)[0].prompt).size(), 4u);
  EXPECT_EQ((*workload)[0].max_tokens, 7);
  EXPECT_EQ(std::get<std::string>((*workload)[1].prompt), "hi");
  EXPECT_EQ((*workload)[1].arrival_seconds, 2.5);
}

TEST(Workload, NamesTheLineOfABadTrace) {
  for (const char* bad : {"nonsense", "{\"arrival_s\": -1, \"prompt\": \"a\", \"max_tokens\": 1}",
                          "{\"arrival_s\": 0, \"max_tokens\": 1}", "{\"arrival_s\": 0, \"prompt\": \"a\"}",
                          "{\"arrival_s\": 0, \"prompt\": \"a\", \"max_tokens\": 1e9}",
                          "{\"arrival_s\": 0, \"prompt_tokens\": 0, \"max_tokens\": 1}"}) {
    const TraceFile trace(std::string("{\"arrival_s\": 0, \"prompt\": \"a\", \"max_tokens\": 1}\n") + bad +
                          "\n");
    WorkloadOptions options = Drawn(1);
    options.trace = trace.path();
    const auto workload = MakeWorkload(options);
    ASSERT_FALSE(workload.ok()) << bad;
    EXPECT_THAT(workload.status().message(), HasSubstr(":2: ")) << bad;
  }
}

TEST(Workload, RefusesOptionsThatMakeNoSense) {
  WorkloadOptions options = Drawn(0);
  EXPECT_FALSE(MakeWorkload(options).ok());
  options = Drawn(1);
  options.arrivals = "weekly";
  EXPECT_FALSE(MakeWorkload(options).ok());
  options = Drawn(1);
  options.rate = -1;
  EXPECT_FALSE(MakeWorkload(options).ok());
  options = Drawn(1);
  options.arrivals = "gamma";
  options.cv = 0;
  EXPECT_FALSE(MakeWorkload(options).ok());
}

}  // namespace
}  // namespace skipjack::cli
