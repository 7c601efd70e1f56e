// The way back from tokens to text: one object per choice, which joins bytes to characters, matches stop strings,
// and decides what may be sent. A non-streamed answer is the streamed one, collected.
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

// What OutputText releases: text is always valid UTF-8 and `tokens` are exactly those whose text ended inside what
// has been released so far.
struct TextDelta {
  std::string text;
  std::size_t tokens = 0;   // how many further tokens are released with this text, in the order they were appended
  bool stopped = false;     // a stop string matched: the output ends here
  std::string stop_string;  // the one that matched
};

class OutputText {
 public:
  struct Options {
    std::vector<std::string> stop_strings;
    bool include_stop_string = false;
    bool skip_special_tokens = true;
  };

  OutputText(std::shared_ptr<const Tokenizer> tokenizer, Options options);
  ~OutputText();

  // Takes one token; returns what may be sent now. Holds back an unfinished character and anything that could
  // still become a stop string. After a match, `tokens` counts up to and including the token that completed the
  // match, and further calls return nothing.
  TextDelta Append(TokenId id);
  // The sequence ended: releases what was held back; an unfinished character becomes U+FFFD.
  TextDelta Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace skipjack
