#!/usr/bin/env bash
# Makes .venv with the clients that the integration tests drive the daemon with. Nothing at run time needs it.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

requirements="$SKIPJACK_ROOT/tests/integration/requirements.txt"
stamp="$SKIPJACK_ROOT/.venv/requirements.sha256"
wanted=$(sha256sum <"$requirements")
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
  say "the Python test clients are there"
  exit 0
fi
say "installing the Python test clients into .venv"
python3 -m venv "$SKIPJACK_ROOT/.venv"
"$SKIPJACK_ROOT/.venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
printf '%s' "$wanted" >"$stamp"
