#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace skipjack {
namespace {

TEST(StatusTest, DefaultIsOk) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().ToString(), "OK");
  EXPECT_EQ(Status(), Status::Ok());
}

TEST(StatusTest, CarriesCodeAndMessage) {
  const Status status = Status::InvalidArgument("top_p must lie in (0, 1], got 3");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.ToString(), "INVALID_ARGUMENT: top_p must lie in (0, 1], got 3");
}

// The edge casts codes to gRPC's without a table, so the numbers are part of the contract.
TEST(StatusTest, CodesAreGrpcs) {
  EXPECT_EQ(static_cast<int>(StatusCode::kCancelled), 1);
  EXPECT_EQ(static_cast<int>(StatusCode::kDeadlineExceeded), 4);
  EXPECT_EQ(static_cast<int>(StatusCode::kResourceExhausted), 8);
  EXPECT_EQ(static_cast<int>(StatusCode::kUnavailable), 14);
  EXPECT_EQ(static_cast<int>(StatusCode::kUnauthenticated), 16);
}

TEST(ResultTest, HoldsAValueOrAStatus) {
  Result<std::unique_ptr<int>> value = std::make_unique<int>(3);
  ASSERT_TRUE(value.ok());
  EXPECT_TRUE(value.status().ok());
  EXPECT_EQ(**value, 3);
  const std::unique_ptr<int> moved = std::move(value).value();
  EXPECT_EQ(*moved, 3);

  const Result<int> failed = Status::NotFound("no such model");
  EXPECT_FALSE(failed);
  EXPECT_EQ(failed.status(), Status::NotFound("no such model"));
}

}  // namespace
}  // namespace skipjack
