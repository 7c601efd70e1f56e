// The first step of byte-level BPE: cutting text into pieces that no merge may cross. Which way a model wants
// it is named by GGUF's tokenizer.ggml.pre.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "text/pre_tokenizer_scanners.h"

namespace skipjack {

// End of the piece that begins at `begin`, which must lie before the end of `text`.
using SplitStage = std::size_t (*)(const pretokenize::PlainText& text, std::size_t begin);

struct PreTokenizer {
  std::span<const SplitStage> stages;  // each cuts every piece of the one before it
  bool normalize_nfc = false;          // the model's tokenizer composes its input first (UAX #15, NFC)
  bool ignore_merges = false;          // a piece that is a token is that token, whatever the merges say
  bool add_bos = false;                // where the file does not say
};

// nullptr for a name that is not known.
const PreTokenizer* FindPreTokenizer(std::string_view name);

// Every known name, sorted, with ", " between them.
std::string KnownPreTokenizers();

namespace pretokenize {

// Calls `emit(std::string_view)` for each piece of `text` (well-formed UTF-8) in order; the pieces joined are
// `text`.
template <class Emit>
void ForEachPiece(std::span<const SplitStage> stages, std::string_view text, Emit& emit) {
  if (stages.empty()) return emit(text);
  const PlainText plain(text);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = stages.front()(plain, begin);
    ForEachPiece(stages.subspan(1), text.substr(begin, end - begin), emit);
    begin = end;
  }
}

}  // namespace pretokenize
}  // namespace skipjack
