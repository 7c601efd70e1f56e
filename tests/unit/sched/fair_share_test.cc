#include "sched/fair_share.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skipjack {
namespace {

constexpr double kRange = FairShare::kRange;

TEST(FairShare, ABurstSpreadsAsFarAsManyTenants) {
  FairShare shares;
  std::vector<std::int64_t> tags(5);
  for (int i = 0; i < 4; ++i) shares.Enter("greedy", kRange, &tags[static_cast<std::size_t>(i)]);
  shares.Enter("modest", kRange, &tags[4]);
  EXPECT_EQ(tags, (std::vector<std::int64_t>{0, 1, 2, 3, 0}));
}

TEST(FairShare, WhoGotMoreGoesLater) {
  FairShare shares;
  std::int64_t tag = 0;
  const auto heavy = shares.Enter("heavy", 0, &tag);
  shares.Enter("light", 0, &tag);
  shares.Charge(heavy, FairShare::Service(1000, kRange));
  std::int64_t heavy_tag = 0;
  shares.Enter("heavy", 0, &heavy_tag);
  EXPECT_EQ(heavy_tag, 2);
  shares.Enter("light", 0, &tag);
  EXPECT_EQ(tag, 0);
}

TEST(FairShare, WhoWasAwaySavesNothingUp) {
  FairShare shares;
  std::int64_t tag = 0;
  const auto busy = shares.Enter("busy", 0, &tag);
  shares.Charge(busy, 50 * kRange);
  shares.Enter("newcomer", 0, &tag);
  EXPECT_EQ(tag, 50);
}

TEST(FairShare, ExpectationsEndWhenServiceStarts) {
  FairShare shares;
  std::int64_t tag = 0;
  const auto tenant = shares.Enter("a", 3 * kRange, &tag);
  shares.Start(tenant, 3 * kRange);
  shares.Enter("a", 0, &tag);
  EXPECT_EQ(tag, 0);
}

TEST(FairShare, TenantsThatLeftAreForgotten) {
  FairShare shares;
  for (int i = 0; i < 20000; ++i) {
    std::int64_t tag = 0;
    const auto tenant = shares.Enter("tenant " + std::to_string(i), 1, &tag);
    shares.Start(tenant, 1);
    shares.Charge(tenant, 100);
    shares.Leave(tenant);
  }
  EXPECT_LE(shares.tenants(), 4097u);
}

}  // namespace
}  // namespace skipjack
