#include "sampling/vocabulary_kernels.h"

namespace skipjack {

const VocabularyKernels& BestVocabularyKernels() {
  const VocabularyKernels* avx2 = Avx2VocabularyKernels();
  return avx2 != nullptr ? *avx2 : *GenericVocabularyKernels();
}

}  // namespace skipjack
