#include "text/pattern_automaton.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace skipjack {
namespace {

std::string RandomWord(std::mt19937_64& random, std::size_t length) {
  std::string word;
  for (std::size_t i = 0; i < length; ++i) word.push_back(static_cast<char>('a' + random() % 2));
  return word;
}

// Directly from the definitions.
std::int32_t LongestAtEnd(const std::vector<std::string>& patterns, const std::string& text) {
  std::int32_t best = PatternAutomaton::kNone;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].empty() || !text.ends_with(patterns[i])) continue;
    if (best < 0 || patterns[i].size() > patterns[static_cast<std::size_t>(best)].size()) {
      best = static_cast<std::int32_t>(i);
    }
  }
  return best;
}

std::size_t LongestBegun(const std::vector<std::string>& patterns, const std::string& text) {
  for (std::size_t length = text.size(); length > 0; --length) {
    for (const std::string& pattern : patterns) {
      if (pattern.starts_with(text.substr(text.size() - length))) return length;
    }
  }
  return 0;
}

TEST(PatternAutomatonTest, AgreesWithTheDefinition) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> patterns(random() % 5);
    for (std::string& pattern : patterns) pattern = RandomWord(random, random() % 6);
    const PatternAutomaton automaton(patterns);
    PatternAutomaton::State state = PatternAutomaton::kStart;
    std::string text;
    for (int i = 0; i < 40; ++i) {
      text += RandomWord(random, 1);
      state = automaton.Step(state, text.back());
      ASSERT_EQ(automaton.Match(state), LongestAtEnd(patterns, text));
      ASSERT_EQ(automaton.Depth(state), LongestBegun(patterns, text));
    }
  }
}

TEST(PatternAutomatonTest, AllBytes) {
  std::vector<std::string> patterns;
  for (int byte = 0; byte < 256; ++byte) patterns.push_back({'\xFF', static_cast<char>(byte), '\0'});
  const PatternAutomaton automaton(patterns);
  for (int byte = 0; byte < 256; ++byte) {
    auto state = automaton.Step(PatternAutomaton::kStart, '\xFF');
    state = automaton.Step(state, static_cast<char>(byte));
    EXPECT_EQ(automaton.Match(automaton.Step(state, '\0')), byte);
  }
}

TEST(PatternAutomatonTest, NoPatterns) {
  const PatternAutomaton automaton;
  EXPECT_TRUE(automaton.empty());
  EXPECT_EQ(automaton.Step(PatternAutomaton::kStart, 'x'), PatternAutomaton::kStart);
  EXPECT_EQ(automaton.Match(PatternAutomaton::kStart), PatternAutomaton::kNone);
}

}  // namespace
}  // namespace skipjack
