# Sourced by the scripts of this folder: where things are, and how a simulation is run and kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
skipjack=${SKIPJACK:-build/release/bin/skipjack}
out=${OUT:-build/sim}
seeds=${SEEDS:-3}
mkdir -p "$out"

# simulate NAME ARGS...: prints the table; the numbers go to $out/NAME.json.
simulate() {
  local name=$1
  shift
  echo "== $name"
  "$skipjack" simulate "$@" --json "$out/$name.json"
  python3 benchmarks/plot.py "$out/$name.json"
  echo
}

# ratios NAME BETTER WORSE: what BETTER gains over WORSE at each load.
ratios() {
  python3 - "$out/$1.json" "$2" "$3" <<'PYTHON'
import json, sys
points = json.load(open(sys.argv[1]))["points"]
better, worse = sys.argv[2], sys.argv[3]
for load in sorted({p["load"] for p in points}):
    at = {p["policy"]: p for p in points if p["load"] == load}
    if better not in at or worse not in at: continue
    def gain(*path):
        a, b = at[better], at[worse]
        for key in path: a, b = a[key], b[key]
        return b / a if a else float("nan")
    print(f"{better} over {worse} at load {load:.2f}: JCT mean {gain('jct', 'mean'):.2f}x, p95 {gain('jct', 'p95'):.2f}x, "
          f"p99 {gain('jct', 'p99'):.2f}x; normalized latency mean {gain('normalized_latency', 'mean'):.2f}x, "
          f"p95 {gain('normalized_latency', 'p95'):.2f}x")
PYTHON
}
