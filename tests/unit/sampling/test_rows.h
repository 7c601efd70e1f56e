// Rows of logits of every shape that a model or an attacker could produce.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace skipjack::testing {

struct TestRow {
  std::string name;
  std::vector<float> logits;
};

inline std::vector<float> NormalRow(std::size_t size, float deviation, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> row(size);
  for (float& logit : row) logit = normal(random);
  return row;
}

// A bulk far below some likely tokens, as language models give it.
inline std::vector<float> PeakedRow(std::size_t size, unsigned seed) {
  std::vector<float> row = NormalRow(size, 2.0f, seed);
  std::mt19937 random(seed + 1);
  for (int i = 0; i < 40; ++i) row[random() % size] = 20.0f - 0.4f * static_cast<float>(i);
  return row;
}

inline std::vector<TestRow> TestRows(std::size_t size, unsigned seed) {
  std::vector<TestRow> rows;
  for (const float deviation : {0.01f, 1.0f, 4.0f, 30.0f}) {
    rows.push_back({"normal " + std::to_string(deviation), NormalRow(size, deviation, seed++)});
  }
  rows.push_back({"peaked", PeakedRow(size, seed++)});

  std::vector<float> ties = NormalRow(size, 2.0f, seed++);
  for (float& logit : ties) logit = std::round(logit);
  rows.push_back({"ties", ties});
  rows.push_back({"all equal", std::vector<float>(size, -3.25f)});

  std::vector<float> sparse = NormalRow(size, 2.0f, seed++);
  std::mt19937 random(seed++);
  for (float& logit : sparse) {
    if (random() % 8 != 0) logit = -std::numeric_limits<float>::infinity();
  }
  sparse[size / 2] = 1.0f;
  rows.push_back({"mostly -inf", sparse});

  std::vector<float> single(size, -std::numeric_limits<float>::infinity());
  single[size - 1] = -1e30f;
  rows.push_back({"one finite", single});

  std::vector<float> extreme = NormalRow(size, 1.0f, seed++);
  extreme[0] = std::numeric_limits<float>::max();
  extreme[size / 2] = std::numeric_limits<float>::lowest();
  rows.push_back({"extreme", extreme});

  std::vector<float> shifted = NormalRow(size, 1.0f, seed++);
  for (float& logit : shifted) logit -= 1e4f;
  rows.push_back({"shifted", shifted});

  std::vector<float> zeros(size, 0.0f);
  for (std::size_t i = 0; i < size; i += 2) zeros[i] = -0.0f;
  rows.push_back({"both zeros", zeros});
  return rows;
}

}  // namespace skipjack::testing
