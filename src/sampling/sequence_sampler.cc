#include "sampling/sequence_sampler.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace skipjack {
namespace {

// Below this a temperature is as good as greedy, and distances divided by it would overflow.
constexpr float kGreedyTemperature = 1e-5f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool Penalises(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

// Changes a finite logit without letting it become infinite; -inf stays.
void Assign(float* logit, float value) {
  if (*logit == -kInfinity) return;
  *logit = std::clamp(value, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
}

// Tokens beyond the sampled rows (the padding of a head) have no logit.
float* Find(std::span<float> logits, TokenId token) {
  const auto index = static_cast<std::size_t>(token);
  return index < logits.size() ? &logits[index] : nullptr;
}

}  // namespace

SequenceSampler::SequenceSampler(const SamplingParams& params, std::span<const TokenId> prompt,
                                 std::vector<TokenId> end_tokens)
    : params_(params), penalised_(Penalises(params)) {
  if (!params.ignore_eos) endings_ = std::move(end_tokens);
  endings_.insert(endings_.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
  std::sort(endings_.begin(), endings_.end());
  endings_.erase(std::unique(endings_.begin(), endings_.end()), endings_.end());
  if (!penalised_) return;
  for (const TokenId token : prompt) counts_.AddPrompt(token);
}

Status SequenceSampler::Sample(std::span<float> logits, std::uint64_t position, SamplerScratch* scratch,
                               SampledToken* chosen) const {
  RowDistribution& row = scratch->row;
  chosen->top.clear();
  chosen->logprob = std::numeric_limits<float>::quiet_NaN();
  scratch->originals.clear();
  if (row.Load(logits) != RowDistribution::Condition::kGood) {
    return Status::Internal("non-finite logits: the model computed NaN or infinity for this sequence");
  }
  double log_normalizer = 0.0;
  if (wants_logprobs()) {
    log_normalizer = static_cast<double>(row.maximum()) + row.LogSum();
    row.Best(params_.top_logprobs, &chosen->top);
    for (TokenLogprob& entry : chosen->top) {
      entry.logprob = static_cast<float>(static_cast<double>(entry.logprob) - log_normalizer);
    }
  }
  if (changes_logits()) {
    if (wants_logprobs()) KeepOriginals(logits, &scratch->originals);
    ApplyBias(logits);
    ApplyPenalties(logits);
    MaskEndings(logits);
    if (row.Load(logits) != RowDistribution::Condition::kGood) {
      return Status::FailedPrecondition("min_tokens and the model's own masks leave no token to choose from");
    }
  }
  chosen->token = Choose(position, &row);
  if (wants_logprobs()) {
    float logit = logits[static_cast<std::size_t>(chosen->token)];
    for (const TokenLogprob& original : scratch->originals) {
      if (original.token == chosen->token) logit = original.logprob;
    }
    chosen->logprob = static_cast<float>(static_cast<double>(logit) - log_normalizer);
  }
  return Status::Ok();
}

void SequenceSampler::KeepOriginals(std::span<const float> logits,
                                    std::vector<TokenLogprob>* originals) const {
  const auto keep = [&](TokenId token) {
    const auto index = static_cast<std::size_t>(token);
    if (index < logits.size()) originals->push_back({token, logits[index]});
  };
  for (const auto& [token, bias] : params_.logit_bias) keep(token);
  for (const TokenCounts::Entry& entry : counts_.slots()) {
    if (entry.token != TokenCounts::kNone) keep(entry.token);
  }
}

void SequenceSampler::ApplyBias(std::span<float> logits) const {
  for (const auto& [token, bias] : params_.logit_bias) {
    if (float* logit = Find(logits, token); logit != nullptr) Assign(logit, *logit + bias);
  }
}

void SequenceSampler::ApplyPenalties(std::span<float> logits) const {
  const float repetition = params_.repetition_penalty;
  for (const TokenCounts::Entry& entry : counts_.slots()) {
    if (entry.token == TokenCounts::kNone) continue;
    float* logit = Find(logits, entry.token);
    if (logit == nullptr) continue;
    float value = *logit > 0.0f ? *logit / repetition : *logit * repetition;
    if (entry.generated > 0) {
      value -= params_.presence_penalty + params_.frequency_penalty * static_cast<float>(entry.generated);
    }
    Assign(logit, value);
  }
}

void SequenceSampler::MaskEndings(std::span<float> logits) const {
  if (!masks_endings()) return;
  for (const TokenId token : endings_) {
    if (float* logit = Find(logits, token); logit != nullptr) *logit = -kInfinity;
  }
}

TokenId SequenceSampler::Choose(std::uint64_t position, RowDistribution* row) const {
  if (params_.temperature < kGreedyTemperature || params_.top_k == 1) return row->Argmax();
  row->SetTemperature(params_.temperature);
  if (params_.top_k > 0) row->KeepTopK(params_.top_k);
  if (params_.typical_p < 1.0f) row->KeepTypical(params_.typical_p);
  if (params_.top_p < 1.0f) row->KeepTopP(params_.top_p);
  if (params_.min_p > 0.0f) row->KeepMinP(params_.min_p);
  return row->Draw(params_.seed, position);
}

void SequenceSampler::Accept(TokenId token) {
  ++generated_;
  if (penalised_) counts_.AddGenerated(token);
}

bool SequenceSampler::EndsText(TokenId token) const {
  return std::binary_search(endings_.begin(), endings_.end(), token);
}

}  // namespace skipjack
