#!/bin/bash
# speed.sh FARWORD PEERS ROUNDS: runs in the guest, for tests/vm/speed. A line for
# each measurement: the row's name and the nanoseconds that a write took.
set -euo pipefail
farword=$1 peers=$2 rounds=$3
here=$(dirname "$(readlink -f "$0")")
# shellcheck source=lib.sh
. "$here/lib.sh"
setup one-device
# Where everything sleeps, such a guest's clock leaps ahead: what waits for a
# message that was lost is out of time at once, and tried again, with another peer.
export PEER_TIMEOUT=60

# serve: a side to write to, for one measurement. Sets port and server.
serve() {
  "$farword" perf rate --serve "$ONE_ADDR:0" >server.out 2>server.err &
  server=$!
  await_line server.err 'listening on'
  port=$(sed -n 's/.*listening on .*://p' server.err)
}

# It has no more to do, and is not waited for.
served() {
  kill -KILL "$server"
  wait "$server" 2>/dev/null || true
}

# field NAME: its value in the JSON object on standard input.
field() { sed -n "s/.*\"$1\":[[:space:]]*\([^,}]*\).*/\1/p"; }

theirs() { # ROW ARGUMENTS...
  local row=$1 ns
  shift
  serve
  if ! ns=$("$peers/rpma-writer" "$ONE_ADDR" "$port" "$@"); then
    served
    serve
    ns=$("$peers/rpma-writer" "$ONE_ADDR" "$port" "$@")
  fi
  served
  echo "$row $ns"
}

ours() { # ROW rate|latency ARGUMENTS...
  local row=$1 what=$2 report
  shift 2
  serve
  report=$("$farword" perf "$what" --connect "$ONE_ADDR:$port" --duration 0.2 --json "$@")
  served
  [[ $(field verified <<<"$report") == true ]] || { echo "speed: $row: not verified" >&2; exit 1; }
  awk -v row="$row" -v s="$(field seconds <<<"$report")" -v n="$(field writes <<<"$report")" \
    'BEGIN { printf "%s %.1f\n", row, s * 1e9 / n }'
}

for ((round = 0; round < rounds; round++)); do
  theirs librpma_always rate 8192
  theirs librpma_on_error rate 8192 32
  ours ring_32 rate --batch 32 --fallback
  [[ $(uname -r) == 6.1.* ]] || ours ring_32_native rate --batch 32 --native
  theirs librpma_one latency 8192
  ours ring_one latency --batch 1 --fallback
done
