#!/usr/bin/env bash
# Installs, builds and runs every test: release, ASan+UBSan, TSan, and the clients against a real daemon.
# Usage: tools/test.sh [--quick | --all]    --quick: release only    --all: also what takes long
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mode=${1:-}
case $mode in
  "" | --quick | --all) ;;
  *) die "usage: tools/test.sh [--quick | --all]" ;;
esac
exclude=(--label-exclude '^long$')
[ "$mode" != --all ] || exclude=()

run_ctest() {
  local preset=$1
  say "testing ($preset)"
  (cd "$SKIPJACK_ROOT" && ctest --preset "$preset" "${exclude[@]}")
}

# The clients against a real daemon of this build.
run_clients() {
  local preset=$1
  say "testing the daemon with its clients ($preset)"
  (cd "$SKIPJACK_ROOT/tests/integration" &&
    SKIPJACK_BINARY="$SKIPJACK_ROOT/build/$preset/bin/skipjack" "$SKIPJACK_ROOT/.venv/bin/python" -m pytest)
}

"$SKIPJACK_ROOT/tools/install.sh" build run model test
"$SKIPJACK_ROOT/tools/fetch_model.sh"
"$SKIPJACK_ROOT/tools/python_env.sh"

build_preset release
run_ctest release
run_clients release
if [ "$mode" = --quick ]; then
  say "release tests passed (--quick: sanitizers were left out)"
  exit 0
fi
build_preset debug
run_ctest debug
run_clients debug
build_preset tsan
run_ctest tsan
say "all tests passed: release, ASan+UBSan, TSan"
