#include "text/bpe_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace skipjack {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A vocabulary of the letters `letters` and what `merges` make of them.
class LetterVocabulary {
 public:
  LetterVocabulary(const std::string& letters,
                   const std::vector<std::pair<std::string, std::string>>& pairs) {
    byte_tokens.fill(-1);
    for (const char letter : letters)
      byte_tokens[static_cast<unsigned char>(letter)] = Add(std::string(1, letter));
    for (const auto& [left, right] : pairs) {
      const TokenId l = ids.at(left), r = ids.at(right);
      const auto known = ids.find(left + right);
      merges.push_back({l, r, known == ids.end() ? Add(left + right) : known->second});
    }
  }

  BpeModel Model() const { return BpeModel(bytes, byte_tokens, merges); }

  std::vector<std::string> Names(const std::vector<TokenId>& tokens) const {
    std::vector<std::string> names;
    for (const TokenId id : tokens) names.emplace_back(bytes[static_cast<std::size_t>(id)]);
    return names;
  }

  StringArena bytes;
  std::array<TokenId, 256> byte_tokens{};
  std::vector<BpeModel::Merge> merges;
  std::map<std::string, TokenId> ids;

 private:
  TokenId Add(const std::string& name) {
    const auto id = static_cast<TokenId>(bytes.size());
    bytes.Add(name);
    ids[name] = id;
    return id;
  }
};

std::vector<TokenId> Encode(const BpeModel& model, std::string_view piece) {
  BpeWorkspace work;
  std::vector<TokenId> ids;
  model.Encode(piece, work, ids);
  return ids;
}

// The algorithm as it is defined: look at all pairs, join the leftmost one of the best rank, begin again.
std::vector<TokenId> NaiveEncode(const LetterVocabulary& vocabulary, std::string_view piece) {
  std::vector<TokenId> ids;
  for (const char byte : piece) ids.push_back(vocabulary.byte_tokens[static_cast<unsigned char>(byte)]);
  while (true) {
    std::size_t best_rank = vocabulary.merges.size(), best = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        const auto& merge = vocabulary.merges[rank];
        if (merge.left == ids[i] && merge.right == ids[i + 1]) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == vocabulary.merges.size()) return ids;
    ids[best] = vocabulary.merges[best_rank].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(BpeModelTest, JoinsByRankNotFromTheLeft) {
  const LetterVocabulary v("abc", {{"b", "c"}, {"a", "b"}});
  EXPECT_THAT(v.Names(Encode(v.Model(), "abc")), ElementsAre("a", "bc"));
  EXPECT_THAT(v.Names(Encode(v.Model(), "abab")), ElementsAre("ab", "ab"));
}

TEST(BpeModelTest, EqualPairsJoinFromTheLeft) {
  const LetterVocabulary v("a", {{"a", "a"}});
  EXPECT_THAT(v.Names(Encode(v.Model(), "aaa")), ElementsAre("aa", "a"));
  EXPECT_THAT(v.Names(Encode(v.Model(), "aaaaa")), ElementsAre("aa", "aa", "a"));
}

TEST(BpeModelTest, AMergeOfHigherRankMayBecomePossibleLater) {
  const LetterVocabulary v("abcd", {{"a", "b"}, {"c", "d"}, {"ab", "cd"}, {"b", "c"}});
  EXPECT_THAT(v.Names(Encode(v.Model(), "abcdabcd")), ElementsAre("abcd", "abcd"));
}

TEST(BpeModelTest, OfTwoMergesOfOnePairTheFirstCounts) {
  const LetterVocabulary v("abc", {{"a", "b"}, {"b", "c"}, {"a", "b"}});
  EXPECT_THAT(v.Names(Encode(v.Model(), "abc")), ElementsAre("ab", "c"));
}

TEST(BpeModelTest, BytesWithoutATokenAreLeftOut) {
  const LetterVocabulary v("ab", {{"a", "b"}});
  EXPECT_THAT(v.Names(Encode(v.Model(),
                             "a\x01"
                             "b")),
              ElementsAre("ab"));
  EXPECT_THAT(Encode(v.Model(), "\x01\x02"), IsEmpty());
  EXPECT_THAT(Encode(v.Model(), ""), IsEmpty());
}

TEST(BpeModelTest, AgreesWithTheDefinitionOnRandomModels) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::string letters = "abc";
    std::vector<std::string> names = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    for (int i = 0; i < 20; ++i) {
      const std::string left = names[random() % names.size()], right = names[random() % names.size()];
      if (left.size() + right.size() > 8) continue;
      merges.emplace_back(left, right);
      names.push_back(left + right);
    }
    const LetterVocabulary v(letters, merges);
    const BpeModel plain = v.Model();
    BpeModel indexed = v.Model();
    std::vector<TokenId> all;
    for (std::size_t i = 0; i < v.bytes.size(); ++i) all.push_back(static_cast<TokenId>(i));
    indexed.IndexWholePieces(all, /*only_reachable=*/true);
    for (int text = 0; text < 20; ++text) {
      std::string piece;
      for (std::size_t length = random() % 20; length > 0; --length) piece += letters[random() % 3];
      const std::vector<TokenId> expected = NaiveEncode(v, piece);
      ASSERT_EQ(Encode(plain, piece), expected) << piece;
      ASSERT_EQ(Encode(indexed, piece), expected) << piece;
    }
  }
}

TEST(BpeModelTest, IgnoringMergesTakesWholePieces) {
  const LetterVocabulary v("abc", {{"b", "c"}, {"a", "b"}, {"ab", "c"}});
  BpeModel model = v.Model();
  const TokenId abc = v.ids.at("abc");
  model.IndexWholePieces(std::vector<TokenId>{abc}, /*only_reachable=*/true);
  EXPECT_THAT(v.Names(Encode(model, "abc")), ElementsAre("a", "bc"));
  model.IndexWholePieces(std::vector<TokenId>{abc}, /*only_reachable=*/false);
  EXPECT_THAT(v.Names(Encode(model, "abc")), ElementsAre("abc"));
}

// Doubling the text may double the work, and little more.
TEST(BpeModelTest, WorkGrowsWithTheText) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (std::string name = "a"; name.size() < 1 << 10; name += name) merges.emplace_back(name, name);
  for (std::string name = "b"; name.size() < 200; name += "b") merges.emplace_back(name, "b");
  merges.emplace_back("a", "b");
  const LetterVocabulary v("ab", merges);
  const BpeModel model = v.Model();
  for (const std::string unit : {"a", "b", "ab", "ba", "aab"}) {
    const auto work_for = [&](std::size_t bytes) {
      std::string text;
      while (text.size() < bytes) text += unit;
      BpeWorkspace work;
      std::vector<TokenId> ids;
      model.Encode(text, work, ids);
      return work.counters().pair_lookups + work.counters().heap_pops;
    };
    const std::uint64_t half = work_for(256 << 10), whole = work_for(512 << 10);
    EXPECT_LE(static_cast<double>(whole), 2.05 * static_cast<double>(half)) << unit;
    EXPECT_LE(whole, 6u * (512u << 10)) << unit;
  }
}

}  // namespace
}  // namespace skipjack
