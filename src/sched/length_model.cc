#include "sched/length_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace skipjack {
namespace {

constexpr std::int32_t kExact = 16;  // lengths below have a bucket each
constexpr int kPerOctave = 8;

constexpr double kLean = 24;            // answers that a parent's distribution is worth
constexpr double kGrowth = 1.00016923;  // an answer's weight halves after 4,096 of its class
constexpr double kRescaleAt = 1e9;
// Tables are built again when so much more has been seen.
constexpr double kStale = 1.05;

std::int32_t PowerOfTwo(std::int32_t value) {
  return static_cast<std::int32_t>(std::bit_width(static_cast<std::uint32_t>(std::max(value, 0))));
}

}  // namespace

std::size_t LengthModel::BucketOf(std::int32_t tokens) {
  if (tokens < kExact) return static_cast<std::size_t>(std::max(tokens, 1) - 1);
  const int octave = std::bit_width(static_cast<std::uint32_t>(tokens)) - 1;  // at least 4
  const int eighth = (tokens >> (octave - 3)) & (kPerOctave - 1);
  return std::min(static_cast<std::size_t>(kExact - 1 + (octave - 4) * kPerOctave + eighth), kBuckets - 1);
}

std::int32_t LengthModel::FirstOf(std::size_t bucket) {
  if (bucket < static_cast<std::size_t>(kExact - 1)) return static_cast<std::int32_t>(bucket) + 1;
  const auto index = static_cast<std::int32_t>(bucket) - (kExact - 1);
  const std::int32_t octave = 4 + index / kPerOctave;
  const std::int64_t first = std::int64_t{kPerOctave + index % kPerOctave} << (octave - 3);
  return static_cast<std::int32_t>(std::min<std::int64_t>(first, std::numeric_limits<std::int32_t>::max()));
}

LengthModel::LengthModel() {
  nodes_.emplace_back();
  Build(&nodes_[kAll]);
}

LengthModel::ClassId LengthModel::Open(const Key& key, ClassId parent) {
  auto found = by_key_.find(key);
  if (found == by_key_.end()) {
    if (nodes_.size() >= kMaxClasses) return parent;
    found = by_key_.emplace(key, static_cast<ClassId>(nodes_.size())).first;
    nodes_.emplace_back().parent = parent;
  }
  return found->second;
}

LengthModel::ClassId LengthModel::Classify(std::string_view tenant, std::int32_t max_tokens,
                                           std::int32_t prompt_tokens) {
  const std::int32_t most = PowerOfTwo(max_tokens);
  const ClassId any = Open({most, -1, {}}, kAll);
  const ClassId own = Open({most, -1, "=" + std::string(tenant)}, any);
  const ClassId id = Open({most, PowerOfTwo(prompt_tokens), "=" + std::string(tenant)}, own);
  Node& node = nodes_[static_cast<std::size_t>(id)];
  if (node.built_from < 0 || seen_ > node.built_from * kStale) Build(&node);
  return id;
}

void LengthModel::Observe(ClassId id, std::int32_t tokens) {
  const std::size_t bucket = BucketOf(tokens);
  seen_ += 1;
  for (ClassId at = id; at >= 0; at = nodes_[static_cast<std::size_t>(at)].parent) {
    Node& node = nodes_[static_cast<std::size_t>(at)];
    node.counts[bucket] += static_cast<float>(node.increment);
    node.own = node.own / kGrowth + 1;
    node.increment *= kGrowth;
    if (node.increment < kRescaleAt) continue;
    for (float& count : node.counts) count = static_cast<float>(count / node.increment);
    node.increment = 1;
  }
  Node& node = nodes_[static_cast<std::size_t>(id)];
  if (seen_ > node.built_from * kStale) Build(&node);
}

