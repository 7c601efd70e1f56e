// Unicode normalisation form C (UAX #15), for tokenizers whose models were trained on composed text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace skipjack {

// A text has at most so many times as many bytes as its normalised form: three jamo of three bytes each
// become one Hangul syllable, which has three.
inline constexpr std::size_t kMaxNfcShrink = 3;

// `text` must be well-formed UTF-8. Linear but for runs of combining marks, which are sorted.
std::string NormalizeNfc(std::string_view text);

// False only when `text` certainly is in NFC already.
bool MayNeedNfc(std::string_view text);

}  // namespace skipjack
