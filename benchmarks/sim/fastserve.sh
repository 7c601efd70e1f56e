#!/usr/bin/env bash
# FastServe's published setting: OPT-13B on one A100-40G, at most 16 sequences, ShareGPT-like lengths with
# prompts up to 1,024 and at most 2,048 tokens in all, Poisson arrivals, 1,000 requests. Loads are parts of
# what `orca` can do.
#
# What `orca` can do depends on what requests ask for: it reserves max_tokens. "full" is a client that sets no
# limit, "exact" one that knows the length beforehand, "pow2" one that is right up to a factor of two.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
for asked in full pow2 exact; do
  simulate "fastserve-$asked" --cost-model configs/cost/opt-13b-a100-40g.json --workload sharegpt-2k \
    --max-tokens "$asked" --max-sequences 16 --max-batch-tokens 2048 --requests 1000 --seeds "$seeds" \
    --policy orca,request,fcfs,mlfq,index,srpt-oracle --load 0.8,0.95,1.0,1.1
  ratios "fastserve-$asked" mlfq orca
  ratios "fastserve-$asked" index orca
  echo
done
