#include "sched/policy.h"

#include <array>
#include <string>

#include "sched/fcfs_policy.h"

namespace skipjack {
namespace {

struct KnownPolicy {
  std::string_view name;
  std::unique_ptr<Policy> (*make)();
};

constexpr std::array kPolicies = {
    KnownPolicy{"fcfs", []() -> std::unique_ptr<Policy> { return std::make_unique<FcfsPolicy>(); }},
};

}  // namespace

Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name) {
  std::string known;
  for (const KnownPolicy& policy : kPolicies) {
    if (policy.name == name) return policy.make();
    if (!known.empty()) known += ", ";
    known += policy.name;
  }
  return Status::InvalidArgument("unknown scheduling policy '" + std::string(name) +
                                 "'; known policies: " + known);
}

}  // namespace skipjack
