# shellcheck shell=bash
# The ground that other groups stand on: if these fail, look here first.

modules_are_loaded() {
  local m
  for m in rdma_rxe rdma_cm rdma_ucm ib_uverbs; do
    [[ -d /sys/module/$m ]] || fail "no module $m"
  done
}

kernel_is_right() {
  [[ $(uname -r) == "${VM_CONFIG%+*}".* ]] || fail "the kernel is $(uname -r)"
}

verbs_library_is_right() {
  local library want=44
  ! config_has native-flush || want=56
  library=$(readlink -f /usr/lib/x86_64-linux-gnu/libibverbs.so.1)
  [[ $library == *.so.1.*.$want.* ]] || fail "programs get $(basename "$library")"
  # ... and a program that was built on the host does start with it.
  ldd "$PEERS/probe"
}

port_is_active() {
  [[ $(cat /sys/class/infiniband/rxe0/ports/1/state) == "4: ACTIVE" ]] || fail "state is not ACTIVE"
  rdma link show rxe0/1
}

gid_1_is_ipv4_roce_v2() {
  local port=/sys/class/infiniband/rxe0/ports/1 gid type
  gid=$(cat $port/gids/1)
  type=$(cat $port/gid_attrs/types/1)
  [[ $gid == 0000:0000:0000:0000:0000:ffff:0a09:0001 ]] || fail "GID 1 is $gid"
  [[ $type == "RoCE v2" ]] || fail "GID 1 is of type $type"
}

some_gid_is_the_ipv6_address() {
  grep -h fd09:0000:0000:0000:0000:0000:0000:0001 /sys/class/infiniband/rxe0/ports/1/gids/* 2>/dev/null ||
    fail "no GID for fd09::1"
}

devinfo_works() {
  ibv_devinfo -d rxe0 >info
  cat info
  grep -q 'PORT_ACTIVE' info || fail "ibv_devinfo sees no active port"
}

capabilities_are_as_expected() {
  local line pair want=("max_inline=16")
  if config_has native-write; then
    want+=(atomic_write=1 flush_global=1 flush_persistent=1)
  else
    want+=(atomic_write=0 flush_global=0 flush_persistent=0)
  fi
  if config_has native-flush; then want+=(qp_flush=1); else want+=(qp_flush=0); fi
  # The library grants this one on every kernel, so it is no proof of anything.
  want+=(qp_atomic_write=1)
  line=$("$PEERS/probe" rxe0)
  echo "$line"
  for pair in "${want[@]}"; do
    [[ " $line " == *" $pair "* ]] || fail "wanted $pair"
  done
}

writes_pass_between_processes() {
  spawn server ib_write_lat -d rxe0 -x 1 -n 20 -s 8 -F
  # perftest's server prints nothing before its client comes: try until it listens
  local i
  for i in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.3
    ib_write_lat -d rxe0 -x 1 -n 20 -s 8 -F "$ONE_ADDR" && break
    [[ $i != 10 ]] || fail "the client never succeeded"
  done
  finished server
  cat server.out
}

setup one-device
row "the kernel is the configuration's" kernel_is_right
row "the verbs library is the configuration's" verbs_library_is_right
row "modules are loaded" modules_are_loaded
row "the port is active" port_is_active
row "GID 1 is the IPv4 address, RoCE v2" gid_1_is_ipv4_roce_v2
row "the IPv6 address has a GID" some_gid_is_the_ipv6_address
row "ibv_devinfo works" devinfo_works
row "capabilities are as expected" capabilities_are_as_expected
row "perftest's writes pass between two processes" writes_pass_between_processes
