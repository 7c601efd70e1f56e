#include "sched/fair_share.h"

#include <algorithm>
#include <cmath>

namespace skipjack {

FairShare::Handle FairShare::Enter(std::string_view tenant, double expected, std::int64_t* tag) {
  auto found = tenants_.find(tenant);
  if (found == tenants_.end()) found = tenants_.emplace(std::string(tenant), Tenant{}).first;
  Tenant& entry = found->second;
  if (entry.present++ == 0) {
    entry.counter = std::max(entry.counter, Lowest());
    entry.waiting = 0;
    present_.insert(entry.counter);
  }
  *tag = static_cast<std::int64_t>(std::floor((entry.counter + entry.waiting) / kRange));
  entry.waiting += expected;
  return found;
}

void FairShare::Charge(Handle tenant, double service) {
  Tenant& entry = tenant->second;
  auto node = present_.extract(present_.find(entry.counter));
  entry.counter += service;
  node.value() = entry.counter;
  present_.insert(std::move(node));
}

void FairShare::Leave(Handle tenant) {
  Tenant& entry = tenant->second;
  if (--entry.present > 0) return;
  lifted_ = Lowest();
  present_.erase(present_.find(entry.counter));
  // Whoever is at the lowest counter has nothing to remember; beyond a bound nobody is remembered.
  if (entry.counter <= Lowest() || tenants_.size() - present_.size() > kMaxAway) tenants_.erase(tenant);
}

}  // namespace skipjack
