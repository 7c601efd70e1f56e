#include "sched/policy.h"

#include <array>
#include <string>

#include "sched/batch_policies.h"
#include "sched/fcfs_policy.h"
#include "sched/index_policy.h"
#include "sched/mlfq_policy.h"

namespace skipjack {
namespace {

using Made = std::unique_ptr<Policy>;

struct KnownPolicy {
  std::string_view name;
  Made (*make)(const PolicySettings& settings, const Learnt& learnt);
};

constexpr std::array kPolicies = {
    KnownPolicy{
        "request",
        [](const PolicySettings&, const Learnt&) -> Made { return std::make_unique<RequestPolicy>(); }},
    KnownPolicy{"orca",
                [](const PolicySettings&, const Learnt&) -> Made { return std::make_unique<OrcaPolicy>(); }},
    KnownPolicy{"fcfs",
                [](const PolicySettings&, const Learnt&) -> Made { return std::make_unique<FcfsPolicy>(); }},
    KnownPolicy{"mlfq",
                [](const PolicySettings& settings, const Learnt& learnt) -> Made {
                  return std::make_unique<MlfqPolicy>(settings, learnt.latency);
                }},
    KnownPolicy{"index",
                [](const PolicySettings& settings, const Learnt& learnt) -> Made {
                  return std::make_unique<IndexPolicy>(settings, learnt);
                }},
};

}  // namespace

Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, const PolicySettings& settings,
                                           const Learnt& learnt) {
  std::string known;
  for (const KnownPolicy& policy : kPolicies) {
    if (policy.name == name) return policy.make(settings, learnt);
    if (!known.empty()) known += ", ";
    known += policy.name;
  }
  return Status::InvalidArgument("unknown scheduling policy '" + std::string(name) +
                                 "'; known policies: " + known);
}

}  // namespace skipjack
