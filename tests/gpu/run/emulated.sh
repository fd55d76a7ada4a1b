#!/usr/bin/env bash
# tests/gpu/run.sh over the emulator: a bundle of this build's own programs, an emulated plugin, and a
# short reference. Each phase runs its own commands, in small shapes.
#   emulated.sh BUILD LIBRARIES NVML PHASE...    as tests/gpu/node/common.sh; EMULATED_OUT: keeps results there
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
libraries=$(cd "$2" && pwd)
nvml=$(cd "$3" && pwd)
shift 3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export FAKE_NVML=emulated LD_LIBRARY_PATH=$nvml TMPDIR=$scratch HOME=$scratch
unset CUDA_VISIBLE_DEVICES BUDGET_SERVICE_DIR
flags="--micro-batches 2 --batch 1 --steps 3 --lr 3e-3 --seed 35000"
bundle=$scratch/bundle
out=${EMULATED_OUT-$scratch/out}

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    tail -n 20 "$out"/log/*.log "$out/gpu-results.json" >&2
    exit 1
}

mkdir "$scratch/tools"
cat >"$scratch/tools/compute-sanitizer" <<'END'
#!/bin/sh
shift 4 # --tool and --error-exitcode
exec "$@"
END
chmod +x "$scratch/tools/compute-sanitizer"
export PATH=$scratch/tools:$PATH

mkdir -p "$bundle"/{bin/cuda,lib/ringfence,share,reference} "$bundle/hang/lib/ringfence"
cp "$build"/bin/{launcher,rank,budget-service,coll-bench,gpu-parity,gpu-measure,random-checkpoint} "$bundle/bin"
cp "$libraries"/* "$bundle/bin/cuda"
cp "$build/tests/gpu-node/lib/ringfence/ringfence-cuda.so" "$bundle/lib/ringfence"
cp "$build/tests/gpu-node/hang/lib/ringfence/ringfence-cuda.so" "$bundle/hang/lib/ringfence"
cp -R "$build/share/ringfence" "$bundle/share"
echo emulated >"$bundle/commit"
(
    cd "$bundle"
    bin/launcher --no-bind --mode ddp-cpu --ranks 1 $flags --out reference --no-scaling --quiet
    echo "$flags" >reference/flags
    bin/launcher --no-bind --mode tp-cpu --ranks 1 --checkpoint reference --prompts share/ringfence/prompts.txt --ignore-eos \
        --max-new-tokens 16 --out answers --quiet
    cp answers/results.json reference
) >"$scratch/made" 2>&1 || { cat "$scratch/made" && exit 1; }
tar -czf "$scratch/bundle.tar.gz" -C "$scratch" bundle

"$here/../run.sh" --bundle "$scratch/bundle.tar.gz" --out "$out" --tiny --limit 900 "$@" || fail "a phase failed"
for phase; do
    grep -q "\"phase\": \"$phase\", \"status\": \"passed\"" "$out/gpu-results.json" || fail "$phase did not pass"
done
