#include "backend/decoder.h"

namespace skipjack {

void RunDecoder(std::int32_t layers, Operations& operations) {
  operations.Embed();
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    operations.NormQkvRopeWriteKv(layer);
    operations.Attention(layer);
    operations.OutputProjectionResidual(layer);
    operations.NormGateUpActivation(layer);
    operations.DownResidual(layer);
    if (operations.stopped()) return;
  }
  operations.HeadLogits();
}

}  // namespace skipjack
