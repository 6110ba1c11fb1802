# shellcheck shell=bash
# librpma with librpma: proves the two C peers, before farword talks to either.

# append_to_server ADDR PORT CLIENT-ARGUMENTS...; leaves the log in server.out
append_to_server() {
  local addr=$1 port=$2
  shift 2
  spawn server "$PEERS/rpma-log-server" "$addr" "$port"
  await_line server.err "listening"
  timeout 50 "$PEERS/rpma-log-client" "$addr" "$port" "$@"
  finished server || fail "the server failed"
}

three_words() {
  append_to_server "$ONE_ADDR" 7301 one two three
  printf '%s\n' one two three >want
  same want server.out
}

two_hundred_lines() {
  # Of 37 lengths, so that records start at every alignment.
  awk 'BEGIN { for (i = 1; i <= 200; i++) printf "line %d %s\n", i, substr("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 1, i % 37) }' >want
  append_to_server "$ONE_ADDR" 7302 --stdin <want
  same want server.out
}

over_ipv6() {
  append_to_server "$ONE_ADDR6" 7303 six
  echo six >want
  same want server.out
}

a_full_log_is_refused() {
  spawn server "$PEERS/rpma-log-server" "$ONE_ADDR" 7304 24
  await_line server.err "listening"
  local status=0
  "$PEERS/rpma-log-client" "$ONE_ADDR" 7304 1234567 x 2>client.err || status=$?
  [[ $status == 1 ]] || fail "the client's status is $status"
  grep -q "the log is full" client.err || fail "the client gave another reason"
  finished server || fail "the server failed"
  echo 1234567 >want
  same want server.out
}

no_server_is_an_error() {
  local status=0
  "$PEERS/rpma-log-client" "$ONE_ADDR" 7305 word 2>client.err || status=$?
  cat client.err
  [[ $status == 1 ]] || fail "the client's status is $status"
}

setup one-device
row "librpma's client appends three words" three_words
row "librpma's client appends 200 lines" two_hundred_lines
row "librpma's client appends over IPv6" over_ipv6
row "librpma's client refuses a full log" a_full_log_is_refused
row "librpma's client reports that nobody listens" no_server_is_an_error
