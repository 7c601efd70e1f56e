#include "backend/cpu/step_layout.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

namespace skipjack {
namespace {

constexpr std::int32_t kBlockTokens = 16;

StepLayoutLimits Limits(std::int32_t lanes = 2) {
  StepLayoutLimits limits;
  limits.runner.block_tokens = kBlockTokens;
  limits.runner.kv_blocks = 1000;
  limits.runner.max_step_tokens = 300;
  limits.runner.max_slices = 8;
  limits.runner.max_logits_rows = 8;
  limits.runner.context_length = 4096;
  limits.vocabulary = 100;
  limits.group = 3;
  limits.lanes = lanes;
  return limits;
}

KvGeometry Geometry() {
  return {kBlockTokens, 2, 2, 40, 2};
}

// Slices with tables of their own.
struct Batch {
  void Add(std::int32_t tokens, std::int32_t position, std::int32_t logits_rows) {
    const auto blocks = static_cast<std::size_t>((position + tokens + kBlockTokens - 1) / kBlockTokens);
    std::vector<BlockId> table(blocks);
    std::iota(table.begin(), table.end(), static_cast<BlockId>(100 * slices.size()));
    tables.push_back(std::move(table));
    slices.push_back({static_cast<std::int32_t>(ids.size()), tokens, position, {}, logits_rows});
    ids.resize(ids.size() + static_cast<std::size_t>(tokens), 7);
    for (std::size_t i = 0; i < slices.size(); ++i) slices[i].block_table = tables[i];
  }
  StepBatch View() const { return {ids, slices}; }

  std::vector<TokenId> ids;
  std::vector<BatchSlice> slices;
  std::vector<std::vector<BlockId>> tables;
};

TEST(StepLayoutTest, PlacesTokensAndLogitsRows) {
  Batch batch;
  batch.Add(3, 14, 1);  // crosses from block 0 to block 1
  batch.Add(1, 40, 1);
  batch.Add(2, 0, 0);
  StepLayout layout(Limits(), Geometry());
  ASSERT_TRUE(layout.Build(batch.View()).ok());
  EXPECT_EQ(layout.rows(), 6);
  const std::vector<std::int32_t> positions(layout.positions().begin(), layout.positions().end());
  EXPECT_EQ(positions, (std::vector<std::int32_t>{14, 15, 16, 40, 0, 1}));
  EXPECT_EQ(layout.slots()[1].block, 0);
  EXPECT_EQ(layout.slots()[1].slot, 15);
  EXPECT_EQ(layout.slots()[2].block, 1);
  EXPECT_EQ(layout.slots()[2].slot, 0);
  EXPECT_EQ(layout.slots()[3].block, 102);
  EXPECT_EQ(layout.slots()[3].slot, 8);
  const std::vector<std::int32_t> wanted(layout.logits_rows().begin(), layout.logits_rows().end());
  EXPECT_EQ(wanted, (std::vector<std::int32_t>{2, 3}));
}

// Every token of every slice meets every chunk it can see exactly once, and pieces of a split have room of
// their own.
TEST(StepLayoutTest, UnitsCoverEveryChunkOnce) {
  for (const std::int32_t lanes : {1, 2, 3, 16}) {
    Batch batch;
    batch.Add(1, 4000, 1);
    batch.Add(100, 700, 1);
    batch.Add(1, 0, 1);
    batch.Add(37, 0, 0);
    batch.Add(1, 2000, 1);
    StepLayout layout(Limits(lanes), Geometry());
    ASSERT_TRUE(layout.Build(batch.View()).ok());
    std::map<std::pair<std::int32_t, std::int32_t>, int> seen;  // row, chunk
    for (const AttentionUnit& unit : layout.units()) {
      EXPECT_EQ(unit.position, layout.positions()[static_cast<std::size_t>(unit.first_row)]);
      for (std::int32_t t = 0; t < unit.tokens; ++t) {
        for (std::int32_t chunk = unit.first_chunk; chunk < unit.end_chunk; ++chunk)
          ++seen[{unit.first_row + t, chunk}];
      }
    }
    for (std::int32_t row = 0; row < layout.rows(); ++row) {
      const std::int32_t chunks =
          kernels::AttentionChunks(layout.positions()[static_cast<std::size_t>(row)] + 1);
      for (std::int32_t chunk = 0; chunk < chunks; ++chunk)
        EXPECT_EQ((seen[{row, chunk}]), 1) << row << " " << chunk;
    }
    // Few lanes are busy with whole rows; many need the long row cut.
    if (lanes == 1 || lanes == 16) {
      EXPECT_EQ(layout.splits().empty(), lanes == 1);
    }
    std::int64_t next_free = 0;
    for (const AttentionSplit& split : layout.splits()) {
      EXPECT_GE(split.partial_offset, next_free);
      next_free = split.partial_offset + split.partial_stride * Geometry().kv_heads;
    }
    EXPECT_LE(next_free, layout.partial_floats());
    for (std::size_t i = 1; i < layout.units().size(); ++i)
      EXPECT_GE(layout.units()[i - 1].cost, layout.units()[i].cost);
  }
}

TEST(StepLayoutTest, RefusesWhatDoesNotFit) {
  StepLayout layout(Limits(), Geometry());
  const auto refused = [&](const Batch& batch, const char* words) {
    const Status status = layout.Build(batch.View());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  Batch empty;
  refused(empty, "no slices");

  Batch tokens;
  tokens.Add(301, 0, 1);
  refused(tokens, "301 tokens, the limit is 300");

  Batch slices;
  for (int i = 0; i < 9; ++i) slices.Add(1, 0, 0);
  refused(slices, "9 slices, the limit is 8");

  Batch logits;
  logits.Add(9, 0, 9);
  refused(logits, "9 logits rows, the limit is 8");

  Batch context;
  context.Add(2, 4095, 1);
  refused(context, "outside the context of 4096");

  Batch negative;
  negative.Add(1, 0, 0);
  negative.slices[0].position = -1;
  refused(negative, "position -1");

  Batch table;
  table.Add(1, 16, 1);
  table.slices[0].block_table = table.slices[0].block_table.first(1);
  refused(table, "needs 2 blocks, its table has 1");

  Batch block;
  block.Add(1, 0, 1);
  block.tables[0][0] = 1000;
  refused(block, "block 1000 of a pool of 1000");

  Batch token;
  token.Add(1, 0, 1);
  token.ids[0] = 100;
  refused(token, "token id 100");

  Batch gap;
  gap.Add(2, 0, 1);
  gap.slices[0].token_offset = 1;
  refused(gap, "starts at token 1");

  Batch rows;
  rows.Add(2, 0, 3);
  refused(rows, "logits of 3 of its 2");

  Batch behind;
  behind.Add(2, 0, 1);
  behind.ids.pop_back();
  refused(behind, "ends behind");

  Batch left_over;
  left_over.Add(2, 0, 1);
  left_over.ids.push_back(7);
  refused(left_over, "3 tokens, its slices name 2");

  Batch fine;
  fine.Add(300, 0, 1);
  EXPECT_TRUE(layout.Build(fine.View()).ok());
}

}  // namespace
}  // namespace skipjack
