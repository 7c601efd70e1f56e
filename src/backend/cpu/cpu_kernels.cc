#include "backend/cpu/cpu_kernels.h"

#include "kernels/cpu/self_test.h"

namespace skipjack {
namespace {

using kernels::IsaLevel;

// Empty when the set works.
std::string SelfTestFailures(const CpuKernelSet& set) {
  std::string failed = kernels::SelfTest(*set.linear);
  const std::string floats = kernels::FloatSelfTest(*set.floats);
  if (!failed.empty() && !floats.empty()) failed += ", ";
  return failed + floats;
}

IsaLevel LevelOf(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return IsaLevel::kAvx512;
    case Isa::kAvx2:
      return IsaLevel::kAvx2;
    default:
      return IsaLevel::kGeneric;
  }
}

Status NotThere(std::span<const CpuKernelSet> offered, IsaLevel level) {
  const char* best = offered.empty() ? "none" : kernels::IsaName(offered.front().linear->level);
  return Status::FailedPrecondition(std::string("isa ") + kernels::IsaName(level) +
                                    " is not available on this machine; the best it has is " + best);
}

}  // namespace

std::vector<CpuKernelSet> MachineKernels() {
  std::vector<CpuKernelSet> sets;
  for (const IsaLevel level : {IsaLevel::kAvx512, IsaLevel::kAvx2, IsaLevel::kGeneric}) {
    const kernels::KernelTable* linear = kernels::Select(level);
    const kernels::FloatKernels* floats = kernels::SelectFloatKernels(level);
    if (linear == nullptr || floats == nullptr) continue;
    const kernels::KernelTable* pairs = kernels::SelectWithBFloat16Products(level);
    if (pairs != linear) sets.push_back({pairs, floats});
    sets.push_back({linear, floats});
  }
  return sets;
}

Result<KernelChoice> ChooseKernels(std::span<const CpuKernelSet> offered, Isa wanted, ComputeType compute) {
  KernelChoice choice;
  for (const CpuKernelSet& set : offered) {
    if (set.linear->bfloat16_products && compute != ComputeType::kBF16) continue;
    if (wanted != Isa::kAuto && set.linear->level != LevelOf(wanted)) continue;
    const std::string failed = SelfTestFailures(set);
    if (failed.empty()) {
      choice.kernels = set;
      return choice;
    }
    choice.rejected.push_back(std::string(set.linear->name) + ": " + failed);
    if (wanted == Isa::kAuto) continue;
    return Status::FailedPrecondition(std::string("isa ") + kernels::IsaName(set.linear->level) +
                                      " failed its self-test on this machine: " + failed);
  }
  if (wanted != Isa::kAuto) return NotThere(offered, LevelOf(wanted));
  std::string message = "no CPU kernels pass their self-test on this machine";
  for (const std::string& rejected : choice.rejected) message += "; " + rejected;
  return Status::FailedPrecondition(std::move(message));
}

}  // namespace skipjack
