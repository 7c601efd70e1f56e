// Aho-Corasick over bytes: follows all places where some of a set of patterns may stand, one byte at a time.
// (Aho, Corasick: Efficient string matching, CACM 18(6), 1975.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skipjack {

// Immutable once built; the caller holds the state. Stepping over n bytes takes O(n) steps along edges, each
// of which searches the at most 256 edges of a node.
class PatternAutomaton {
 public:
  using State = std::uint32_t;
  static constexpr State kStart = 0;
  static constexpr std::int32_t kNone = -1;

  // Matches nothing.
  PatternAutomaton() : PatternAutomaton(std::span<const std::string>()) {}
  // Empty patterns are left out; of equal ones the first counts.
  explicit PatternAutomaton(std::span<const std::string> patterns);

  State Step(State state, char byte) const {
    const auto label = static_cast<unsigned char>(byte);
    while (state != kStart) {
      const State next = FindEdge(state, label);
      if (next != kStart) return next;
      state = nodes_[state].fallback;
    }
    return from_start_[label];
  }

  // Index of the longest pattern that ends here, or kNone.
  std::int32_t Match(State state) const { return nodes_[state].pattern; }
  // How many of the last bytes begin some pattern.
  std::size_t Depth(State state) const { return nodes_[state].depth; }

  bool empty() const { return nodes_.size() == 1; }

 private:
  struct Node {
    std::uint32_t first_edge = 0;
    std::uint32_t edge_count = 0;
    State fallback = kStart;  // the longest proper suffix of this node's bytes that begins a pattern
    std::int32_t pattern = kNone;
    std::uint32_t depth = 0;
  };

  State FindEdge(State state, unsigned char label) const;
  void LinkFallbacks();

  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;  // of the edges of each node, sorted
  std::vector<State> targets_;
  std::array<State, 256> from_start_{};
};

}  // namespace skipjack
