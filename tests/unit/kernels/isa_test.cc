#include "kernels/cpu/isa.h"

#include <gtest/gtest.h>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/self_test.h"

namespace skipjack::kernels {
namespace {

TEST(Isa, GenericIsAlwaysThere) {
  EXPECT_TRUE(IsSupported(IsaLevel::kGeneric));
  EXPECT_TRUE(IsSupported(BestIsaLevel()));
}

TEST(Isa, DetectionAgreesWithTheCompilersOwn) {
#if defined(__x86_64__)
  const CpuFeatures features = DetectCpuFeatures();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
  EXPECT_EQ(features.avx2, avx2);
  EXPECT_EQ(features.avx512, avx512 && avx2);
  EXPECT_EQ(features.avx512_bf16, features.avx512 && __builtin_cpu_supports("avx512bf16"));
#else
  GTEST_SKIP() << "x86 only";
#endif
}

TEST(Isa, EachSupportedLevelHasItsTableAndPassesTheSelfTest) {
  for (IsaLevel level : {IsaLevel::kGeneric, IsaLevel::kAvx2, IsaLevel::kAvx512}) {
    const KernelTable* table = Select(level);
    ASSERT_EQ(table != nullptr, IsSupported(level)) << IsaName(level);
    if (table == nullptr) continue;
    EXPECT_EQ(table->level, level);
    EXPECT_STREQ(table->name, IsaName(level));
    EXPECT_EQ(SelfTest(*table), "") << IsaName(level);
  }
}

// A self-test that cannot fail is worth nothing: break each kernel of a table and see that it is named.
KernelTable broken_base;
void BrokenLinear(const LinearArgs& args) {
  broken_base.linear(args);
  if (args.rows > 1) args.out[args.out_stride] += 0.5f;
}
void BrokenQuantize(ActivationKind kind, const float* x, std::int64_t columns, void* out) {
  broken_base.quantize(kind, x, columns, out);
  if (kind != ActivationKind::kFloat32) static_cast<ActivationBlock*>(out)->codes[3] ^= 4;
}

TEST(SelfTest, NamesWhatIsBroken) {
  broken_base = *Select(IsaLevel::kGeneric);
  KernelTable broken = broken_base;
  broken.linear = BrokenLinear;
  EXPECT_NE(SelfTest(broken).find("linear"), std::string::npos) << SelfTest(broken);
  broken = broken_base;
  broken.quantize = BrokenQuantize;
  EXPECT_NE(SelfTest(broken).find("quantize"), std::string::npos) << SelfTest(broken);
}

}  // namespace
}  // namespace skipjack::kernels
