# shellcheck shell=bash
# librpma's own example programs over farword's C library. They are no part of
# the project: whoever has built them, unmodified, against Debian's librpma names
# their folder in RPMA_EXAMPLES. Each has a folder with `server` and `client`.
# Without persistent memory they use ordinary memory, by themselves.

[[ -n ${RPMA_EXAMPLES:-} ]] || return 0
needs capi/lib/librpma.so.0 || return 0
OURS=$BIN_DIR/capi/lib

with() { # ours|theirs COMMAND...
  local library=$1
  shift
  if [[ $library == ours ]]; then LD_LIBRARY_PATH=$OURS "$@"; else "$@"; fi
}

# They do not say when they listen; the kernel does.
await_listener() { # PORT
  local i
  for ((i = 0; i < 100; i++)); do
    ! rdma resource show cm_id | grep -q "state LISTEN.*:$1 \|:$1 .*state LISTEN" || return 0
    [[ -s server.pid ]] && kill -0 "$(cat server.pid)" 2>/dev/null || fail "the server ended early"
    sleep 0.1
  done
  fail "no listener at port $1: $(rdma resource show cm_id)"
}

# Those that go on for more callers are ended here.
server_ends() { # MAY-GO-ON
  local i pid status=0
  pid=$(cat server.pid)
  for ((i = 0; i < 100; i++)); do
    if ! kill -0 "$pid" 2>/dev/null; then
      wait "$pid" || status=$?
      [[ $status == 0 ]] || fail "the server's status is $status"
      return
    fi
    [[ -z $1 || $i -lt 20 ]] || { kill "$pid"; return; }
    sleep 0.1
  done
  fail "the server is still running"
}

example() { # NAME PORT SERVER'S-LIBRARY CLIENT'S-LIBRARY
  local folder=$RPMA_EXAMPLES/$1 port=$2 goes_on='' client at="$ONE_ADDR $2"
  local -a servers=() calls=() before=()
  case $1 in
    06*) calls=("8" "9" "11") goes_on=1 ;;
    07*) calls=("1st_word 2nd_word 3rd_word") ;;
    08*) calls=("7 3") ;;
    10*) calls=("1234 1st_word") ;;
    11*) calls=("1234") ;;
    12*) calls=("7 3") ;;
    13*) servers=(8) calls=("1 3" "5 3") ;;
    *) calls=("") ;;
  esac
  local patience=30
  [[ $1 != 12scch* ]] || patience=10          # see one_of_four
  # These end with a message that their disconnect may overtake.
  case $1 in
    08* | 09* | 12* | 13*) before=(env LD_PRELOAD="$PEERS/unhurried.so") ;;
  esac
  spawn server with "$3" "$folder/server" "$ONE_ADDR" "$port" "${servers[@]}"
  await_listener "$port"
  # All at once: the last of them is for several clients at a time.
  for client in "${calls[@]}"; do
    # shellcheck disable=SC2086 # words are words
    spawn "client ${client// /-}" with "$4" timeout "$patience" "${before[@]}" "$folder/client" $at $client
  done
  for client in "${calls[@]}"; do
    finished "client ${client// /-}" 40 || fail "the client $client failed"
  done
  server_ends "$goes_on"
  cat ./*.out
  # They say so on standard error, and not all in their status.
  ! grep -i 'failed' server.out server.err || fail "the server says that something failed"
}

# Example 12scch wants the completions of its two queues, which share a channel, in
# one order: that of a sent message before that of the answer to it. The device
# promises no such thing, so either side may give up, with librpma as well.
one_of_four() { # NAME PORT SIDES...
  local name=$1 port=$2 try
  shift 2
  for try in 0 1 2 3; do
    # shellcheck disable=SC2030 # for this attempt alone
    if (ROW_WHY=/dev/stdout; example "$name" $((port + try * 1000)) "$@"); then return; fi
    kill "$(cat server.pid)" 2>/dev/null || true
    cat ./*.err
  done
  fail "none of four attempts went well"
}

setup one-device
port=7700
for folder in "$RPMA_EXAMPLES"/*/; do
  name=$(basename "$folder")
  [[ -x $folder/server && -x $folder/client ]] || continue
  for sides in "ours ours" "ours theirs" "theirs ours"; do
    read -r server client <<<"$sides"
    run=example
    [[ $name != 12scch* ]] || run=one_of_four
    row "$name: $server serves, $client calls" "$run" "$name" $((port += 1)) "$server" "$client"
  done
done
