#include "tests/unit/text/random_text.h"

#include <iterator>

#include "text/utf8.h"

namespace skipjack {
namespace {

constexpr char32_t kInteresting[] = {U'a',   U'b',   U'Z',   U's',    U't',   U'e',   U'l',   U'\'',
                                     U' ',   U' ',   U'\t',  U'\n',   U'\r',  U'0',   U'7',   U'.',
                                     U',',   U'<',   U'|',   U'>',    U'_',   U'/',   0xA0,   0xE9,
                                     0x17F,  0x301,  0x323,  0x1E69,  0x3000, 0x4E2D, 0x3042, 0x1100,
                                     0x1161, 0x11A8, 0xAC00, 0x1F600, 0x200D, 0x2028, 0xFB01, 0x10FFFF};

char32_t RandomCharacter(std::mt19937_64& random) {
  if (random() % 8 != 0) return kInteresting[random() % std::size(kInteresting)];
  const char32_t any = static_cast<char32_t>(random() % (0x110000 - 0x800));
  return any < 0xD800 ? any : any + 0x800;
}

}  // namespace

std::string RandomText(std::mt19937_64& random, std::size_t characters) {
  std::string text;
  while (characters > 0) {
    const char32_t c = RandomCharacter(random);
    std::size_t run = random() % 16 == 0 ? 1 + random() % 20 : 1;
    for (; run > 0 && characters > 0; --run, --characters) AppendUtf8(c, text);
  }
  return text;
}

std::string RandomBytes(std::mt19937_64& random, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) {
    std::string part;
    AppendUtf8(RandomCharacter(random), part);
    if (random() % 3 == 0) part.resize(1 + random() % part.size());
    if (random() % 8 == 0) part.assign(1, static_cast<char>(random()));
    text += part;
  }
  return text;
}

}  // namespace skipjack
