#include "sampling/vocabulary_kernels.inl"

namespace skipjack {

const VocabularyKernels* GenericVocabularyKernels() {
  static constexpr VocabularyKernels kKernels = Kernels("generic");
  return &kKernels;
}

}  // namespace skipjack
