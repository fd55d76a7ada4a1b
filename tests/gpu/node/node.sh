#!/usr/bin/env bash
# Modes on GPUs from end to end: a real budget-service, launcher, gate and rank, and a plugin that is
# made of the emulator. Every number of ranks has the bits of the CPU's modes.
#   node.sh BUILD LIBRARIES    where bin/, share/ and tests/gpu-node/ are; and the fakes of CUDA's
set -euo pipefail

build=$(cd "$1" && pwd)
libraries=$(cd "$2" && pwd)
scratch=$(mktemp -d)
service=""
finish() {
    [ -z "$service" ] || kill "$service" 2>/dev/null || true
    wait
    rm -rf "$scratch"
}
trap finish EXIT
cd "$scratch"
umask 077
unset CREDENTIALS_DIRECTORY XDG_STATE_HOME BUDGET_SERVICE_DIR CUDA_VISIBLE_DEVICES
export HOME=$scratch TMPDIR=$scratch BUDGET_SERVICE_DIR=$scratch/budget

# A node as it is installed.
mkdir -p node/bin node/lib/ringfence
cp "$build"/bin/{launcher,rank,budget-service} node/bin
cp "$build/tests/gpu-node/lib/ringfence/ringfence-cuda.so" node/lib/ringfence
ln -s "$build/share" node/share
export PATH=$scratch/node/bin:$PATH

fail() {
    printf 'FAILED: %s\n-- out\n%s\n-- err\n%s\n' "$*" "$(cat out)" "$(cat err)" >&2
    exit 1
}
# job CODE ARGUMENTS...: runs the launcher, and expects this exit code; out and err hold what it said.
job() {
    local expected=$1 got=0
    shift
    launcher --no-bind --no-plots "$@" >out 2>err </dev/null || got=$?
    [ "$got" -eq "$expected" ] || fail "exit $got, not $expected: launcher $*"
}
out_has() { for what; do grep -qF -- "$what" out || fail "out has no $what"; done; }
err_has() { for what; do grep -qF -- "$what" err || fail "err has no $what"; done; }
digests() { grep -o '"params_sha256": "[0-9a-f]*"' "$1/manifest.json" | sort -u; }
same_model() { # all ranks of both have the same bytes
    [ "$(digests "$1" | wc -l)" -eq 1 ] || fail "$1: the ranks' parameters differ"
    [ "$(digests "$1")" = "$(digests "$2")" ] || fail "$1 and $2 have other parameters"
}

echo "== the service"
echo "a passphrase of the test's" >passphrase
budget-service init --passphrase-file passphrase >out 2>err || fail "init"
exec 3< <(exec budget-service serve --passphrase-file passphrase 2>log </dev/null)
service=$!
read -rt 30 -u 3 ready || { cp log err && : >out && fail "serve is not ready"; }
budget-service account create lab --cap 9.00 >out 2>err || fail "account"

gpu=(--cuda-libs "$libraries" --exact --account lab)
train=(--steps 2 --batch 1 --no-scaling)

echo "== refused without a token"
job 6 --mode ddp-nccl "${gpu[@]}" "${train[@]}" --out none
err_has "mode ddp-nccl needs a token"
[ ! -e none/manifest.json ] || fail "a refused job has a record"

echo "== training: one rank with two micro-batches, and two ranks, as on the CPU"
job 0 --mode ddp-cpu --ranks 2 "${train[@]}" --out cpu
job 0 --mode ddp-nccl --ranks 1 --micro-batches 2 "${gpu[@]}" "${train[@]}" --authorize local --out one
same_model one cpu
job 0 --mode ddp-nccl --ranks 2 "${gpu[@]}" "${train[@]}" --authorize local --out two
same_model two cpu
