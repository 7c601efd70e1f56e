#!/usr/bin/env bash
# Installs, builds, fetches the model, starts the daemon, streams one answer and keeps serving until Ctrl-C.
# Usage: tools/run.sh [--once] ["PROMPT"]     --once: stop cleanly after the answer
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

once=false
if [ "${1:-}" = --once ]; then
  once=true
  shift
fi
prompt=${1:-The capital of France is}
config="$SKIPJACK_ROOT/configs/quickstart.yaml"
skipjack="$SKIPJACK_ROOT/build/release/bin/skipjack"

"$SKIPJACK_ROOT/tools/install.sh" build run model
"$SKIPJACK_ROOT/tools/fetch_model.sh"
SKIPJACK_TESTS=OFF build_preset release skipjack

say "starting: skipjack serve --config configs/quickstart.yaml"
scratch=$(mktemp -d)
# In a session of its own, so that Ctrl-C reaches this script only, which then asks the daemon to stop, once.
setsid "$skipjack" serve --config "$config" --ready-file "$scratch/ready" &
daemon=$!
# stop CODE: ends the daemon; what went wrong first decides the exit status.
stop() {
  trap - EXIT INT TERM HUP
  if kill -0 "$daemon" 2>/dev/null; then
    say "stopping (running answers may finish)"
    kill -TERM "$daemon" 2>/dev/null || true
  fi
  local code=$1 ended=0
  wait "$daemon" || ended=$?
  rm -rf "$scratch"
  [ "$code" -ne 0 ] || code=$ended
  exit "$code"
}
trap 'stop $?' EXIT
trap 'stop 0' INT TERM HUP

while [ ! -s "$scratch/ready" ]; do
  kill -0 "$daemon" 2>/dev/null || die "the daemon ended before it was ready; its log above says why"
  sleep 0.05
done
# The ready file holds the addresses that the daemon listens on: grpc=HOST:PORT and http=HOST:PORT.
grpc_address=$(sed -n 's/^grpc=//p' "$scratch/ready")
http_address=$(sed -n 's/^http=//p' "$scratch/ready")

say "asking over gRPC ($grpc_address): $prompt"
"$skipjack" generate --connect "$grpc_address" --max-tokens 48 --temperature 0 --prompt "$prompt"

if $once; then
  exit 0
fi
cat >&2 <<EOF

Skipjack is serving. Call it from another terminal:

  gRPC     $skipjack generate --connect $grpc_address --chat --prompt "Why is the sky blue?"
  curl     curl -N http://$http_address/v1/chat/completions -H 'Content-Type: application/json' \\
             -d '{"model": "smollm2-135m", "stream": true, "messages": [{"role": "user", "content": "Why is the sky blue?"}]}'
  Python   from openai import OpenAI
           client = OpenAI(base_url="http://$http_address/v1", api_key="none")
           print(client.chat.completions.create(model="smollm2-135m",
                 messages=[{"role": "user", "content": "Why is the sky blue?"}]).choices[0].message.content)

Ctrl-C stops it.
EOF
wait "$daemon"
