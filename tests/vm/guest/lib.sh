# shellcheck shell=bash
# Sourced inside the guest: by suite.sh for every group, or by hand in a shell
# (`boot --shell`). What a group may use:
#
#   setup one-device | two-devices | none
#   row NAME COMMAND...          one case, one line: ok NAME / FAIL NAME (why)
#   needs BINARY...              the project's programs that a group is about
#   spawn NAME COMMAND...        within a case: run beside it, output to files
#   await_line FILE REGEX [S]    within a case: until the line is there
#   finished NAME [S]            within a case: wait for a spawned one, its status
#   same WANT GOT                within a case: files equal, or fail with a diff
#   fail WHY...                  within a case: end it
#   config_has native-write | native-flush
#
# and the variables VM_CONFIG (the configuration's name), BIN_DIR (the project's
# programs, may be empty) and PEERS (ours in C).

: "${VM_CONFIG:=$(uname -r)}" "${BIN_DIR:=}" "${PEERS:=}"
ROW_TIMEOUT=${ROW_TIMEOUT:-60}
if [[ -z ${VM_WORK:-} ]]; then
  VM_WORK=$(mktemp -d /run/vm-work.XXXXXX)
  export VM_WORK
fi
ROW_RESULTS=$VM_WORK/results      # one word a row: ok, FAIL or skip
ROW_WHY=/dev/stderr               # within a case: where fail leaves its reason

# ---- configurations -------------------------------------------------------

config_has() {
  case $1 in
    native-write) [[ $VM_CONFIG == 6.12* ]] ;;
    native-flush) [[ $VM_CONFIG == *+rdma56 ]] ;;
    *) echo "config_has: no such thing: $1" >&2; return 2 ;;
  esac
}

# use_rdma56 DIR: from here on, every program that starts runs with the libraries
# of DIR/usr (rdma-core 56 and its C library) in place of the guest's own. One
# overlay over all of /usr does it in one step: the loader and the C library
# must change together, and programs need no wrapper and no environment.
# Programs that run already keep what they have, so exec what comes next.
use_rdma56() {
  [[ -d $1/usr/lib ]] || { echo "use_rdma56: nothing in $1" >&2; return 1; }
  mount -t overlay -o "ro,lowerdir=$1/usr:/usr" rdma56 /usr
}

# ---- devices --------------------------------------------------------------

ONE_ADDR=10.9.0.1 ONE_ADDR6=fd09::1   # rxe0
TWO_ADDR=10.9.0.2                     # rxe1, with two-devices

# Until DEVICE's port is active and the GID of ADDR is at index 1.
device_ready() {
  local port=/sys/class/infiniband/$1/ports/1 gid i a b c d
  IFS=. read -r a b c d <<<"$2"
  # As the kernel prints an IPv4 address among GIDs
  gid=$(printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "$a" "$b" "$c" "$d")
  for ((i = 0; i < 200; i++)); do
    [[ $(cat "$port/state" 2>/dev/null) == *ACTIVE && $(cat "$port/gids/1" 2>/dev/null) == "$gid" ]] && return
    sleep 0.05
  done
  echo "setup: $1 is not ready: state $(cat "$port/state"), GID 1 $(cat "$port/gids/1")" >&2
  return 1
}

setup() {
  local now
  now=$(cat "$VM_WORK/setup" 2>/dev/null || echo none)
  [[ $now == "$1" ]] && return
  if [[ $now != none ]]; then
    local d
    for d in rxe0 rxe1; do
      [[ ! -e /sys/class/infiniband/$d ]] || rdma link del "$d"
    done
    ip link del veth0             # its peer, addresses and routes go with it
    if [[ $now == two-devices ]]; then
      ip rule add pref 0 lookup local
      for d in 10 11 20 21 22 23 200; do ip rule del pref "$d"; done
    fi
  fi
  echo none >"$VM_WORK/setup"
  case $1 in
    none) return ;;
    one-device) one_device ;;
    two-devices) two_devices ;;
    *) echo "setup: one-device, two-devices or none" >&2; return 2 ;;
  esac
  echo "$1" >"$VM_WORK/setup"
}

# One device; processes talk to each other over its loopback.
one_device() {
  ip link add veth0 type veth peer name veth1
  ip addr add "$ONE_ADDR"/24 dev veth0
  ip -6 addr add "$ONE_ADDR6"/64 dev veth0 nodad
  ip link set veth0 up
  ip link set veth1 up
  rdma link add rxe0 type rxe netdev veth0
  device_ready rxe0 "$ONE_ADDR"
}

# A device at each end of a wire, in one network namespace (rxe on 6.12 does not
# work in others). Left alone, the kernel would deliver packets to an address of
# its own without using the wire, so the lookup of local addresses is put behind
# rules that send the traffic between the two out through the right end; packets
# that come in from the wire are looked up as local first.
two_devices() {
  local f
  ip link add veth0 type veth peer name veth1
  ip addr add "$ONE_ADDR"/24 dev veth0
  ip addr add "$TWO_ADDR"/24 dev veth1
  ip link set veth0 up
  ip link set veth1 up
  for f in all veth0 veth1; do echo 0 >/proc/sys/net/ipv4/conf/$f/rp_filter; done
  echo 1 >/proc/sys/net/ipv4/conf/all/accept_local

  ip route add "$TWO_ADDR"/32 dev veth0 src "$ONE_ADDR" table 100
  ip route add "$ONE_ADDR"/32 dev veth1 src "$TWO_ADDR" table 101
  ip rule add pref 10 iif veth0 lookup local
  ip rule add pref 11 iif veth1 lookup local
  ip rule add pref 20 from "$ONE_ADDR" to "$TWO_ADDR" lookup 100
  ip rule add pref 21 from "$TWO_ADDR" to "$ONE_ADDR" lookup 101
  ip rule add pref 22 oif veth0 to "$TWO_ADDR" lookup 100
  ip rule add pref 23 oif veth1 to "$ONE_ADDR" lookup 101
  ip rule add pref 200 lookup local
  ip rule del pref 0 lookup local

  rdma link add rxe0 type rxe netdev veth0
  rdma link add rxe1 type rxe netdev veth1
  device_ready rxe0 "$ONE_ADDR"
  device_ready rxe1 "$TWO_ADDR"
}

