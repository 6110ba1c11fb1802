# shellcheck shell=bash
# The rows of tests/rdma.rs: connections, memory and faults, on our own side of
# both ends.

needs rdma-rows || return 0

one() { "$BIN_DIR/rdma-rows" run "$1" "$ONE_ADDR"; }

# The limit binds only those who have no right to pass it.
with_a_memory_limit() {
  chmod a+rw /dev/infiniband/*
  prlimit --memlock=65536 setpriv --reuid 65534 --regid 65534 --clear-groups \
    --bounding-set -all --inh-caps -all "$BIN_DIR/rdma-rows" run "$1" "$ONE_ADDR"
}

over_ipv6() { "$BIN_DIR/rdma-rows" run "$1" "[$ONE_ADDR6]"; }

scoped_by() { # WHAT
  local ip scope=veth0
  ip=$(awk '$6 == "veth0" && $4 == "20" { gsub(/..../, "&:", $1); sub(/:$/, "", $1); print $1 }' /proc/net/if_inet6)
  [[ $1 == name ]] || scope=$(cat /sys/class/net/veth0/ifindex)
  "$BIN_DIR/rdma-rows" run a-peer-is-rejected-with-a-reason "[$ip%$scope]"
}

by_host_name() {
  grep -q farword-peer /etc/hosts || echo "$ONE_ADDR farword-peer" >>/etc/hosts
  "$BIN_DIR/rdma-rows" run a-host-name-leads-to-the-peer farword-peer
}

setup one-device
for r in $("$BIN_DIR/rdma-rows" list one); do
  case $r in
    a-locked-memory-limit-is-named) row "$r" with_a_memory_limit "$r" ;;
    a-host-name-leads-to-the-peer) row "$r" by_host_name ;;
    *) row "$r" one "$r" ;;
  esac
done
row "over IPv6: private data arrives up to its limits" over_ipv6 private-data-arrives-up-to-its-limits
row "over IPv6: a log is appended to and read back" over_ipv6 a-log-is-appended-to-and-read-back
row "a link-local address with its scope by name" scoped_by name
row "a link-local address with its scope by number" scoped_by number

setup two-devices
groups=(two)
if config_has native-write; then groups+=(two-native); fi
for g in "${groups[@]}"; do
  for r in $("$BIN_DIR/rdma-rows" list "$g"); do
    row "$r" one "$r"
  done
done
