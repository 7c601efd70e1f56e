#include "text/output_text.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "text/pattern_automaton.h"
#include "text/utf8.h"

namespace skipjack {

// Bytes become characters, characters run through the automaton of the stop strings, and what the automaton
// no longer needs is sent. Places in the output count bytes of text from its beginning.
struct OutputText::State {
  std::shared_ptr<const Tokenizer> tokenizer;
  Options options;
  PatternAutomaton stops;  // the stop strings, then the end strings
  PatternAutomaton::State at = PatternAutomaton::kStart;

  std::string unfinished;        // the first bytes of a character, at most three
  std::string text;              // well formed; what was sent is dropped from its front now and then
  std::size_t dropped = 0;       // bytes of output before text[0]
  std::size_t sent = 0;          // the cursor
  std::deque<std::size_t> ends;  // where the text of each token ends that is not released yet
  std::size_t open_ends = 0;     // further tokens, whose last byte is in `unfinished`
  bool ended = false;

  std::size_t produced() const { return dropped + text.size(); }

  bool AddBytes(std::string_view bytes, TextDelta& delta);
  bool AddCharacter(std::string_view character, TextDelta& delta);
  void CloseEnds();
  void Stop(std::int32_t stop, TextDelta& delta);
  void Send(std::size_t end, TextDelta& delta);
  void DropSent();
};

OutputText::OutputText(std::shared_ptr<const Tokenizer> tokenizer, Options options)
    : state_(std::make_unique<State>()) {
  state_->tokenizer = std::move(tokenizer);
  std::vector<std::string> patterns = options.stop_strings;
  for (const std::string& end : options.end_strings) {
    const bool is_stop = std::find(patterns.begin(), patterns.end(), end) != patterns.end();
    patterns.push_back(is_stop ? std::string() : end);
  }
  // One that is not UTF-8 cannot stand in the output, but could cut a character in two.
  for (std::string& pattern : patterns) {
    if (FindInvalidUtf8(pattern) != std::string_view::npos) pattern.clear();
  }
  state_->stops = PatternAutomaton(patterns);
  state_->options = std::move(options);
}

OutputText::~OutputText() = default;

TextDelta OutputText::Append(TokenId id) {
  TextDelta delta;
  State& s = *state_;
  if (s.ended) return delta;
  const bool silent = s.options.skip_special_tokens && s.tokenizer->IsControl(id);
  ++s.open_ends;
  if (s.AddBytes(silent ? std::string_view() : s.tokenizer->TokenBytes(id), delta)) return delta;
  if (s.unfinished.empty()) s.CloseEnds();
  s.Send(s.produced() - s.stops.Depth(s.at), delta);
  return delta;
}

TextDelta OutputText::Finish() {
  TextDelta delta;
  State& s = *state_;
  if (s.ended) return delta;
  if (!s.unfinished.empty() && s.AddCharacter(kReplacementCharacter, delta)) return delta;
  s.CloseEnds();
  s.Send(s.produced(), delta);
  s.ended = true;
  return delta;
}

// Takes the bytes of the newest token; returns true when a stop string was found. Where a token ends is known
// once the character that its last byte belongs to is whole, or known to be bad; until then its end is open.
// Of the open ends all but the newest lie in `unfinished`, which is in the first part.
bool OutputText::State::AddBytes(std::string_view bytes, TextDelta& delta) {
  const std::size_t before = unfinished.size();
  std::string joined;
  if (before > 0) {
    joined = std::move(unfinished);
    unfinished.clear();
    bytes = joined.append(bytes);
  }
  for (std::size_t position = 0; position < bytes.size();) {
    const Utf8Part part = FirstUtf8Part(bytes.substr(position));
    if (part.kind == Utf8Part::Kind::kUnfinished) {
      unfinished.assign(bytes.substr(position));
      break;
    }
    const bool good = part.kind == Utf8Part::Kind::kCharacter;
    const std::size_t end = position + part.length;
    const std::size_t place = produced() + (good ? part.length : kReplacementCharacter.size());
    if (position == 0 && before > 0) {
      ends.insert(ends.end(), open_ends - 1, place);
      open_ends = 1;
    }
    if (end == bytes.size()) {
      ends.insert(ends.end(), open_ends, place);
      open_ends = 0;
    }
    if (AddCharacter(good ? bytes.substr(position, part.length) : kReplacementCharacter, delta)) return true;
    position = end;
  }
  return false;
}

// One character, at whose end a stop string may end.
bool OutputText::State::AddCharacter(std::string_view character, TextDelta& delta) {
  text += character;
  if (stops.empty()) return false;
  for (const char byte : character) {
    at = stops.Step(at, byte);
    if (stops.Match(at) == PatternAutomaton::kNone) continue;
    Stop(stops.Match(at), delta);
    return true;
  }
  return false;
}

void OutputText::State::CloseEnds() {
  ends.insert(ends.end(), open_ends, produced());
  open_ends = 0;
}

// The output ends with pattern number `stop`, which ends where the text does now, or just before it.
void OutputText::State::Stop(std::int32_t stop, TextDelta& delta) {
  const auto index = static_cast<std::size_t>(stop);
  const std::size_t stop_strings = options.stop_strings.size();
  const bool is_end = index >= stop_strings;
  const std::string& found = is_end ? options.end_strings[index - stop_strings] : options.stop_strings[index];
  const bool included = options.include_stop_string && !is_end;
  const std::size_t cut = included ? produced() : produced() - found.size();
  delta.text.assign(text, sent - dropped, cut - sent);
  delta.tokens = ends.size() + open_ends;
  delta.stopped = true;
  if (!is_end) delta.stop_string = found;
  ended = true;
}

// Moves the cursor to `end` and releases the tokens that end there or before.
void OutputText::State::Send(std::size_t end, TextDelta& delta) {
  delta.text.append(text, sent - dropped, end - sent);
  sent = end;
  while (!ends.empty() && ends.front() <= sent) {
    ends.pop_front();
    ++delta.tokens;
  }
  DropSent();
}

// When half of the text has been sent, so that moving the rest costs no more than was sent.
void OutputText::State::DropSent() {
  const std::size_t count = sent - dropped;
  if (count < text.size() - count) return;
  text.erase(0, count);
  dropped += count;
}

}  // namespace skipjack
