#!/usr/bin/env bash
# Job completion times of a real daemon under each policy, on the CPU engine, with the model that tools/run.sh
# downloads. Prints a table; numbers and a plot go to build/jct.
#
#   benchmarks/serve/jct.sh --quick    one seed at 0.9 of the saturation of `fcfs`: within 40 minutes on 2 cores
#   benchmarks/serve/jct.sh            three seeds at 0.7, 0.9 and 1.0: hours. A second call goes on where the
#                                      first one was stopped
#
# benchmarks/serve/jct.py --help lists what else can be chosen.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec python3 benchmarks/serve/jct.py "$@"
