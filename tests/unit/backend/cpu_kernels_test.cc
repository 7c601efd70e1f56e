// Which kernels a runner gets, and what happens to those that fail their self-test.
#include "backend/cpu/cpu_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>

#include "tests/unit/backend/emulated_kernels.h"
#include "tests/unit/backend/runner_harness.h"

namespace skipjack {
namespace {

using kernels::FloatKernels;
using kernels::IsaLevel;
using kernels::KernelTable;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void WrongLinear(const kernels::LinearArgs& args) {
  kernels::Select(IsaLevel::kGeneric)->linear(args);
  args.out[0] += 1.0f;
}

void WrongNorm(const float* x, const float* weight, int count, float epsilon, float* out) {
  kernels::SelectFloatKernels(IsaLevel::kGeneric)->elementwise.rms_norm(x, weight, count, epsilon, out);
  out[count - 1] += 1.0f;
}

CpuKernelSet Good() {
  return {kernels::Select(IsaLevel::kGeneric), kernels::SelectFloatKernels(IsaLevel::kGeneric)};
}

// Sets that call themselves avx2 and are the generic kernels but for one that is wrong.
class BrokenKernels {
 public:
  BrokenKernels() : table_(*Good().linear), floats_(*Good().floats) {
    table_.name = "avx2";
    table_.level = IsaLevel::kAvx2;
    table_.linear = &WrongLinear;
    floats_.elementwise.rms_norm = &WrongNorm;
    healthy_table_ = table_;
    healthy_table_.linear = Good().linear->linear;
  }
  CpuKernelSet WithWrongProducts() const { return {&table_, Good().floats}; }
  CpuKernelSet WithWrongRows() const { return {&healthy_table_, &floats_}; }

 private:
  KernelTable table_;
  KernelTable healthy_table_;
  FloatKernels floats_;
};

TEST(ChooseKernelsTest, TheMachinesBestByDefault) {
  const std::vector<CpuKernelSet> offered = MachineKernels();
  for (const ComputeType compute : {ComputeType::kF32, ComputeType::kInt8, ComputeType::kBF16}) {
    const Result<KernelChoice> choice = ChooseKernels(offered, Isa::kAuto, compute);
    ASSERT_TRUE(choice.ok()) << choice.status().ToString();
    EXPECT_EQ(choice->kernels.linear->level, kernels::BestIsaLevel());
    EXPECT_EQ(choice->kernels.floats->level, kernels::BestIsaLevel());
    EXPECT_EQ(choice->kernels.linear->bfloat16_products,
              compute == ComputeType::kBF16 && kernels::DetectCpuFeatures().avx512_bf16);
    EXPECT_THAT(choice->rejected, IsEmpty());
  }
}

TEST(ChooseKernelsTest, BFloat16ProductsAreForBFloat16Only) {
  const std::vector<CpuKernelSet>& offered = KernelsWithEmulatedBFloat16();
  const auto pairs = [&](Isa isa, ComputeType compute) {
    const Result<KernelChoice> choice = ChooseKernels(offered, isa, compute);
    return choice.ok() && choice->kernels.linear->bfloat16_products;
  };
  EXPECT_TRUE(pairs(Isa::kAuto, ComputeType::kBF16));
  EXPECT_TRUE(pairs(Isa::kGeneric, ComputeType::kBF16));
  EXPECT_FALSE(pairs(Isa::kAuto, ComputeType::kInt8));
  EXPECT_FALSE(pairs(Isa::kAuto, ComputeType::kF32));
}

TEST(ChooseKernelsTest, FallsBackALevelAndSaysWhatFailed) {
  const BrokenKernels broken;
  Result<KernelChoice> choice =
      ChooseKernels(std::vector{broken.WithWrongProducts(), Good()}, Isa::kAuto, ComputeType::kInt8);
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->kernels.linear, Good().linear);
  EXPECT_THAT(choice->rejected, ElementsAre(HasSubstr("avx2: linear Q4_0")));

  choice = ChooseKernels(std::vector{broken.WithWrongRows(), Good()}, Isa::kAuto, ComputeType::kInt8);
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->kernels.linear, Good().linear);
  EXPECT_THAT(choice->rejected, ElementsAre("avx2: row-wise"));
}

TEST(ChooseKernelsTest, AForcedLevelMustPass) {
  const BrokenKernels broken;
  const std::vector<CpuKernelSet> offered = {broken.WithWrongProducts(), Good()};
  const Status status = ChooseKernels(offered, Isa::kAvx2, ComputeType::kInt8).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("isa avx2 failed its self-test on this machine: linear Q4_0"));
  EXPECT_TRUE(ChooseKernels(offered, Isa::kGeneric, ComputeType::kInt8).ok());
}

TEST(ChooseKernelsTest, AForcedLevelMustBeThere) {
  const Status status = ChooseKernels(std::vector{Good()}, Isa::kAvx512, ComputeType::kInt8).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "isa avx512 is not available on this machine; the best it has is generic");
}

TEST(ChooseKernelsTest, NothingThatWorksIsAnError) {
  const BrokenKernels broken;
  const Status status =
      ChooseKernels(std::vector{broken.WithWrongProducts()}, Isa::kAuto, ComputeType::kInt8).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("no CPU kernels pass"));
  EXPECT_THAT(status.message(), HasSubstr("avx2: linear"));
}

// Sends the log to a text for as long as it lives.
class LogToText {
 public:
  LogToText() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~LogToText() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST(CpuRunnerKernelsTest, ARunnerWarnsAndWorksWithTheNextLevel) {
  const BrokenKernels broken;
  const std::vector<CpuKernelSet> offered = {broken.WithWrongProducts(), Good()};
  Result<std::shared_ptr<const ModelSource>> model = ModelSource::Open(FixturePath("gguf/llama.Q4_0.gguf"));
  ASSERT_TRUE(model.ok());
  CpuRunnerOptions options;
  options.threads = 1;
  options.limits = SmallLimits();
  const LogToText log;
  const auto runner = CreateCpuRunner(*model, options, nullptr, {.kernels = &offered});
  ASSERT_TRUE(runner.ok()) << runner.status().ToString();
  EXPECT_EQ((*runner)->description(), "cpu generic int8 kv=f16 threads=1");
  EXPECT_THAT(log.text(), HasSubstr("warning"));
  EXPECT_THAT(log.text(), HasSubstr("avx2: linear Q4_0"));

  options.isa = Isa::kAvx2;
  EXPECT_EQ(CreateCpuRunner(*model, options, nullptr, {.kernels = &offered}).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST(CpuRunnerKernelsTest, ComputeBFloat16MultipliesPairsWhereTheMachineCan) {
  Result<std::shared_ptr<const ModelSource>> model = ModelSource::Open(FixturePath("gguf/llama.F32.gguf"));
  ASSERT_TRUE(model.ok());
  CpuRunnerOptions options;
  options.threads = 2;
  options.limits = SmallLimits();
  options.compute = ComputeType::kBF16;
  auto harness = RunnerHarness::Create(*model, options, {.kernels = &KernelsWithEmulatedBFloat16()});
  ASSERT_NE(harness, nullptr);
  EXPECT_EQ(harness->runner().description(), "cpu generic+bf16 bf16 kv=f16 threads=2");
  const long before = EmulatedBFloat16Products();
  TestSequence sequence = harness->NewSequence(16);
  EXPECT_FALSE(harness->Prefill(sequence, std::vector<TokenId>{1, 2, 3}).empty());
  EXPECT_GE(EmulatedBFloat16Products() - before, 6 * (*model)->config().layers + 1);
}

}  // namespace
}  // namespace skipjack
