// The fused operations a llama-like decoder is made of. The model is written once against them (decoder.h);
// every device implements them over its own buffers.
//
// An implementation holds the step (tokens, slices, block tables) and its activations; between the calls
// lives one residual stream `hidden` [tokens, hidden]. A device with many threads may let each of them drive
// an Operations of its own through the same sequence of calls (SPMD, as the CPU does); a device with a queue
// enqueues. Errors of the device are sticky and reported by whoever waits for the step.
#pragma once

#include <cstdint>

namespace skipjack {

class Operations {
 public:
  virtual ~Operations() = default;

  // hidden = embedding rows of the step's tokens.
  virtual void Embed() = 0;

  // x = RMSNorm(hidden); q, k, v = x Wqkv (+ bias); rotates q and k; stores k and v at the slots of the
  // tokens.
  virtual void NormQkvRopeWriteKv(std::int32_t layer) = 0;

  // Causal attention of every token over its own sequence's cache, ragged over the slices.
  virtual void Attention(std::int32_t layer) = 0;

  // hidden += attention Wo (+ bias)
  virtual void OutputProjectionResidual(std::int32_t layer) = 0;

  // x = RMSNorm(hidden); activation = SiLU(x Wgate) * (x Wup)
  virtual void NormGateUpActivation(std::int32_t layer) = 0;

  // hidden += activation Wdown
  virtual void DownResidual(std::int32_t layer) = 0;

  // logits = RMSNorm(hidden) Whead, for the rows that the step asks logits of.
  virtual void HeadLogits() = 0;

  // Asked between two operations: whether the step was interrupted, so that what remains need not be called.
  // All lanes of a device get the same answer at the same place. Until they ask, operations of an interrupted
  // step return soon.
  virtual bool stopped() const = 0;
};

}  // namespace skipjack
