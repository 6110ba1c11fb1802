#!/bin/bash
# suite.sh CONFIG [PATTERN]: runs in the guest, all groups or those whose file
# name has PATTERN in it. From the environment file that `run` leaves in /run/vm:
# BIN_DIR, PEERS, RDMA56, WITHOUT_BINARIES. Exit status 0: every row passed.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
export VM_CONFIG=$1
pattern=${2:-}
set -a
# shellcheck source=/dev/null
[[ ! -f /run/vm/environment ]] || . /run/vm/environment
set +a
# shellcheck source=lib.sh
. "$here/lib.sh"

if config_has native-flush && [[ -z ${RDMA56_ACTIVE:-} ]]; then
  use_rdma56 "$RDMA56"
  # Anew, so that this very shell has the new libraries too.
  RDMA56_ACTIVE=1 exec /bin/bash "$0" "$@"
fi

: >"$ROW_RESULTS"
for group in "$here"/suite.d/*.sh; do
  VM_GROUP=$(basename "$group" .sh)
  [[ $VM_GROUP == *"$pattern"* ]] || continue
  echo "-- $VM_CONFIG $VM_GROUP"
  # A group that stops half-way must not pass for a short one. The status is
  # taken without `||`, which would switch -e off inside.
  set +e
  (
    set -euo pipefail
    # shellcheck source=/dev/null
    . "$group"
  )
  status=$?
  set -e
  [[ $status == 0 ]] || row_result FAIL "$VM_GROUP" "the group ended early, status $status"
done

kernel_is_well() {
  ! dmesg | grep -E 'BUG:|Oops|general protection fault|refcount_t:|use-after-free' ||
    fail "the kernel complained"
}
row "the kernel log has no crash in it" kernel_is_well
summary
