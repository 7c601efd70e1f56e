#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/unit/text/fixture_tokenizers.h"
#include "tests/unit/text/random_text.h"

namespace skipjack {
namespace {

using namespace pretokenize;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Split(std::string_view pre, std::string_view text) {
  std::vector<std::string> pieces;
  auto emit = [&pieces](std::string_view piece) { pieces.emplace_back(piece); };
  if (!text.empty()) ForEachPiece(FindPreTokenizer(pre)->stages, text, emit);
  return pieces;
}

// The lengths come from the patterns themselves, run by another library
// (tests/fixtures/gen/pre_tokenizers.py).
TEST(PreTokenizerTest, SplitsLikeThePatterns) {
  const nlohmann::json fixture = ReadFixture("pre_tokenizers.json");
  const std::vector<std::string> texts = fixture.at("texts");
  ASSERT_GE(fixture.at("families").size(), 15u);
  for (const auto& [pre, expected] : fixture.at("families").items()) {
    SCOPED_TRACE(pre);
    ASSERT_NE(FindPreTokenizer(pre), nullptr);
    ASSERT_EQ(expected.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::vector<std::size_t> lengths;
      for (const std::string& piece : Split(pre, texts[i])) lengths.push_back(piece.size());
      EXPECT_EQ(lengths, expected[i].get<std::vector<std::size_t>>()) << "text " << i << ": " << texts[i];
    }
  }
}

TEST(PreTokenizerTest, WorkedExamples) {
  EXPECT_THAT(Split("gpt-2", "I'm  2024's"), ElementsAre("I", "'m", " ", " 2024", "'s"));
  EXPECT_THAT(Split("smollm", "in 2024,"), ElementsAre("in", " ", "2", "0", "2", "4", ","));
  EXPECT_THAT(Split("llama-bpe", "YOU'LL pay 12345\n\n  now"),
              ElementsAre("YOU", "'LL", " pay", " ", "123", "45", "\n\n", " ", " now"));
  EXPECT_THAT(Split("qwen2", "(a)b 12"), ElementsAre("(a", ")b", " ", "1", "2"));
  EXPECT_THAT(Split("gpt-4o", "CamelCase HTTPServer it's"),
              ElementsAre("Camel", "Case", " HTTPServer", " it's"));
}

TEST(PreTokenizerTest, PiecesJoinedAreTheText) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::string text = RandomText(random, random() % 80);
    for (const char* pre :
         {"gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "deepseek-llm",
          "deepseek-coder", "deepseek-v3", "falcon", "default", "seed-coder", "minicpm5"}) {
      std::string joined;
      for (const std::string& piece : Split(pre, text)) {
        EXPECT_FALSE(piece.empty());
        joined += piece;
      }
      EXPECT_EQ(joined, text) << pre;
    }
  }
}

TEST(PreTokenizerTest, UnknownNamesAreNotFound) {
  EXPECT_EQ(FindPreTokenizer(""), nullptr);
  EXPECT_EQ(FindPreTokenizer("qwen"), nullptr);
  EXPECT_EQ(FindPreTokenizer("zzz"), nullptr);
}

TEST(PreTokenizerTest, EveryListedNameIsFound) {
  const std::string known = KnownPreTokenizers();
  for (std::size_t begin = 0; begin < known.size();) {
    const std::size_t end = std::min(known.find(", ", begin), known.size());
    EXPECT_NE(FindPreTokenizer(known.substr(begin, end - begin)), nullptr)
        << known.substr(begin, end - begin);
    begin = end + 2;
  }
  EXPECT_THAT(known, HasSubstr("llama-bpe, "));
}

// Counts how often a scanner looks at a character.
class CountedText {
 public:
  CountedText(std::string_view text, std::uint64_t* reads) : text_(text), size_(text.size()), reads_(reads) {}
  std::size_t size() const { return size_; }
  Character At(std::size_t position) const {
    ++*reads_;
    return text_.At(position);
  }

 private:
  PlainText text_;
  std::size_t size_;
  std::uint64_t* reads_;
};

template <class Scanner>
double ReadsPerCharacter(std::string_view unit, std::size_t count, std::string_view tail) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += unit;
  text += tail;
  std::uint64_t reads = 0;
  const CountedText counted(text, &reads);
  for (std::size_t begin = 0; begin < text.size();) begin = Scanner::Next(counted, begin);
  return static_cast<double>(reads) / static_cast<double>(count);
}

constexpr WordRules kCased{.split_at_case = true, .contractions = WordRules::Contractions::kEndsWord};
constexpr CodePointRange kCjk[] = {{0x4E00, 0x9FA5}};

template <class Scanner>
class LinearScannerTest : public ::testing::Test {};
using Scanners = ::testing::Types<Gpt2Words, Words<WordRules{}>, Words<kCased>, Matches<Digits<3>>,
                                  Matches<LineBreaks>, Matches<AsciiDigitTriples>,
                                  Matches<ClassRuns<kLetter, true>>, Matches<PunctuationRuns<true>>,
                                  Matches<RangeRuns<kCjk, true>>, TrailingSpaces, Matches<DeepSeekV3Words>>;
TYPED_TEST_SUITE(LinearScannerTest, Scanners);

// A scanner that went back over a run for every character of it would read thousands of times per character
// here.
TYPED_TEST(LinearScannerTest, ReadsEachCharacterAFewTimes) {
  for (const char* unit :
       {"a",   "A",  " ",  "\n", "1",  "!",   "'",   "é",    "中",      "\u0301", "😀",  " a", "a ",    "\n ",
        " \n", "' ", "'s", "Aa", "aA", "中A", "A中", "\x01", "a\u0301", "<|",     "1a", "1 ", "\u3000"}) {
    for (const char* tail : {"", "a", "A", " ", "\n", "1", "!", "中", "\x01"}) {
      EXPECT_LE(ReadsPerCharacter<TypeParam>(unit, 4000, tail), 24) << unit << " then " << tail;
    }
  }
}

}  // namespace
}  // namespace skipjack
