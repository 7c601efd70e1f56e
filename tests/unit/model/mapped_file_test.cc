#include "model/mapped_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace skipjack {
namespace {

std::string WriteFile(std::size_t size) {
  const std::string path = ::testing::TempDir() + "/mapped_file_test.bin";
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 4096);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

bool IsIntact(std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != static_cast<std::byte>(i * 7 + i / 4096)) return false;
  }
  return true;
}

// Advice only: wherever a part begins and ends, what is read stays the same.
TEST(MappedFileTest, PrefetchingAnyPartChangesNothing) {
  constexpr std::size_t kSize = 300'001;
  const auto file = MappedFile::Open(WriteFile(kSize));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const std::span<const std::byte> bytes = (*file)->bytes();
  ASSERT_EQ(bytes.size(), kSize);
  for (const auto& [begin, size] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, 0}, {0, 1}, {0, kSize}, {4095, 2}, {131'071, 131'074}, {kSize - 1, 1}, {kSize, 0}}) {
    (*file)->Prefetch(bytes.subspan(begin, size));
    EXPECT_TRUE(IsIntact(bytes));
    (*file)->DropPages();
    EXPECT_TRUE(IsIntact(bytes));
  }
}

TEST(MappedFileTest, PartsOfOtherMemoryAreIgnored) {
  const auto file = MappedFile::Open(WriteFile(10'000));
  ASSERT_TRUE(file.ok());
  const std::vector<std::byte> other(10'000);
  (*file)->Prefetch(other);
  (*file)->Prefetch({});
  EXPECT_TRUE(IsIntact((*file)->bytes()));
  const auto empty = MappedFile::Open(WriteFile(0));
  ASSERT_TRUE(empty.ok());
  (*empty)->Prefetch((*empty)->bytes());
  (*empty)->Prefetch(other);
}

}  // namespace
}  // namespace skipjack
