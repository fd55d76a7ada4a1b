#!/usr/bin/env bash
# Makes BUILD/bundle.tar.gz: what tests/gpu/run.sh needs on a machine that has a GPU, its driver, the
# CUDA toolkit and perhaps PyTorch, but none of our packages and no network. Called by ./dev gpu-bundle,
# which has built the preset `gpu`.
#   make.sh ROOT BUILD
set -euo pipefail

root=$1
build=$2
bundle=$build/bundle
bytes_max=$((55 << 20))
programs="launcher rank budget-service coll-bench rank-bench inference-bench random-checkpoint gpu-parity gpu-measure"
plugin=lib/ringfence/ringfence-cuda.so

die() {
    printf 'gpu-bundle: %s\n' "$*" >&2
    exit 1
}

copy_programs() {
    local name path around
    # shellcheck disable=SC2086 # several words
    "$root/budget-service/examples/bundle.sh" "$build" "$bundle" $programs
    [ -e "$bundle/$plugin" ] || die "there is no $build/$plugin"
    # RUNPATH would not hold for what a library of ours needs in turn.
    for name in $programs; do
        readelf -d "$bundle/bin/$name" | grep -qF '(RPATH)              Library rpath: [$ORIGIN/../lib]' || die "$name has no RPATH"
    done
    for path in "$bundle"/lib/*.so*; do
        if readelf -d "$path" | grep -q RUNPATH; then
            die "$path has a RUNPATH, which would go before the programs' RPATH"
        fi
    done
    # The plugins that hang and trace, for the phases `faults` and `profile`.
    for around in hang profile; do
        [ -e "$build/$around/$plugin" ] || continue
        mkdir -p "$bundle/$around/lib/ringfence"
        strip --strip-debug -o "$bundle/$around/$plugin" "$build/$around/$plugin"
    done
}

# For a rebuild of the plugin there (CMakeLists.txt), and for the scripts.
copy_source() {
    mkdir -p "$bundle/include"
    cp -R "$(pkg-config --variable=includedir libsodium)"/sodium* "$bundle/include/"
    (cd "$root" && git ls-files -z base cmake rank collectives/include collectives/nccl tests/gpu \
        tests/peers/train_torch.py | tar --null -T - -cf -) | tar -xf - -C "$bundle/" --one-top-level=source
    git -C "$root" rev-parse HEAD >"$bundle/commit"
}

# What the GPU's run is compared with: the same flags on the CPU, its losses and its model.
make_reference() {
    local flags
    flags=$(cat "$root/tests/gpu/bundle/reference.flags")
    (cd "$bundle" && env -u LD_LIBRARY_PATH bin/launcher --mode ddp-cpu --ranks 1 $flags --out reference \
        --no-scaling --quiet && cp "$root/tests/gpu/bundle/reference.flags" reference/flags &&
        bin/launcher --mode tp-cpu --ranks 1 --checkpoint reference --prompts share/ringfence/prompts.txt \
            --ignore-eos --max-new-tokens 16 --out answers >reference/answers.txt 2>/dev/null &&
        cp answers/results.json reference/)
    rm -rf "$bundle/answers" "$bundle"/reference/state-rank-*
}

rm -rf "$bundle" "$bundle.tar.gz"
copy_programs
copy_source
make_reference
tar -czf "$bundle.tar.gz" -C "$build" bundle
bytes=$(stat -c %s "$bundle.tar.gz")
[ "$bytes" -le "$bytes_max" ] || die "$bundle.tar.gz has $bytes bytes, more than $bytes_max"
printf '%s: %d KiB; glibc %s or later\n' "$bundle.tar.gz" $((bytes >> 10)) \
    "$(objdump -T "$bundle"/bin/* "$bundle"/lib/*.so* 2>/dev/null | grep -o 'GLIBC_2\.[0-9]*' | sort -V | tail -1 | cut -c7-)"
