// The tests' reference: every rule by its definition, in double, over a full sort.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "base/types.h"

namespace skipjack::testing {

// Unnormalised weights; 0 for what a filter removed.
using Weights = std::vector<double>;

inline Weights NaiveWeights(std::span<const float> logits, double temperature) {
  const double maximum = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  Weights weights;
  for (const float logit : logits)
    weights.push_back(std::exp((static_cast<double>(logit) - maximum) / temperature));
  return weights;
}

inline double Sum(const Weights& weights) {
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

// Ids by descending key, lowest id first among equals; only those with a finite key.
template <typename Key>
std::vector<TokenId> NaiveOrder(std::span<const Key> keys) {
  std::vector<TokenId> order;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] > -std::numeric_limits<Key>::infinity()) order.push_back(static_cast<TokenId>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return keys[static_cast<std::size_t>(a)] > keys[static_cast<std::size_t>(b)];
  });
  return order;
}

// How many of the first tokens of `order` are needed for `share` of the total weight.
inline std::size_t NaivePrefix(const std::vector<TokenId>& order, const Weights& weights, double share) {
  const double target = share * Sum(weights);
  double sum = 0.0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    sum += weights[static_cast<std::size_t>(order[i])];
    if (sum >= target) return i + 1;
  }
  return order.size();
}

inline void KeepPrefix(const std::vector<TokenId>& order, std::size_t count, Weights* weights) {
  for (std::size_t i = count; i < order.size(); ++i) (*weights)[static_cast<std::size_t>(order[i])] = 0.0;
}

// -|information content - entropy|; -inf for what is removed.
inline std::vector<double> NaiveTypicality(const Weights& weights) {
  const double total = Sum(weights);
  double entropy = 0.0;
  for (const double w : weights) {
    if (w > 0.0) entropy -= w / total * std::log(w / total);
  }
  std::vector<double> keys;
  for (const double w : weights) {
    keys.push_back(w > 0.0 ? -std::abs(-std::log(w / total) - entropy)
                           : -std::numeric_limits<double>::infinity());
  }
  return keys;
}

}  // namespace skipjack::testing
