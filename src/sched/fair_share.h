// Fairness among tenants: virtual token counters (Sheng et al., OSDI'24), as tags of waiting sequences.
//
// A tenant's counter is the service it got: prompt tokens, and generated tokens twice. A newcomer's tag is
// its tenant's counter plus what the tenant already has waiting, so that a tenant who sends a hundred
// requests at once spreads over the same range as a hundred tenants who send one. Tags are fixed when a
// sequence comes: the order of those who wait does not change with the counters, and a step costs nothing for
// them. A tenant who was away is lifted to the lowest counter among those present: it saves nothing up.
//
// Not thread-safe: the scheduler's owner owns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace skipjack {

class FairShare {
 public:
  // One range of tags; within a range the policy decides.
  static constexpr double kRange = 4096;

  struct Tenant {
    double counter = 0;
    double waiting = 0;  // expected service of those who were not served yet
    std::int32_t present = 0;
  };
  // Stays valid while the tenant has sequences.
  using Handle = std::map<std::string, Tenant, std::less<>>::iterator;

  static double Service(double prompt_tokens, double generated_tokens) {
    return prompt_tokens + 2 * generated_tokens;
  }

  // A sequence of this tenant came. `expected` is its expected service.
  Handle Enter(std::string_view tenant, double expected, std::int64_t* tag);
  // It is served for the first time: what it expects no longer waits.
  void Start(Handle tenant, double expected) { tenant->second.waiting -= expected; }
  void Charge(Handle tenant, double service);
  // It is gone.
  void Leave(Handle tenant);

  std::size_t tenants() const { return tenants_.size(); }

 private:
  double Lowest() const { return present_.empty() ? lifted_ : *present_.begin(); }

  // Counters of those who are away are kept for a while, the oldest go first.
  static constexpr std::size_t kMaxAway = 4096;

  std::map<std::string, Tenant, std::less<>> tenants_;
  std::multiset<double> present_;  // counters of tenants with sequences
  double lifted_ = 0;              // the lowest counter when the last one left
};

}  // namespace skipjack
