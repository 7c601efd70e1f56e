#include "text/output_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/text/fixture_tokenizers.h"
#include "tests/unit/text/random_text.h"
#include "text/utf8.h"

namespace skipjack {
namespace {

// Tokens of any bytes; those of `control` are control tokens.
class FakeTokenizer final : public Tokenizer {
 public:
  FakeTokenizer(std::vector<std::string> bytes, std::vector<TokenId> control)
      : bytes_(std::move(bytes)), control_(std::move(control)) {}

  Result<std::vector<TokenId>> Encode(std::span<const Segment>, const EncodeOptions&) const override {
    return Status::Unimplemented("not needed here");
  }
  std::size_t MinimumTokens(std::span<const Segment>) const override { return 0; }
  std::string_view TokenBytes(TokenId id) const override { return bytes_.at(static_cast<std::size_t>(id)); }
  bool IsControl(TokenId id) const override {
    return std::find(control_.begin(), control_.end(), id) != control_.end();
  }
  bool IsEndOfGeneration(TokenId) const override { return false; }
  std::vector<TokenId> EndOfGenerationTokens() const override { return {}; }
  std::size_t vocabulary_size() const override { return bytes_.size(); }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return std::nullopt; }

 private:
  std::vector<std::string> bytes_;
  std::vector<TokenId> control_;
};

// One token per string, in the order given.
class Output {
 public:
  Output(std::vector<std::string> tokens, OutputText::Options options, std::vector<TokenId> control = {})
      : count_(tokens.size()),
        text_(std::make_shared<FakeTokenizer>(std::move(tokens), std::move(control)), std::move(options)) {}

  TextDelta Next() { return text_.Append(next_++); }
  TextDelta Finish() { return text_.Finish(); }

  // Everything that is left, collected.
  TextDelta Rest() {
    TextDelta all;
    while (!all.stopped && static_cast<std::size_t>(next_) < count_) Collect(Next(), all);
    if (!all.stopped) Collect(Finish(), all);
    return all;
  }

 private:
  static void Collect(const TextDelta& delta, TextDelta& all) {
    all.text += delta.text;
    all.tokens += delta.tokens;
    all.stopped = delta.stopped;
    all.stop_string = delta.stop_string;
  }

