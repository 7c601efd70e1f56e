#!/usr/bin/env bash
# How fast the simulator is: a million requests at 0.95 of what `fcfs` can do, for each policy.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
for policy in ${POLICIES:-orca fcfs mlfq index}; do
  simulate "speed-$policy" --cost-model configs/cost/opt-13b-a100-40g.json --workload alpaca --reference fcfs \
    --policy "$policy" --load 0.95 --requests "${REQUESTS:-1000000}" --max-tokens pow2
  python3 -c "import json, sys; p = json.load(open(sys.argv[1]))['points'][0]; print(f\"{p['policy']}: {p['wall_seconds']:.0f} s, {(p['requests'] + p['refused']) / 0.9 / p['wall_seconds']:.0f} requests/s, {p['steps'] / p['wall_seconds']:.0f} steps/s\")" "$out/speed-$policy.json"
done
