#!/usr/bin/env bash
# Installs, builds and runs every test: release and ASan+UBSan, both with the clients against a real daemon, and under
# TSan whatever runs on several threads.
# Usage: tools/test.sh [--quick | --all]    --quick: release only    --all: also what takes long
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mode=${1:-}
case $mode in
  "" | --quick | --all) ;;
  *) die "usage: tools/test.sh [--quick | --all]" ;;
esac

# Tests with several threads in them. gRPC is left out of that build: it reports falsely.
threaded=(base_test daemon_test embed_test engine_test kv_test obs_test registry_test sched_test serve_http_test serve_test)

started=$SECONDS
finished() { say "$1 after $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s"; }

# run_ctest PRESET LABELS ARGS...: all tests but those with one of the labels, a regular expression.
run_ctest() {
  local preset=$1 labels=$2
  shift 2
  [ "$mode" != --all ] || labels='^$'
  say "testing ($preset)"
  (cd "$SKIPJACK_ROOT" && ctest --preset "$preset" -j"$SKIPJACK_JOBS" --label-exclude "$labels" "$@")
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
run_ctest release '^long$'
run_clients release
if [ "$mode" = --quick ]; then
  finished "release tests passed (--quick: sanitizers were left out)"
  exit 0
fi
finished "release tests passed"
build_preset debug
run_ctest debug '^(long|heavy)$'
run_clients debug
finished "ASan+UBSan tests passed"
if [ "$mode" = --all ]; then
  build_preset tsan
  run_ctest tsan '^long$'
else
  build_preset tsan "${threaded[@]}"
  run_ctest tsan '^long$' --tests-regex "^($(IFS='|'; echo "${threaded[*]}"))\$"
fi
finished "all tests passed: release, ASan+UBSan, TSan"