  std::size_t count_;
  TokenId next_ = 0;
  OutputText text_;
};

MATCHER_P2(Sends, text, tokens, "") {
  return arg.text == text && arg.tokens == tokens && !arg.stopped;
}
MATCHER_P3(StopsWith, text, tokens, stop, "") {
  return arg.text == text && arg.tokens == tokens && arg.stopped && arg.stop_string == stop;
}

TEST(OutputTextTest, PlainTokensAreSentAtOnce) {
  Output output({"Hello", ",", " world"}, {});
  EXPECT_THAT(output.Next(), Sends("Hello", 1u));
  EXPECT_THAT(output.Next(), Sends(",", 1u));
  EXPECT_THAT(output.Next(), Sends(" world", 1u));
  EXPECT_THAT(output.Finish(), Sends("", 0u));
}

TEST(OutputTextTest, ACharacterIsSentWholeWithAllItsTokens) {
  Output output({"a\xF0", "\x9F",
                 "\x98\x80"
                 "b",
                 "\xC3"},
                {});
  EXPECT_THAT(output.Next(), Sends("a", 0u));
  EXPECT_THAT(output.Next(), Sends("", 0u));
  EXPECT_THAT(output.Next(), Sends("😀b", 3u));
  EXPECT_THAT(output.Next(), Sends("", 0u));
  EXPECT_THAT(output.Finish(), Sends("\uFFFD", 1u));
}

TEST(OutputTextTest, BadBytesBecomeOneReplacementPerBadPart) {
  Output output({"\xE2\x82", "x", "\xFF\xFE"}, {});
  EXPECT_THAT(output.Next(), Sends("", 0u));
  EXPECT_THAT(output.Next(), Sends("\uFFFDx", 2u));
  EXPECT_THAT(output.Next(), Sends("\uFFFD\uFFFD", 1u));
}

TEST(OutputTextTest, ControlTokensHaveNoText) {
  Output silent({"a", "<s>", "b"}, {}, {1});
  silent.Next();
  EXPECT_THAT(silent.Next(), Sends("", 1u));
  Output loud({"a", "<s>", "b"}, {.stop_strings = {}, .skip_special_tokens = false}, {1});
  EXPECT_THAT(loud.Rest(), Sends("a<s>b", 3u));
  // Between the halves of a character they come after the first half's token.
  Output cut({"\xC3", "<s>", "\xA9"}, {}, {1});
  EXPECT_THAT(cut.Next(), Sends("", 0u));
  EXPECT_THAT(cut.Next(), Sends("", 0u));
  EXPECT_THAT(cut.Next(), Sends("é", 3u));
}

TEST(OutputTextTest, WhatMayBecomeAStopStringIsHeldBack) {
  Output output({"ab", "c", "x", "ab"}, {.stop_strings = {"abcd"}});
  EXPECT_THAT(output.Next(), Sends("", 0u));
  EXPECT_THAT(output.Next(), Sends("", 0u));
  EXPECT_THAT(output.Next(), Sends("abcx", 3u));
  EXPECT_THAT(output.Next(), Sends("", 0u));
  EXPECT_THAT(output.Finish(), Sends("ab", 1u));
}

TEST(OutputTextTest, AStopStringMaySpanTokensAndBeginInsideOne) {
  Output output({"one ST", "O", "P two"}, {.stop_strings = {"STOP"}});
  EXPECT_THAT(output.Next(), Sends("one ", 0u));
  EXPECT_THAT(output.Next(), Sends("", 0u));
  EXPECT_THAT(output.Next(), StopsWith("", 3u, "STOP"));
  EXPECT_THAT(output.Finish(), Sends("", 0u));
}

TEST(OutputTextTest, TheStopStringIsCutOrIncludedExactly) {
  const std::vector<std::string> tokens = {"say STO", "P and more"};
  EXPECT_THAT(Output(tokens, {.stop_strings = {"STOP"}}).Rest(), StopsWith("say ", 2u, "STOP"));
  EXPECT_THAT(Output(tokens, {.stop_strings = {"STOP"}, .include_stop_string = true}).Rest(),
              StopsWith("say STOP", 2u, "STOP"));
}

TEST(OutputTextTest, AfterAMatchNothingFollows) {
  Output output({"xSTOP", "y", "z"}, {.stop_strings = {"STOP"}});
  EXPECT_THAT(output.Next(), StopsWith("x", 1u, "STOP"));
  EXPECT_THAT(output.Next(), Sends("", 0u));
  EXPECT_THAT(output.Finish(), Sends("", 0u));
}

TEST(OutputTextTest, OverlapsOfAStopStringWithItself) {
  EXPECT_THAT(Output({"a", "a", "a", "b"}, {.stop_strings = {"aab"}}).Rest(), StopsWith("a", 4u, "aab"));
  EXPECT_THAT(Output({"abab", "abac"}, {.stop_strings = {"ababac"}}).Rest(), StopsWith("ab", 2u, "ababac"));
}

TEST(OutputTextTest, TheFirstEndWinsThenTheLongest) {
  EXPECT_THAT(Output({"xabcd"}, {.stop_strings = {"abcd", "bc"}}).Rest(), StopsWith("xa", 1u, "bc"));
  EXPECT_THAT(Output({"xabcd"}, {.stop_strings = {"c", "abc"}}).Rest(), StopsWith("x", 1u, "abc"));
  EXPECT_THAT(Output({"ab", "c"}, {.stop_strings = {"abc", "ab"}}).Rest(), StopsWith("", 1u, "ab"));
}

TEST(OutputTextTest, StopStringsThatCannotMatch) {
  EXPECT_THAT(Output({"€"}, {.stop_strings = {"", "\x82\xAC"}}).Rest(), Sends("€", 1u));
}

TEST(OutputTextTest, StopStringsMatchReplacedBytesToo) {
  EXPECT_THAT(Output({"a\xE2", "b"}, {.stop_strings = {"\uFFFD"}}).Rest(), StopsWith("a", 2u, "\uFFFD"));
  EXPECT_THAT(Output({"a\xE2"}, {.stop_strings = {"\uFFFD"}}).Rest(), StopsWith("a", 1u, "\uFFFD"));
}

// What OutputText must have sent after some tokens, from the definitions and the whole output.
struct Expected {
  std::string text;
  std::size_t tokens = 0;
  bool stopped = false;
  std::string stop_string;
};

class Reference {
 public:
  Reference(std::vector<std::string> tokens, OutputText::Options options)
      : tokens_(std::move(tokens)), options_(std::move(options)) {}

