# shellcheck shell=bash
# What farword's C library has beside librpma's calls, over a real device: the
# example, the ring, the remote log, posts and polls of several threads.

needs capi/extension/publish capi/lib/librpma.so.0 || return 0

ours() { LD_LIBRARY_PATH=$BIN_DIR/capi/lib "$@"; }

publish() { # PORT
  spawn server ours "$BIN_DIR/capi/extension/publish" server "$ONE_ADDR" "$1"
  local i status=1
  # It does not say when it listens.
  for ((i = 0; i < 50; i++)); do
    ! timeout 50 env LD_LIBRARY_PATH="$BIN_DIR/capi/lib" \
      "$BIN_DIR/capi/extension/publish" client "$ONE_ADDR" "$1" "a text of 18 bytes" || { status=0; break; }
    sleep 0.2
  done
  [[ $status == 0 ]] || fail "the client failed"
  finished server || fail "the server failed"
  echo "a text of 18 bytes" >want
  same want server.out
}

# Both sides are ours, so the region grants the operation where there is one.
publish_flushing_natively() { # PORT
  export FARWORD_RPMA_FLUSH=native
  publish "$1"
}

flow() { # NAME PORT
  local program=$BIN_DIR/capi/extension/$1
  spawn server ours "$program" serve "$ONE_ADDR" "$2"
  await_line server.out listening
  LD_LIBRARY_PATH=$BIN_DIR/capi/lib timeout 50 "$program" call "$ONE_ADDR" "$2" >caller.out
  grep -qx "$1: called" caller.out || fail "the caller did not come to its end"
  finished server || fail "the server failed"
  grep -qx "$1: served" server.out || fail "the server did not come to its end"
}

setup one-device
row "the example publishes a text with one doorbell" publish 7751
row "the same with the FLUSH operation, where there is one" publish_flushing_natively 7755
row "the ring, from C: writes, refusals, and a failure told of" flow ring 7752
row "the remote log, from C" flow log 7753
row "two threads post and a third polls" flow threads 7754
