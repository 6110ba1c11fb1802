# shellcheck shell=bash
# librpma's own atomic-write example, with our command at the other end. It is
# not part of the project: whoever has built the examples of librpma's source
# names their folder in RPMA_EXAMPLES. The peers of group 40 are programs of ours
# that do the same.

[[ -n ${RPMA_EXAMPLES:-} ]] || return 0
needs farword || return 0
EXAMPLE=$RPMA_EXAMPLES/07-atomic-write

example_starts() {
  [[ -x $EXAMPLE/server && -x $EXAMPLE/client ]] || fail "no server and client in $EXAMPLE"
  ldd "$EXAMPLE/server"
}

# It does not say when it listens, so try until it does.
append_to_example() { # PATH LINES
  local i
  spawn server "$EXAMPLE/server" "$ONE_ADDR" 7501
  for ((i = 0; i < 50; i++)); do
    sleep 0.2
    "$BIN_DIR/farword" append "$2" --connect "$ONE_ADDR:7501" "--$1" --json >report 2>error && break
    grep -q 'nobody listens there' error || fail "$(cat error)"
  done
  cat report
  grep -q '"verified":true' report || fail "not verified"
  finished server || fail "the server failed"
  same "$2" server.out
}

our_append_on_its_server() { # PATH
  printf '%s\n' one two "a line of several words" >want
  append_to_example "$1" want
}

its_client_on_our_serve() {
  spawn server "$BIN_DIR/farword" serve "$ONE_ADDR:0" --once --log-size 64K
  await_line server.err 'listening on' 40
  local at
  at=$(sed -n 's/.*listening on //p' server.err)
  timeout 50 "$EXAMPLE/client" "$ONE_ADDR" "${at##*:}" one two "a line of several words"
  finished server || fail "our server failed"
  printf '%s\n' one two "a line of several words" >want
  same want server.out
}

setup one-device
row "librpma's atomic-write example is there" example_starts
row "our append on the example's server, fallback path" our_append_on_its_server fallback
if config_has native-write; then
  row "our append on the example's server, native path" our_append_on_its_server native
fi
row "the example's client on our serve" its_client_on_our_serve