  Expected After(std::size_t count, bool finished) const {
    std::string bytes;
    std::vector<std::size_t> byte_ends;
    for (std::size_t i = 0; i < count; ++i) {
      bytes += tokens_[i];
      byte_ends.push_back(bytes.size());
    }
    if (!finished) bytes.resize(bytes.size() - UnfinishedTail(bytes));
    std::string text;
    AppendLossyUtf8(bytes, text);
    if (Expected stop = FindStop(text); stop.stopped) {
      stop.tokens = count;
      return stop;
    }
    const std::size_t held = finished ? 0 : Held(text);
    Expected expected;
    expected.text = text.substr(0, text.size() - held);
    for (const std::size_t end : byte_ends) {
      if (end > bytes.size() || TextEnd(bytes, end) > expected.text.size()) break;
      ++expected.tokens;
    }
    return expected;
  }

 private:
  static std::size_t UnfinishedTail(std::string_view bytes) {
    for (std::size_t length = std::min<std::size_t>(3, bytes.size()); length > 0; --length) {
      const Utf8Part part = FirstUtf8Part(bytes.substr(bytes.size() - length));
      if (part.kind == Utf8Part::Kind::kUnfinished && part.length == length) return length;
    }
    return 0;
  }

  // Where, in the text, the part ends that holds the byte before `end`.
  static std::size_t TextEnd(std::string_view bytes, std::size_t end) {
    std::size_t position = 0, place = 0;
    while (position < end) {
      const Utf8Part part = FirstUtf8Part(bytes.substr(position));
      position += part.length;
      place += part.kind == Utf8Part::Kind::kCharacter ? part.length : kReplacementCharacter.size();
    }
    return place;
  }

  Expected FindStop(const std::string& text) const {
    Expected best;
    std::size_t best_end = std::string::npos;
    for (const std::string& stop : options_.stop_strings) {
      const std::size_t begin = stop.empty() ? std::string::npos : text.find(stop);
      if (begin == std::string::npos) continue;
      const std::size_t end = begin + stop.size();
      if (end > best_end || (end == best_end && stop.size() <= best.stop_string.size())) continue;
      best_end = end;
      best.text = text.substr(0, options_.include_stop_string ? end : begin);
      best.stopped = true;
      best.stop_string = stop;
    }
    return best;
  }

  std::size_t Held(const std::string& text) const {
    std::size_t held = 0;
    for (const std::string& stop : options_.stop_strings) {
      for (std::size_t length = 1; length < stop.size(); ++length) {
        if (text.ends_with(stop.substr(0, length))) held = std::max(held, length);
      }
    }
    return held;
  }

  std::vector<std::string> tokens_;
  OutputText::Options options_;
};

std::string RandomToken(std::mt19937_64& random) {
  switch (random() % 4) {
    case 0:
      return RandomBytes(random, random() % 6);
    case 1:
      return std::string("\xE2\x82\xAC\xF0\x9F\x98\x80").substr(random() % 7, random() % 4);
    default: {
      std::string token;
      for (std::size_t length = random() % 4; length > 0; --length) token.push_back("ab"[random() % 2]);
      return token;
    }
  }
}

std::string RandomStop(std::mt19937_64& random) {
  std::string stop;
  for (std::size_t length = random() % 5; length > 0; --length) {
    constexpr std::string_view kParts[] = {"a", "b", "a", "b", "€", "😀", kReplacementCharacter};
    stop += kParts[random() % std::size(kParts)];
  }
  return stop;
}

TEST(OutputTextTest, AgreesWithTheDefinitionAfterEveryToken) {
  std::mt19937_64 random(2024);
  std::size_t stops = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::string> tokens(1 + random() % 12);
    for (std::string& token : tokens) token = RandomToken(random);
    OutputText::Options options;
    options.include_stop_string = random() % 2 == 0;
    for (std::size_t count = random() % 4; count > 0; --count)
      options.stop_strings.push_back(RandomStop(random));
    const Reference reference(tokens, options);
    Output output(tokens, options);
    std::string text;
    std::size_t released = 0;
    bool stopped = false;
    for (std::size_t count = 1; count <= tokens.size() + 1 && !stopped; ++count) {
      const bool finished = count > tokens.size();
      const TextDelta delta = finished ? output.Finish() : output.Next();
      text += delta.text;
      released += delta.tokens;
      stopped = delta.stopped;
      const Expected expected = reference.After(std::min(count, tokens.size()), finished);
      ASSERT_EQ(text, expected.text) << round;
      ASSERT_EQ(released, expected.tokens) << round;
      ASSERT_EQ(stopped, expected.stopped) << round;
      ASSERT_EQ(delta.stop_string, expected.stop_string) << round;
      ASSERT_EQ(FindInvalidUtf8(delta.text), std::string_view::npos) << round;
      ASSERT_TRUE(!finished || stopped || released == tokens.size());
    }
    stops += stopped;
  }
  EXPECT_GT(stops, 500u);
}

