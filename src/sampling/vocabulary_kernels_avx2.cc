// Compiled with AVX2 and FMA where the compiler targets x86-64; the processor is asked before it is used.
#ifdef __AVX2__

#include "sampling/vocabulary_kernels.inl"

namespace skipjack {

const VocabularyKernels* Avx2VocabularyKernels() {
  static constexpr VocabularyKernels kKernels = Kernels("avx2");
  const bool supported = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return supported ? &kKernels : nullptr;
}

}  // namespace skipjack

#else

#include "sampling/vocabulary_kernels.h"

namespace skipjack {

const VocabularyKernels* Avx2VocabularyKernels() {
  return nullptr;
}

}  // namespace skipjack

#endif
