#include "text/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "text/utf8.h"

namespace skipjack {
namespace {

TEST(ByteAlphabetTest, KnownCharacters) {
  EXPECT_EQ(ByteLevelCharacter('A'), U'A');
  EXPECT_EQ(ByteLevelCharacter(' '), U'Ġ');
  EXPECT_EQ(ByteLevelCharacter('\n'), U'Ċ');
  EXPECT_EQ(ByteLevelCharacter(0), U'Ā');
  EXPECT_EQ(ByteLevelCharacter(0xAD), U'Ń');  // the last of the 68
  EXPECT_EQ(ByteLevelCharacter(0xFF), U'ÿ');
}

TEST(ByteAlphabetTest, EveryByteRoundTrips) {
  std::set<char32_t> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = ByteLevelCharacter(static_cast<unsigned char>(byte));
    EXPECT_TRUE(seen.insert(c).second);
    std::string name;
    AppendUtf8(c, name);
    EXPECT_EQ(BytesFromByteLevelName(name), std::string(1, static_cast<char>(byte)));
  }
}

TEST(ByteAlphabetTest, NamesOutsideTheAlphabet) {
  EXPECT_EQ(BytesFromByteLevelName("ĠcafÃ©"), " café");
  EXPECT_EQ(BytesFromByteLevelName("a b"), std::nullopt);
  EXPECT_EQ(BytesFromByteLevelName("日"), std::nullopt);
  EXPECT_EQ(BytesFromByteLevelName("\xFF"), std::nullopt);
}

}  // namespace
}  // namespace skipjack
