// A string in which every byte knows whether it stems from the template (trusted) or from its variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/meter.h"
#include "text/tokenizer.h"

namespace skipjack::jinja {

class Text {
 public:
  Text() = default;

  // For bytes that the caller has charged, or whose number is bounded anyway.
  static Text Trusted(std::string bytes) { return {std::move(bytes), true}; }
  static Text Untrusted(std::string bytes) { return {std::move(bytes), false}; }

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool TrustedAt(std::size_t byte) const { return mask_.empty() ? uniform_ : mask_[byte] != 0; }
  bool FullyTrusted() const;

  // Bytes [begin, begin + count), clipped to the end, trust kept.
  Text Substring(Meter& meter, std::size_t begin, std::size_t count = std::string::npos) const;
  void Append(Meter& meter, const Text& other);
  void Append(Meter& meter, std::string_view bytes, bool trusted);
  // Bytes [begin, begin + count) of `other`, which must be there.
  void AppendPart(Meter& meter, const Text& other, std::size_t begin, std::size_t count);

  // The text as runs of equal trust, appended to `segments` (which it joins where the trust agrees).
  void AppendTo(Meter& meter, std::vector<Segment>* segments) const;

 private:
  Text(std::string bytes, bool trusted) : bytes_(std::move(bytes)), uniform_(trusted) {}
  void NeedMask(Meter& meter);

  std::string bytes_;
  std::string mask_;  // one byte each, 1 = trusted; empty while all bytes are as `uniform_`
  bool uniform_ = true;
};

// Code points; the input is valid UTF-8 (checked where it enters) or, at worst, odd bytes count one each.
std::size_t CodePointBytes(std::string_view text, std::size_t at);
std::size_t CodePointCount(std::string_view text);
// Byte offset of code point `index` (the size when index is the count).
std::size_t CodePointOffset(std::string_view text, std::size_t index);
bool IsSpaceAt(std::string_view text, std::size_t at, std::size_t* bytes);

// Where `needle` next begins at or behind `from`, or npos. Linear, whatever the two are.
std::size_t FindBytes(std::string_view text, std::string_view needle, std::size_t from);

Text Strip(Meter& meter, const Text& text, const std::string* characters, bool left, bool right);
Text MapCase(Meter& meter, const Text& text, bool upper);
Text Capitalize(Meter& meter, const Text& text);
Text Title(Meter& meter, const Text& text);
Text Replace(Meter& meter, const Text& text, const Text& from, const Text& to, std::int64_t limit);
Text Reverse(Meter& meter, const Text& text);
// `separator` null: runs of white space; it must not be empty. `limit` < 0: all.
std::vector<Text> Split(Meter& meter, const Text& text, const std::string* separator, std::int64_t limit,
                        bool from_right);
std::vector<Text> SplitLines(Meter& meter, const Text& text);

}  // namespace skipjack::jinja
