// Instruction-set levels of the CPU kernels and what this machine offers.
#pragma once

#include <cstdint>

namespace skipjack::kernels {

// Each level is compiled from the same sources with its own flags. Results may differ between levels (order
// and width of float sums), never within one.
enum class IsaLevel : std::uint8_t {
  kGeneric,  // what the build's baseline offers (x86-64: SSE2)
  kAvx2,     // AVX2 + FMA + F16C
  kAvx512,   // AVX-512 F, BW, DQ, VL and VNNI
};

// True only when both the processor (CPUID) and the operating system's saved state (XGETBV) have it.
struct CpuFeatures {
  bool avx2 = false;         // AVX2, FMA and F16C
  bool avx512 = false;       // F, BW, DQ, VL and VNNI
  bool avx512_bf16 = false;  // BF16 beside `avx512`
};

CpuFeatures DetectCpuFeatures();

// True when this build contains the level's kernels and the machine can run them.
bool IsSupported(IsaLevel level);

IsaLevel BestIsaLevel();

// "generic", "avx2", "avx512".
const char* IsaName(IsaLevel level);

}  // namespace skipjack::kernels
