#include "text/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/text/fixture_tokenizers.h"

namespace skipjack {
namespace {

TEST(ByteAlphabetTest, KnownCharacters) {
  EXPECT_EQ(BytesFromByteLevelName("A"), "A");
  EXPECT_EQ(BytesFromByteLevelName("Ġ"), " ");
  EXPECT_EQ(BytesFromByteLevelName("Ċ"), "\n");
  EXPECT_EQ(BytesFromByteLevelName("Ā"), std::string(1, '\0'));
  EXPECT_EQ(BytesFromByteLevelName("Ń"), "\xAD");  // the last of the 68
  EXPECT_EQ(BytesFromByteLevelName("ÿ"), "\xFF");
}

TEST(ByteAlphabetTest, EveryByteHasAName) {
  std::set<std::string> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string name = ByteLevelName(byte);
    EXPECT_TRUE(seen.insert(name).second);
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
