// The way back from tokens to text: one object per choice, which joins bytes to characters, matches stop
// strings, and decides what may be sent. A non-streamed answer is the streamed one, collected.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "text/tokenizer.h"

namespace skipjack {

// What OutputText releases: text is always valid UTF-8 and `tokens` are exactly those whose text ended inside
// what has been released so far. A token that ends inside a character ends where that character does.
struct TextDelta {
  std::string text;
  std::size_t tokens = 0;   // how many further tokens are released with it, in the order they were appended
  bool stopped = false;     // a stop string matched: the output ends here
  std::string stop_string;  // the one that matched; empty for an end string
};

// Linear in the text. Never throws but for want of memory. One owner at a time.
class OutputText {
 public:
  struct Options {
    std::vector<std::string> stop_strings{};
    // The model's own ends of an answer, where it spells them with ordinary tokens. They end the output as
    // stop strings do, are never part of it, and are not named as the one that matched.
    std::vector<std::string> end_strings{};
    bool include_stop_string = false;
    bool skip_special_tokens = true;
  };

  OutputText(std::shared_ptr<const Tokenizer> tokenizer, Options options);
  ~OutputText();

  // Takes one token; returns what may be sent now. Holds back an unfinished character and anything that could
  // still become a stop string. The stop string that ends first wins, of those that end together the longest;
  // it is looked for in the text, U+FFFD for bad bytes included. With it `tokens` counts everything appended
  // so far, and further calls return nothing. Empty stop strings and such that are not UTF-8 never match. Of
  // an end string and an equal stop string the latter matches.
  TextDelta Append(TokenId id);
  // The sequence ended: releases what was held back; an unfinished character becomes U+FFFD.
  TextDelta Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace skipjack
