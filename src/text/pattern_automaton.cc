#include "text/pattern_automaton.h"

#include <algorithm>
#include <map>

namespace skipjack {

PatternAutomaton::PatternAutomaton(std::span<const std::string> patterns) {
  nodes_.emplace_back();
  std::vector<std::map<unsigned char, State>> children(1);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].empty()) continue;
    State state = kStart;
    for (const char byte : patterns[i]) {
      const auto [edge, added] =
          children[state].try_emplace(static_cast<unsigned char>(byte), static_cast<State>(nodes_.size()));
      const State next = edge->second;
      if (added) {
        nodes_.push_back({.depth = nodes_[state].depth + 1});
        children.emplace_back();
      }
      state = next;
    }
    if (nodes_[state].pattern == kNone) nodes_[state].pattern = static_cast<std::int32_t>(i);
  }
  for (State state = 0; state < nodes_.size(); ++state) {
    nodes_[state].first_edge = static_cast<std::uint32_t>(labels_.size());
    nodes_[state].edge_count = static_cast<std::uint32_t>(children[state].size());
    for (const auto& [label, target] : children[state]) {
      labels_.push_back(label);
      targets_.push_back(target);
      if (state == kStart) from_start_[label] = target;
    }
  }
  LinkFallbacks();
}

// Breadth first, so that a node's fallback, which is less deep, is complete before it.
void PatternAutomaton::LinkFallbacks() {
  std::vector<State> queue;
  queue.reserve(nodes_.size());
  queue.push_back(kStart);
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const State parent = queue[i];
    const Node& node = nodes_[parent];
    for (std::uint32_t e = node.first_edge; e < node.first_edge + node.edge_count; ++e) {
      const State child = targets_[e];
      queue.push_back(child);
      if (parent == kStart) continue;
      nodes_[child].fallback = Step(node.fallback, static_cast<char>(labels_[e]));
      if (nodes_[child].pattern == kNone) nodes_[child].pattern = nodes_[nodes_[child].fallback].pattern;
    }
  }
}

PatternAutomaton::State PatternAutomaton::FindEdge(State state, unsigned char label) const {
  const Node& node = nodes_[state];
  const auto begin = labels_.begin() + node.first_edge;
  const auto end = begin + node.edge_count;
  const auto found = std::lower_bound(begin, end, label);
  return found != end && *found == label ? targets_[static_cast<std::size_t>(found - labels_.begin())]
                                         : kStart;
}

}  // namespace skipjack
