#!/usr/bin/env bash
# What learning from earlier answers gains over feedback queues, and how far both are from knowing the lengths:
# a heavy tail whose lengths are independent of everything, and the same lengths sent by tenants that differ.
# Loads are parts of what `fcfs` can do. Memory for 12,000 tokens; with 64 seats it is what limits.
#
# BOUND, AGEING: the starvation bound of `mlfq` and the ageing bound of `index`; 0 is never.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
requests=${REQUESTS:-4000}
for seats in 16 64; do
  for workload in heavy-tail classes; do
    for bounds in 3:120 0:0; do
      name=learning-$workload-$seats-${bounds/:/-}
      simulate "$name" --cost-model configs/cost/opt-13b-a100-40g.json --workload "$workload" \
        --max-sequences "$seats" --requests "$requests" --seeds "$seeds" \
        --starvation-bound "${bounds%:*}" --ageing-bound "${bounds#*:}" \
        --policy fcfs,mlfq,index,srpt-oracle --load 0.8,0.95
      ratios "$name" index mlfq
      ratios "$name" srpt-oracle index
      echo
    done
  done
done
