# shellcheck shell=bash
# The `farword` command over a fabric, with itself and with librpma's peers.

needs farword || return 0
FARWORD=$BIN_DIR/farword

connected() { # COUNT: until so many ends of connections are up
  local i
  for ((i = 0; i < 200; i++)); do
    (($(rdma resource show cm_id | grep -c 'state CONNECT') < $1)) || return 0
    sleep 0.1
  done
  fail "not connected: $(rdma resource show cm_id)"
}

# Real lines: the scripts of this suite itself, over and over.
real_lines() { # COUNT
  local here
  here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
  awk -v n="$1" '{ lines[NR] = $0 } END { for (i = 0; i < n; i++) print lines[i % NR + 1] }' \
    "$here"/*.sh "$here"/../lib.sh
}

serve() { # ADDR ARGUMENTS...; waits until it listens, and leaves where in `at`
  local addr=$1
  shift
  # To register much memory takes seconds in an emulated machine.
  [[ " $* " == *" --log-size "* || " $* " == *" --file "* ]] || set -- "$@" --log-size 1M
  spawn server "$FARWORD" serve "$addr:0" "$@"
  await_line server.err 'listening on' 40
  at=$(sed -n 's/.*listening on //p' server.err)
}

lists_devices() {
  "$FARWORD" devices
  "$FARWORD" devices --json >json
  cat json
  grep -q '"name":"rxe0"' json || fail "no rxe0"
  grep -q "::ffff:$ONE_ADDR\",\"version\":\"RoCE v2\"" json || fail "no GID of the address"
  grep -q '"state":"active"' json || fail "no active port"
  if config_has native-write; then
    grep -q '"native_atomic_write":true' json || fail "no atomic write"
  else
    grep -q '"native_atomic_write":false' json || fail "an atomic write that does not work"
  fi
  # What the library can ask for is another question, and rdma-core 44 has no FLUSH.
  grep -q '"library_atomic_write":true' json || fail "a library without atomic write"
  if config_has native-flush; then
    grep -q '"library_flush":true' json || fail "no flush in the library"
  else
    grep -q '"library_flush":false' json || fail "a flush in the library"
  fi
}

appends_ten_thousand() { # PATH
  real_lines 10000 >want
  serve "$ONE_ADDR" --once
  "$FARWORD" append want --connect "$at" "--$1" --json --batch 64 >report
  cat report
  grep -q '"records":10000' report || fail "not all records"
  grep -q '"verified":true' report || fail "not verified"
  grep -q "\"path\":\"$1\"" report || fail "not the $1 path"
  local flush=emulated
  if [[ $1 == native ]] && config_has native-flush; then flush=native; fi
  grep -q "\"flush\":\"$flush\"" report || fail "not by $flush flushes"
  finished server || fail "the server failed"
  same want server.out
}

native_is_refused() {
  local status=0
  serve "$ONE_ADDR"
  echo x | "$FARWORD" append - --connect "$at" --native 2>error || status=$?
  cat error
  [[ $status == 1 ]] || fail "the status is $status"
  grep -q "has no ibv_wr_atomic_write" error || fail "another reason"
}

our_client_their_server() { # PATH
  real_lines 300 >want
  spawn server "$PEERS/rpma-log-server" "$ONE_ADDR" 7401
  await_line server.err "listening"
  "$FARWORD" append want --connect "$ONE_ADDR:7401" "--$1" --json >report
  cat report
  grep -q '"flush":"emulated"' report || fail "librpma 1.2.0 grants no other flush"
  finished server || fail "the server failed"
  same want server.out
}

their_client_our_server() {
  real_lines 300 >want
  serve "$ONE_ADDR" --once
  timeout 50 "$PEERS/rpma-log-client" "$ONE_ADDR" "${at##*:}" --stdin <want
  finished server || fail "the server failed"
  same want server.out
}

over_ipv6() {
  real_lines 50 >want
  serve "[$ONE_ADDR6]" --once
  "$FARWORD" append want --connect "$at"
  finished server || fail "the server failed"
  same want server.out
}

a_file_keeps_the_log() {
  serve "$ONE_ADDR" --once --file log --log-size 64K
  printf 'one\ntwo\n' | "$FARWORD" append - --connect "$at"
  finished server || fail "the server failed"
  serve "$ONE_ADDR" --once --file log
  printf 'three\n' | "$FARWORD" append - --connect "$at"
  finished server || fail "the server failed"
  echo three >want
  same want server.out
  printf 'one\0two\0three\0' >want
  dd if=log bs=1 skip=16 count=14 2>/dev/null >got
  cmp want got || fail "the file holds something else"
  cp "$FARWORD" program
  ! "$FARWORD" serve "$ONE_ADDR:0" --once --file program 2>error || fail "a program was taken for a log"
  cat error
  cmp "$FARWORD" program || fail "it was written to"
}

several_clients_one_by_one() {
  local i
  serve "$ONE_ADDR" --json
  for i in 1 2 3; do
    echo "line $i" | "$FARWORD" append - --connect "$at" >/dev/null
    await_line server.out "\"line $i\""
  done
  kill -INT "$(cat server.pid)"
  finished server || fail "the server's status is not 0"
  [[ $(wc -l <server.out) == 3 ]] || fail "not three objects"
}

a_second_client_is_turned_away() {
  local status=0
  serve "$ONE_ADDR"
  mkfifo in
  spawn first "$FARWORD" append in --connect "$at"
  exec 7>in
  echo first >&7
  connected 2
  echo second | "$FARWORD" append - --connect "$at" 2>error || status=$?
  cat error
  [[ $status == 1 ]] || fail "the status is $status"
  grep -q "another peer is appending" error || fail "another reason"
  exec 7>&-
  finished first || fail "the first one failed"
  await_line server.out first
}

sigint_ends_an_append_with_its_results() {
  serve "$ONE_ADDR" --once --file log --log-size 64K
  mkfifo in
  spawn client "$FARWORD" append in --connect "$at" --json --batch 1
  exec 7>in
  printf 'one\ntwo\nthr' >&7
  await_line log two
  kill -INT "$(cat client.pid)"
  local status=0
  finished client || status=$?
  exec 7>&-
  cat client.out
  [[ $status == 130 ]] || fail "the status is $status"
  grep -q '"records":2' client.out || fail "not two records"
  grep -q '"stopped":true' client.out || fail "it does not say that it was stopped"
  finished server || fail "the server failed"
  printf 'one\ntwo\n' >want
  same want server.out
}

sigint_ends_a_server_with_what_it_has() {
  serve "$ONE_ADDR" --file log --log-size 64K
  mkfifo in
  spawn client "$FARWORD" append in --connect "$at" --batch 1
  exec 7>in
  echo one >&7
  await_line log one
  kill -INT "$(cat server.pid)"
  finished server || fail "the server's status is not 0"
  echo one >want
  same want server.out
  # And the client hears of it with its next record.
  echo two >&7
  exec 7>&-
  ! finished client || fail "the client did not notice"
  cat client.err
  grep -q "1 records are in the log, then" client.err || fail "it does not say what is there"
}

a_killed_server_and_the_next() {
  serve "$ONE_ADDR" --file log --log-size 64K
  mkfifo in
  spawn client "$FARWORD" append in --connect "$at" --batch 1
  exec 7>in
  printf 'one\ntwo\n' >&7
  await_line log two
  kill -KILL "$(cat server.pid)"
  # Gone, and its queue pairs with it.
  ! finished server || fail "it was not killed"
  # It hears of it with its next record, and says what is there.
  echo three >&7
  exec 7>&-
  ! finished client || fail "the client did not notice"
  cat client.err
  grep -q "2 records are in the log, then" client.err || fail "it does not say what is there"
  # The next server has the file, and the next client goes on from its tail.
  serve "$ONE_ADDR" --once --file log
  echo three | "$FARWORD" append - --connect "$at" --json >report
  grep -q '"verified":true' report || fail "not verified"
  finished server || fail "the server failed"
  echo three >want
  same want server.out
  printf 'one\0two\0three\0' >want
  dd if=log bs=1 skip=16 count=14 2>/dev/null >got
  cmp want got || fail "the file holds something else"
}

nobody_listens() {
  local status=0
  echo x | "$FARWORD" append - --connect "$ONE_ADDR:7999" 2>error || status=$?
  cat error
  [[ $status == 1 && $(wc -l <error) == 1 ]] || fail "the status is $status"
  grep -q "nobody listens there" error || fail "another reason"
}

measures() { # WHAT QPS BATCH
  spawn server "$FARWORD" perf "$1" --serve "$ONE_ADDR:0"
  await_line server.err 'listening on'
  at=$(sed -n 's/.*listening on //p' server.err)
  "$FARWORD" perf "$1" --connect "$at" --qps "$2" --batch "$3" --duration 1 --json >report
  cat report
  grep -q '"verified":true' report || fail "not verified"
  grep -q "\"qps\":$2" report || fail "not $2 queue pairs"
  "$FARWORD" perf "$1" --connect "$at" --duration 0.3
  kill -INT "$(cat server.pid)"
  finished server || fail "the server's status is not 0"
  grep -q "Served $(($2 + 1)) queue pairs" server.out || fail "$(cat server.out)"
}

sigint_ends_a_measurement_with_its_results() {
  spawn server "$FARWORD" perf rate --serve "$ONE_ADDR:0"
  await_line server.err 'listening on'
  at=$(sed -n 's/.*listening on //p' server.err)
  spawn client "$FARWORD" perf rate --connect "$at" --duration 3600 --json
  connected 2
  sleep 0.5
  kill -INT "$(cat client.pid)"
  finished client || fail "the client's status is not 0"
  cat client.out
  grep -q '"verified":true' client.out || fail "no results"
}

setup one-device
row "devices are listed with what they can do" lists_devices
row "10,000 real lines over the fallback path, verified" appends_ten_thousand fallback
if config_has native-write; then
  row "10,000 real lines over the native path, verified" appends_ten_thousand native
  row "our append on librpma's server, native path" our_client_their_server native
else
  row "a native path that the device lacks is refused" native_is_refused
fi
row "our append on librpma's server, fallback path" our_client_their_server fallback
row "librpma's client on our serve" their_client_our_server
row "serve and append over IPv6" over_ipv6
row "a file keeps the log between runs" a_file_keeps_the_log
row "clients one after the other, and SIGINT" several_clients_one_by_one
row "a second client is turned away" a_second_client_is_turned_away
row "SIGINT ends an append with its results so far" sigint_ends_an_append_with_its_results
row "SIGINT ends a server with what it has" sigint_ends_a_server_with_what_it_has
row "a server killed in mid-stream, and the log goes on with the next" a_killed_server_and_the_next
row "nobody listens: one line, and what to look at" nobody_listens
row "perf latency, one queue pair" measures latency 1 1
row "perf rate, three queue pairs, 32 to a doorbell" measures rate 3 32
row "SIGINT ends a measurement with its results" sigint_ends_a_measurement_with_its_results