TEST(OutputTextTest, StreamedTextIsTheDecodedText) {
  const auto tokenizer = FixtureTokenizer("smollm2_real");
  for (const std::string& text : FixtureTexts()) {
    const std::vector<TokenId> ids = EncodeText(*tokenizer, text, true);
    for (const bool skip : {true, false}) {
      OutputText output(tokenizer, {.stop_strings = {"\n\nnever", "<|"}, .skip_special_tokens = skip});
      std::string streamed;
      std::size_t tokens = 0;
      for (const TokenId id : ids) {
        const TextDelta delta = output.Append(id);
        streamed += delta.text;
        tokens += delta.tokens;
        if (delta.stopped) break;
      }
      const TextDelta rest = output.Finish();
      streamed += rest.text;
      const std::string decoded = tokenizer->Decode(ids, skip);
      EXPECT_EQ(streamed, decoded.substr(0, decoded.find("<|")));
      EXPECT_LE(tokens + rest.tokens, ids.size());
    }
  }
}

// A hold-back as long as the output, moved by one with every token, stays linear: the text is dropped in
// halves.
TEST(OutputTextTest, LongHoldBacks) {
  constexpr std::size_t kLength = 200'000;
  const auto tokenizer =
      std::make_shared<FakeTokenizer>(std::vector<std::string>{"a"}, std::vector<TokenId>());
  OutputText output(tokenizer, {.stop_strings = {std::string(kLength, 'a') + "b"}});
  std::size_t sent = 0, tokens = 0;
  for (std::size_t i = 0; i < 3 * kLength; ++i) {
    const TextDelta delta = output.Append(0);
    sent += delta.text.size();
    tokens += delta.tokens;
    ASSERT_EQ(sent, i + 1 > kLength ? i + 1 - kLength : 0);
  }
  EXPECT_EQ(tokens, 2 * kLength);
  EXPECT_THAT(output.Finish(), Sends(std::string(kLength, 'a'), kLength));
}

TEST(OutputTextTest, EndStringsEndTheOutputUnnamedAndAreNoPartOfIt) {
  const std::vector<std::string> tokens = {"Hi", "<|e", "nd|>", "x"};
  for (const bool include : {false, true}) {
    Output output(tokens, {.end_strings = {"<|end|>"}, .include_stop_string = include});
    EXPECT_THAT(output.Next(), Sends("Hi", 1u));
    EXPECT_THAT(output.Next(), Sends("", 0u));  // could still become one
    EXPECT_THAT(output.Next(), StopsWith("", 2u, ""));
    EXPECT_THAT(output.Next(), Sends("", 0u));
  }
}

TEST(OutputTextTest, EndStringsBesideStopStrings) {
  const std::vector<std::string> tokens = {"a", "b", "c", "d"};
  // Whichever ends first; of those that end together the longest.
  EXPECT_THAT(Output(tokens, {.stop_strings = {"d"}, .end_strings = {"c"}}).Rest(), StopsWith("ab", 3u, ""));
  EXPECT_THAT(Output(tokens, {.stop_strings = {"b"}, .end_strings = {"c"}}).Rest(), StopsWith("a", 2u, "b"));
  EXPECT_THAT(Output(tokens, {.stop_strings = {"c"}, .end_strings = {"bc"}}).Rest(), StopsWith("a", 3u, ""));
  EXPECT_THAT(Output(tokens, {.stop_strings = {"bc"}, .end_strings = {"c"}}).Rest(),
              StopsWith("a", 3u, "bc"));
  // The same string as both is the request's.
  EXPECT_THAT(
      Output(tokens, {.stop_strings = {"c"}, .end_strings = {"c"}, .include_stop_string = true}).Rest(),
      StopsWith("abc", 3u, "c"));
  // Empty ones and bad ones never match.
  EXPECT_THAT(Output(tokens, {.end_strings = {"", "\xFF", "d"}}).Rest(), StopsWith("abc", 4u, ""));
}

}  // namespace
}  // namespace skipjack