# ---- rows -----------------------------------------------------------------

row_result() { # ok|FAIL|skip NAME [WHY]
  echo "$1" >>"$ROW_RESULTS"
  echo "$1 $2${3:+ ($3)}"
}

# Runs COMMAND (a program or a function of the group) in a process group and an
# empty folder of its own, for at most ROW_TIMEOUT seconds. Whatever it started
# is ended with it. Any command that fails ends the case, as under `set -e`;
# so do not call row itself from a condition (`if`, `||`).
row() {
  local name=$1 log why dir started pid clock status=0
  shift
  dir=$(mktemp -d "$VM_WORK/case.XXXXXX")
  log=$dir.log why=$dir.why
  started=$(cut -d' ' -f1 /proc/uptime)

  set -m                          # process groups, for these two jobs
  (
    set +m
    set -euo pipefail
    # shellcheck disable=SC2030 # for this case alone
    ROW_WHY=$why
    cd "$dir"
    "$@"
  ) </dev/null >"$log" 2>&1 &
  pid=$!
  (
    sleep "$ROW_TIMEOUT"
    echo "not done after $ROW_TIMEOUT s" >>"$why"
    kill -TERM -- -"$pid"
    sleep 2
    kill -KILL -- -"$pid"
  ) </dev/null >/dev/null 2>&1 &
  clock=$!
  set +m
  wait "$pid" 2>/dev/null || status=$?
  kill -KILL -- -"$clock" 2>/dev/null || true
  wait "$clock" 2>/dev/null || true
  end_group "$pid"

  if [[ $status == 0 && ! -s $why ]]; then
    row_result ok "$name"
  else
    row_result FAIL "$name" "$(head -n 1 "$why" 2>/dev/null | grep . || echo "exit status $status")"
    tail -n 60 "$log" | sed 's/^/    | /'
    local f
    for f in "$dir"/*.err; do     # what spawned programs said
      [[ -s $f ]] || continue
      echo "    | -- $(basename "$f")"
      tail -n 20 "$f" | sed 's/^/    | /'
    done
    dmesg | awk -v from="$started" -F'[][]' '$2 + 0 >= from + 0' | tail -n 10 | sed 's/^/    | kernel: /'
  fi
}

# What a case left running goes, before the next one needs its port.
end_group() {
  local i
  kill -TERM -- -"$1" 2>/dev/null || return 0
  for ((i = 0; i < 20; i++)); do
    kill -0 -- -"$1" 2>/dev/null || return 0
    sleep 0.05
  done
  kill -KILL -- -"$1" 2>/dev/null || true
}

# needs BINARY...: true when all are in BIN_DIR. Else a failed row (a skipped one
# if run was told --without-binaries), and false: `needs farword || return 0`.
needs() {
  local b absent=()
  for b; do
    [[ -n $BIN_DIR && -x $BIN_DIR/$b ]] || absent+=("$b")
  done
  ((${#absent[@]})) || return 0
  if [[ -n ${WITHOUT_BINARIES:-} ]]; then
    row_result skip "$VM_GROUP" "no ${absent[*]}"
  else
    row_result FAIL "$VM_GROUP" "no ${absent[*]} in the bin dir: ${BIN_DIR:-none given}"
  fi
  return 1
}

summary() {
  awk -v config="$VM_CONFIG" '
    { n[$1]++ }
    END {
      printf "%s: %d passed, %d failed", config, n["ok"], n["FAIL"]
      if (n["skip"]) printf ", %d skipped", n["skip"]
      print ""
      exit n["FAIL"] > 0 || n["ok"] == 0
    }' "$ROW_RESULTS"
}

# ---- within a case --------------------------------------------------------

# shellcheck disable=SC2031 # set by row, for the case
fail() {
  echo "$*" >>"$ROW_WHY"
  exit 1
}

# Output goes to NAME.out and NAME.err in the case's folder.
spawn() {
  local name=$1
  shift
  "$@" >"$name.out" 2>"$name.err" &
  echo $! >"$name.pid"
}

await_line() {
  local i
  for ((i = 0; i < ${3:-20} * 20; i++)); do
    grep -Eq -- "$2" "$1" 2>/dev/null && return
    sleep 0.05
  done
  fail "no line '$2' in $1 after ${3:-20} s"
}

# Returns the status of a spawned program, which must end within S seconds (20).
finished() {
  local i pid
  pid=$(cat "$1.pid")
  for ((i = 0; i < ${2:-20} * 20; i++)); do
    if ! kill -0 "$pid" 2>/dev/null; then
      wait "$pid"
      return
    fi
    sleep 0.05
  done
  fail "$1 is still running after ${2:-20} s"
}

same() {
  diff -u "$1" "$2" | head -n 40 || fail "$2 is not as $1"
}
