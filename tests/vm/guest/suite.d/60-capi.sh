# shellcheck shell=bash
# farword's C library in the place of librpma: programs that were built against
# Debian's, unchanged, with either library on either side.

needs capi/flows/rpma-read capi/lib/librpma.so.0 || return 0
OURS=$BIN_DIR/capi/lib

# with LIBRARY COMMAND...: runs it with `ours` or `theirs`.
with() {
  local library=$1
  shift
  if [[ $library == ours ]]; then
    LD_LIBRARY_PATH=$OURS "$@"
  else
    "$@"
  fi
}

# What the loader takes, for the rows below to mean what they say.
the_loader_takes() {
  local of
  for of in "$BIN_DIR"/capi/flows/* "$PEERS"/rpma-*; do
    LD_TRACE_LOADED_OBJECTS=1 with ours "$of" >objects
    grep -q "librpma.so.0 => $OURS/librpma.so.0" objects || fail "$of: $(grep librpma objects)"
    LD_TRACE_LOADED_OBJECTS=1 with theirs "$of" >objects
    grep -q "librpma.so.0 => /lib\|librpma.so.0 => /usr/lib" objects || fail "$of: $(grep librpma objects)"
  done
}

flow() { # NAME PORT SERVER'S-LIBRARY CALLER'S-LIBRARY
  local program=$BIN_DIR/capi/flows/rpma-$1
  spawn server with "$3" "$program" serve "$ONE_ADDR" "$2"
  await_line server.out listening
  with "$4" timeout 50 "$program" call "$ONE_ADDR" "$2" >caller.out
  grep -qx "$1: called" caller.out || fail "the caller did not come to its end"
  finished server || fail "the server failed"
  grep -qx "$1: served" server.out || fail "the server did not come to its end"
}

# The log of librpma's atomic-write example, by the peers.
example_log() { # PORT SERVER'S-LIBRARY CLIENT'S-LIBRARY
  awk 'BEGIN { for (i = 1; i <= 100; i++) printf "line %d %s\n", i, substr("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 1, i % 37) }' >want
  spawn server with "$2" "$PEERS/rpma-log-server" "$ONE_ADDR" "$1"
  await_line server.err listening
  with "$3" timeout 50 "$PEERS/rpma-log-client" "$ONE_ADDR" "$1" --stdin <want
  finished server || fail "the server failed"
  same want server.out
}

nobody_listens() {
  local status=0
  with ours "$PEERS/rpma-log-client" "$ONE_ADDR" 7690 word 2>error || status=$?
  cat error
  [[ $status == 1 ]] || fail "the client's status is $status"
}

setup one-device
row "the loader takes our library and theirs as it is told" the_loader_takes
port=7600
for sides in "ours ours" "ours theirs" "theirs ours"; do
  read -r server caller <<<"$sides"
  for of in read write flush atomic_write write_with_imm messages connections shared_channel srq threads; do
    row "$of: $server serves, $caller calls" flow "$of" $((port += 1)) "$server" "$caller"
  done
done
row "an atomic-write log: ours serves, ours calls" example_log 7691 ours ours
row "an atomic-write log: ours serves, theirs calls" example_log 7692 ours theirs
row "an atomic-write log: theirs serves, ours calls" example_log 7693 theirs ours
row "nobody listens: our library says so" nobody_listens
