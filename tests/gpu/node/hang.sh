#!/usr/bin/env bash
# GPUs that stand still, and ranks that are killed: jobs on GPUs end, and name the rank. Each waits for seconds.
#   hang.sh BUILD LIBRARIES NVML    as common.sh takes them
set -euo pipefail
. "$(dirname "$0")/common.sh"

two=(--mode ddp-nccl --ranks 2 "${gpu[@]}" "${train[@]}" "${small[@]}" --authorize local --out none)
again=(--steps 5 --batch 2 --no-scaling "${small[@]}")
nccl=(--mode ddp-nccl --ranks 2 "${gpu[@]}" "${again[@]}" --authorize local)
job 0 --mode ddp-cpu --ranks 2 "${train[@]}" "${small[@]}" --out cpu

echo "== GPUs that stand still and let nothing be aborted, and a rank that is killed"
NCCL_FAKE_ABORT_HANGS=1 NCCL_FAKE_HANG=1:6 job 1 "${two[@]}" --timeout 5
err_has "; what the ranks wrote last: " "/none/rank-N.log"
[ -s none/rank-1.log ] && [ "$(stat -c %s none/rank-1.log)" -le 65536 ] || fail "the ranks' output is not kept"
err_has "after 5 s" "did not return from aborting its communicator in 5 s"
# in a replayed graph, which has to go before the abort returns
NCCL_FAKE_HANG=1:14 job 1 "${nccl[@]}" --out none --timeout 5
err_has "after 5 s"
! grep -q "did not return" err || fail "an abort waited for graphs"
# Each of 336 buckets has two rounds before the first step. There the host waits for the all-reduces
# that are under way before it enqueues the others.
NCCL_FAKE_HANG=1:700 job 1 "${two[@]}" --width 64 --bucket-bytes 1024 --timeout 5
err_has "after 5 s"
NCCL_FAKE_HANG=1:6 launcher --no-bind "${two[@]}" >out 2>err </dev/null &
launched=$!
for ((i = 0; i < 600; i++)); do
    victim=$(pgrep -P $launched -x rank | tail -1 || true)
    if [ -n "$victim" ] && grep -q "rank 1: emulated GPU" err; then break; fi
    sleep 0.1
done
kill -9 "$victim"
got=0
wait $launched || got=$?
[ "$got" -eq 137 ] || fail "exit $got after a kill"
err_has "was ended by SIGKILL"
[ -z "$(pgrep -f "$scratch/node/bin/rank" || true)" ] || fail "ranks are left"

# The model of 60 layers launches more than the driver's queue holds behind the kernel.
echo "== a kernel that never ends: the plugin that hangs lies where that node's rank looks for it"
mkdir -p hang/bin
cp node/bin/{launcher,rank} hang/bin
cp -R "$build/tests/gpu-node/hang/lib" hang/lib
ln -s "$build/tests/small/share" hang/share
for mode in "ddp-nccl --ranks 1 ${train[*]} ${small[*]}" "ddp-nccl --ranks 2 ${train[*]} ${small[*]}" \
    "ddp-nccl --ranks 1 ${train[*]} --width 16 --layers 60 --heads 1" "tp-nccl --ranks 1 --checkpoint cpu --prompt hello"; do
    PATH=$scratch/hang/bin:$PATH job 1 --mode $mode "${gpu[@]}" --authorize local --timeout 5 --out "hung-${mode%%-*}"
    err_has "rank 0" "after 5 s"
    [ -z "$(pgrep -f "$scratch/hang/bin/rank" || true)" ] || fail "ranks are left"
done
