# shellcheck shell=bash
# Two devices and a wire between them that can be made bad.

received() { cat /sys/class/net/veth1/statistics/rx_packets; }

packets_cross_the_wire() {
  local before after i
  before=$(received)
  spawn server ib_write_lat -d rxe1 -x 1 -n 50 -s 8 -F
  for i in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.3
    ib_write_lat -d rxe0 -x 1 -n 50 -s 8 -F "$TWO_ADDR" && break
    [[ $i != 10 ]] || fail "the client never succeeded"
  done
  finished server
  after=$(received)
  ((after - before >= 50)) || fail "only $((after - before)) packets came over the wire"
}

librpma_appends() { # PORT
  seq 1 60 >want
  spawn server "$PEERS/rpma-log-server" "$TWO_ADDR" "$1"
  await_line server.err "listening"
  timeout 50 "$PEERS/rpma-log-client" "$TWO_ADDR" "$1" --stdin <want
  finished server || fail "the server failed"
  same want server.out
}

librpma_appends_with_loss() {
  tc qdisc add dev veth0 root netem loss 3%
  trap 'tc qdisc del dev veth0 root' EXIT
  librpma_appends 7311
  tc -s qdisc show dev veth0
}

setup two-devices
row "writes between two devices cross the wire" packets_cross_the_wire
row "librpma's pair works over the wire" librpma_appends 7310
row "librpma's pair works with 3 % of packets lost" librpma_appends_with_loss