void LengthModel::Build(Node* node) {
  // From the root to the node: a parent's distribution is the start of its child's.
  std::array<const Node*, 4> line{};
  std::size_t depth = 0;
  for (const Node* at = node; at != nullptr; at = at->parent < 0 ? nullptr : &At(at->parent))
    line[depth++] = at;
  std::array<double, kBuckets> mass{};
  // P(L > a) = 1 / (a + 1), cut off at the last bucket.
  for (std::size_t k = 0; k < kBuckets; ++k) {
    const double after = k + 1 < kBuckets ? 1.0 / FirstOf(k + 1) : 0.0;
    mass[k] = 1.0 / FirstOf(k) - after;
  }
  double lean = 1;
  while (depth > 0) {
    const Node& from = *line[--depth];
    const double scale = 1 / from.increment;
    double total = 0;
    for (std::size_t k = 0; k < kBuckets; ++k) {
      mass[k] = lean * mass[k] + static_cast<double>(from.counts[k]) * scale;
      total += mass[k];
    }
    for (double& m : mass) m /= total;
    lean = kLean;
  }

  // after[k]: P(L in k or later). At age FirstOf(k) - 1, try to stop after each later bucket j.
  std::array<double, kBuckets + 1> after{};
  std::array<double, kBuckets + 1> first_moment{};
  const auto middle = [](std::size_t k) {
    return k + 1 < kBuckets ? (FirstOf(k) + FirstOf(k + 1) - 1) / 2.0 : static_cast<double>(FirstOf(k));
  };
  for (std::size_t k = kBuckets; k-- > 0;) {
    after[k] = after[k + 1] + mass[k];
    first_moment[k] = first_moment[k + 1] + mass[k] * middle(k);
  }
  for (std::size_t k = 0; k < kBuckets; ++k) {
    const double age = FirstOf(k) - 1;
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t j = k; j < kBuckets; ++j) {
      const double ends = after[k] - after[j + 1];
      if (ends <= 0) continue;
      const double last = j + 1 < kBuckets ? FirstOf(j + 1) - 1 : FirstOf(j);
      const double work = first_moment[k] - first_moment[j + 1] - age * ends + after[j + 1] * (last - age);
      best = std::min(best, work / ends);
    }
    node->mass[k] = static_cast<float>(mass[k]);
    node->after[k] = static_cast<float>(after[k]);
    node->rank[k] = static_cast<float>(std::isfinite(best) ? std::max(best, 1.0) : age + 1);
    node->expected[k] = static_cast<float>(after[k] > 0 ? first_moment[k] / after[k] : 2 * (age + 1));
  }
  node->built_from = seen_;
}

double LengthModel::Rank(ClassId id, std::int32_t generated) const {
  return At(id).rank[BucketOf(generated + 1)];
}

double LengthModel::RankAfter(ClassId id, std::int32_t generated, double work) const {
  const Node& node = At(id);
  const std::size_t from = BucketOf(generated + 1);
  double rest = 0;
  for (std::size_t k = from; k < kBuckets; ++k) rest += node.mass[k];
  if (rest <= 0) return work + generated + 1;
  const double age = generated;
  double best = std::numeric_limits<double>::infinity();
  double ends = 0;
  double spent = 0;
  for (std::size_t k = from; k < kBuckets; ++k) {
    const double last = k + 1 < kBuckets ? FirstOf(k + 1) - 1 : FirstOf(k);
    const double first = std::max<double>(FirstOf(k), age + 1);
    ends += node.mass[k];
    spent += node.mass[k] * ((first + last) / 2 - age);
    if (ends > 0) best = std::min(best, (work * rest + spent + (rest - ends) * (last - age)) / ends);
  }
  return std::max(best, 1.0);
}

double LengthModel::Survival(ClassId id, std::int32_t generated, std::int32_t more) const {
  const Node& node = At(id);
  const double now = node.after[BucketOf(generated + 1)];
  return now > 0 ? node.after[BucketOf(generated + more + 1)] / now : 1;
}

double LengthModel::ExpectedLength(ClassId id, std::int32_t generated) const {
  return std::max<double>(At(id).expected[BucketOf(generated + 1)], generated + 1.0);
}

}  // namespace skipjack
