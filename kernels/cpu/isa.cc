#include "kernels/cpu/isa.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace skipjack::kernels {
namespace {

#if defined(__x86_64__) || defined(__i386__)

struct CpuidResult {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidResult Cpuid(unsigned leaf, unsigned subleaf) {
  CpuidResult result;
  __get_cpuid_count(leaf, subleaf, &result.eax, &result.ebx, &result.ecx, &result.edx);
  return result;
}

// XCR0: which register states the operating system saves.
std::uint64_t ReadXcr0() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

constexpr bool HasBit(unsigned word, int bit) {
  return ((word >> bit) & 1u) != 0;
}

CpuFeatures Detect() {
  CpuFeatures features;
  const CpuidResult one = Cpuid(1, 0);
  const bool osxsave = HasBit(one.ecx, 27);
  if (!osxsave) return features;
  const std::uint64_t xcr0 = ReadXcr0();
  constexpr std::uint64_t kYmmState = 0x06;  // SSE and AVX halves
  constexpr std::uint64_t kZmmState = 0xe6;  // and opmask, upper zmm, zmm16..31
  const CpuidResult seven = Cpuid(7, 0);
  const bool fma = HasBit(one.ecx, 12);
  const bool avx = HasBit(one.ecx, 28);
  const bool f16c = HasBit(one.ecx, 29);
  const bool avx2 = HasBit(seven.ebx, 5);
  features.avx2 = (xcr0 & kYmmState) == kYmmState && avx && fma && f16c && avx2;
  const bool f = HasBit(seven.ebx, 16);
  const bool dq = HasBit(seven.ebx, 17);
  const bool bw = HasBit(seven.ebx, 30);
  const bool vl = HasBit(seven.ebx, 31);
  const bool vnni = HasBit(seven.ecx, 11);
  features.avx512 = features.avx2 && (xcr0 & kZmmState) == kZmmState && f && dq && bw && vl && vnni;
  features.avx512_bf16 = features.avx512 && HasBit(Cpuid(7, 1).eax, 5);
  return features;
}

#else

CpuFeatures Detect() {
  return {};
}

#endif

}  // namespace

CpuFeatures DetectCpuFeatures() {
  static const CpuFeatures features = Detect();
  return features;
}

bool IsSupported(IsaLevel level) {
  switch (level) {
    case IsaLevel::kGeneric:
      return true;
    case IsaLevel::kAvx2:
      return DetectCpuFeatures().avx2;
    case IsaLevel::kAvx512:
      return DetectCpuFeatures().avx512;
  }
  return false;
}

IsaLevel BestIsaLevel() {
  if (IsSupported(IsaLevel::kAvx512)) return IsaLevel::kAvx512;
  if (IsSupported(IsaLevel::kAvx2)) return IsaLevel::kAvx2;
  return IsaLevel::kGeneric;
}

const char* IsaName(IsaLevel level) {
  switch (level) {
    case IsaLevel::kGeneric:
      return "generic";
    case IsaLevel::kAvx2:
      return "avx2";
    case IsaLevel::kAvx512:
      return "avx512";
  }
  return "unknown";
}

}  // namespace skipjack::kernels
