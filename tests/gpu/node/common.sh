# For tests of a node with GPUs: sourced with BUILD LIBRARIES NVML, where bin/, share/ and tests/gpu-node/ are, the fakes
# of CUDA's libraries, and that of NVML. Makes the node and its service.

build=$(cd "$1" && pwd)
libraries=$(cd "$2" && pwd)
nvml=$(cd "$3" && pwd)
. "$(dirname "$0")/../../support/service.sh"
unset CUDA_VISIBLE_DEVICES
export FAKE_NVML=emulated LD_LIBRARY_PATH=$nvml TMPDIR=$scratch BUDGET_SERVICE_DIR=$scratch/budget

# A node as it is installed.
mkdir -p node/bin node/lib/ringfence
cp "$build"/bin/{launcher,rank,budget-service,coll-bench,gpu-measure} node/bin
cp "$build/tests/gpu-node/lib/ringfence/ringfence-cuda.so" node/lib/ringfence
ln -s "$build/tests/small/share" node/share
export PATH=$scratch/node/bin:$PATH

# has FILE WHAT...: patterns
has() {
    for what in "${@:2}"; do grep -qE -- "$what" "$1" || fail "$1 has no $what"; done
}
# job CODE ARGUMENTS...: expects this exit code of the launcher; out and err hold what it said.
job() { expect "$1" launcher --no-bind "${@:2}"; }
digests() { grep -o '"params_sha256": "[0-9a-f]*"' "$1/manifest.json" | sort -u; }
same_model() { # all ranks of both have the same bytes
    [ "$(digests "$1" | wc -l)" -eq 1 ] || fail "$1: the ranks' parameters differ"
    [ "$(digests "$1")" = "$(digests "$2")" ] || fail "$1 and $2 have other parameters"
}

echo "== the service"
echo "a passphrase of the test's" >passphrase
budget-service init --passphrase-file passphrase >out 2>err || fail "init"
start_service --passphrase-file passphrase
budget-service account create lab --cap 9.00 >out 2>err || fail "account"

gpu=(--cuda-libs "$libraries" --exact --account lab)
small=(--width 32 --layers 1 --heads 2)
train=(--steps 2 --batch 1 --no-scaling)
