# Shared by the scripts of this folder: where the project is, and how they speak.
# shellcheck shell=bash
set -euo pipefail

SKIPJACK_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SKIPJACK_JOBS=${SKIPJACK_JOBS:-$(nproc)}
SKIPJACK_MODEL="$SKIPJACK_ROOT/models/SmolLM2-135M-Instruct.Q4_1.gguf"

say() { printf '\033[1m[skipjack %s]\033[0m %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() { printf '[skipjack] error: %s\n' "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# build_preset PRESET [TARGET...]: configure and build one CMake preset. Whoever builds without the packages of the
# tests sets SKIPJACK_TESTS=OFF.
build_preset() {
  local preset=$1
  shift
  say "configuring ($preset)"
  (cd "$SKIPJACK_ROOT" && cmake --preset "$preset" -DSKIPJACK_CUDA="${SKIPJACK_CUDA:-AUTO}" \
    -DSKIPJACK_BUILD_TESTS="${SKIPJACK_TESTS:-ON}" >/dev/null)
  say "building ($preset, $SKIPJACK_JOBS jobs; only what changed)"
  local targets=()
  [ $# -eq 0 ] || targets=(--target "$@")
  cmake --build "$SKIPJACK_ROOT/build/$preset" -j "$SKIPJACK_JOBS" "${targets[@]}"
}
