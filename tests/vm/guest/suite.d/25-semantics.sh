# shellcheck shell=bash
# The semantics suite over real queue pairs: on each path that the configuration
# has, the cases that run on the software device too.

needs semantics || return 0

# suite_on PATH [CASE]...: a row for each case of the suite but these.
suite_on() {
  local path=$1 left_out=() case result
  shift
  for case; do left_out+=(--skip "$path::$case"); done
  echo "-- the semantics suite, $path"
  RDMA_ADDRESS=$ONE_ADDR timeout 300 "$BIN_DIR/semantics" "$path::" "${left_out[@]}" \
    --test-threads 1 --color never >"$VM_WORK/semantics.$path" 2>&1 </dev/null || true
  # libtest's lines: `test PATH::GROUP::CASE ... ok`.
  while read -r result case; do
    row_result "$result" "$path: $case"
  done < <(awk -v prefix="$path::" '$1 == "test" && $3 == "..." {
    name = substr($2, length(prefix) + 1)
    gsub(/::/, ": ", name)
    print ($4 == "ok" ? "ok" : "FAIL"), name
  }' "$VM_WORK/semantics.$path")
  # What ended early, or ran nothing, is no success.
  if ! grep -q '^test result: ok\. [1-9]' "$VM_WORK/semantics.$path"; then
    row_result FAIL "$path: the whole suite" "$(tail -n 1 "$VM_WORK/semantics.$path")"
    sed 's/^/    | /' "$VM_WORK/semantics.$path" | grep -v '\.\.\. ok$' | tail -n 60
  fi
}

# Soft-RoCE stores what a plain RDMA WRITE brings by memcpy, which promises no
# width: on 6.1 a reader was seen, rarely, to get half a word. So the fallback
# paths cannot have this case there, as README says. The native path can.
torn=writes::a_reader_never_sees_a_torn_word
# A request with a wrong local key fails on Soft-RoCE too, but as one of those
# that are flushed: it does not say which was the first. tests/rdma/faults.rs has
# what holds there.
lkey=failures::a_wrong_lkey_is_a_local_error
# A FLUSH to persistence is refused for memory that is not persistent, as all of
# this guest's: tests/rdma/memory.rs has that.
persistent=refusals::a_persistent_peer_takes_a_persistent_flush

setup one-device
suite_on post_send "$lkey" "$torn"
suite_on wr_calls "$lkey" "$torn"
if config_has native-flush; then
  suite_on native "$lkey" "$persistent"
  suite_on native_emulated_flush "$lkey"
elif config_has native-write; then
  suite_on native "$lkey"
fi
