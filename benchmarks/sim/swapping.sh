#!/usr/bin/env bash
# What becomes of preempted KV: computed again, copied to and from host memory when needed, or ahead of need. A
# heavy tail on 64 seats, with a device pool for about a quarter of what those seats would hold. All three get
# the same arrivals: parts of what `fcfs` can do when it computes again. Once with the bound on lost work that
# Skipjack has, once without it, as the algorithms were published.
#
# POLICY: who schedules. KV_TOKENS: the device pool.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
policy=${POLICY:-mlfq}
kv_tokens=${KV_TOKENS:-6000}
requests=${REQUESTS:-4000}
setting=(--cost-model configs/cost/opt-13b-a100-40g.json --workload heavy-tail --max-sequences 64
  --kv-tokens "$kv_tokens")

simulate swapping-reference "${setting[@]}" --policy fcfs --load 0.5 --requests 200 >/dev/null
saturation=$(python3 -c "import json, sys; print(json.load(open(sys.argv[1]))['setting']['saturation_requests_per_second'])" \
  "$out/swapping-reference.json")
for lost in 0.02 1; do
  for load in 0.7 0.9 1.0; do
    rate=$(python3 -c "print($saturation * $load)")
    for swap in recompute reactive proactive; do
      simulate "swapping-$lost-$load-$swap" "${setting[@]}" --requests "$requests" --seeds "$seeds" \
        --policy "$policy" --rate "$rate" --swap "$swap" --max-lost "$lost"
    done
    python3 - "$out" "$lost" "$load" <<'PYTHON'
import json, sys
out, lost, load = sys.argv[1:]
points = {s: json.load(open(f"{out}/swapping-{lost}-{load}-{s}.json"))["points"][0]
          for s in ("recompute", "reactive", "proactive")}
best = points["proactive"]
for other in ("reactive", "recompute"):
    p = points[other]
    print(f"proactive over {other}, max lost {lost}, load {load}: JCT mean {p['jct']['mean'] / best['jct']['mean']:.2f}x, "
          f"p50 {p['jct']['p50'] / best['jct']['p50']:.2f}x, p95 {p['jct']['p95'] / best['jct']['p95']:.2f}x; "
          f"normalized latency p95 {p['normalized_latency']['p95'] / best['normalized_latency']['p95']:.2f}x")
print(f"of the busy time, waiting for copies: {100 * best['copying_time_part']:.2f} % proactive, "
      f"{100 * points['reactive']['copying_time_part']:.2f} % reactive")
PYTHON
  done
done
