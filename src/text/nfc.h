// Unicode normalisation form C (UAX #15), for tokenizers whose models were trained on composed text.
#pragma once

#include <string>
#include <string_view>

namespace skipjack {

// `text` must be well-formed UTF-8. Linear but for runs of combining marks, which are sorted.
std::string NormalizeNfc(std::string_view text);

// False only when `text` certainly is in NFC already.
bool MayNeedNfc(std::string_view text);

}  // namespace skipjack
