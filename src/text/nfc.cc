#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "text/utf8.h"

namespace skipjack {
namespace {

constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
constexpr int kMaxDecomposition = 32;  // code points; the longest canonical one has four

utf8proc_propval_t CombiningClass(utf8proc_int32_t c) {
  return utf8proc_get_property(c)->combining_class;
}

// Certainly changed neither by normalisation nor by what follows... unless a combining character does follow,
// which is not stable itself. Below U+0300 nothing changes; Hangul vowels and trailing consonants compose
// with what stands before them, and so do only marks besides.
bool IsStable(char32_t c) {
  if (c < 0x300) return true;
  if ((c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2)) return false;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  if (property->combining_class != 0) return false;
  if (property->category == UTF8PROC_CATEGORY_MN || property->category == UTF8PROC_CATEGORY_MC) return false;
  const bool decomposes_canonically = property->decomp_seqindex != UINT16_MAX && property->decomp_type == 0;
  return !decomposes_canonically;
}

// Canonical ordering: each run of combining marks sorted by class, equal ones left in order. The library's
// own ordering is quadratic in the length of such a run.
void OrderMarks(std::vector<utf8proc_int32_t>& characters) {
  const auto is_starter = [](utf8proc_int32_t c) { return CombiningClass(c) == 0; };
  for (auto begin = characters.begin(); begin != characters.end();) {
    begin = std::find_if_not(begin, characters.end(), is_starter);
    const auto end = std::find_if(begin, characters.end(), is_starter);
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    begin = end;
  }
}

// Appends the normalised form of text[begin, end), which nothing outside it can compose with.
void AppendComposed(std::string_view text, std::size_t begin, std::size_t end,
                    std::vector<utf8proc_int32_t>& work, std::string& out) {
  work.clear();
  while (begin < end) {
    const CodePoint c = DecodeUtf8(text.data() + begin);
    begin += c.length;
    utf8proc_int32_t parts[kMaxDecomposition];
    int boundary_class = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.value), parts,
                                                           kMaxDecomposition, kOptions, &boundary_class);
    work.insert(work.end(), parts, parts + std::clamp<utf8proc_ssize_t>(count, 0, kMaxDecomposition));
  }
  OrderMarks(work);
  const utf8proc_ssize_t composed =
      utf8proc_normalize_utf32(work.data(), static_cast<utf8proc_ssize_t>(work.size()), kOptions);
  for (utf8proc_ssize_t i = 0; i < composed; ++i) AppendUtf8(static_cast<char32_t>(work[i]), out);
}

}  // namespace

bool MayNeedNfc(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    const CodePoint c = DecodeUtf8(text.data() + position);
    if (!IsStable(c.value)) return true;
    position += c.length;
  }
  return false;
}

std::string NormalizeNfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> work;
  // Copies stable characters; a stretch of others is composed together with the stable one before it.
  std::size_t copied = 0, previous = 0;
  for (std::size_t position = 0; position < text.size();) {
    CodePoint c = DecodeUtf8(text.data() + position);
    if (IsStable(c.value)) {
      previous = position;
      position += c.length;
      continue;
    }
    std::size_t end = position;
    while (end < text.size() && !IsStable(c.value)) {
      end += c.length;
      if (end < text.size()) c = DecodeUtf8(text.data() + end);
    }
    out.append(text, copied, previous - copied);
    AppendComposed(text, previous, end, work, out);
    copied = previous = position = end;
  }
  out.append(text, copied);
  return out;
}

}  // namespace skipjack
