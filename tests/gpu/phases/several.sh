# The phase for two and more GPUs of one machine, each with a rank. Sourced by run.sh.

# 2, 4 or 8 of the GPUs that there are and may be seen; 0 where there is one.
gpus_used() {
    local there seen
    there=$("$bin/launcher" gpus --json | grep -c '"index"')
    seen=$(awk -F, '{ print NF }' <<<"${CUDA_VISIBLE_DEVICES-}")
    [ -z "${CUDA_VISIBLE_DEVICES+set}" ] || [ "$seen" -ge "$there" ] || there=$seen
    awk -v n="$there" 'BEGIN { for (u = 1; 2 * u <= n && u < 8; u *= 2); print (u > 1 ? u : 0) }'
}

several_bench_sizes() { # RANKS KIND FROM TO FLAGS...
    local ranks=$1 kind=$2 from=$3 to=$4
    shift 4
    must "$bin/coll-bench" "$kind" --transport nccl --ranks "$ranks" -b "$from" -e "$to" -f "$(pick 16 32)" \
        -n "$(pick 20 2)" -w "$(pick 5 1)" -- --account gpu "$@"
    grep -q '# Out of bounds values : 0 OK' "$work/$phase.last" || fail "coll-bench $kind on $ranks GPUs: values are wrong"
}

several_bench() { # RANKS KIND FLAGS...
    several_bench_sizes "$1" "$2" 4 "$(pick 256M 4K)" "${@:3}"
}

# A vector that no number of ranks divides.
several_uneven_bench() { # RANKS
    local size
    size=$(pick 1000012 1012)
    several_bench_sizes "$1" all_reduce "$size" "$size"
}

# The canonical order: all slots on one GPU, and one on each, with the same bits.
several_same_bits() { # RANKS
    must train_job $(reference_flags) --exact --ranks 1 --micro-batches "$1" --out "$work/bits_one"
    must train_job $(reference_flags) --exact --ranks "$1" --micro-batches 1 --out "$work/bits_all"
    [ "$(cat "$work"/bits_{one,all}/manifest.json | grep -o '"params_sha256": "[0-9a-f]*"' | sort -u | wc -l)" -eq 1 ] ||
        fail "the parameters of $1 ranks are not those of one"
}

# Ours beside NCCL's own call, and `direct` in a graph. NCCL has a thread that must not share a CPU
# with the rank's.
several_all_reduces() { # RANKS
    must "$bin/launcher" --ranks "$1" --no-bind --quiet -- "$bin/gpu-measure" all-reduces "$plugin" "$(pick 64 2)"
    sed -i 's/^\[rank 0\] //' "$work/$phase.last"
    take_figures
}

phase_several() {
    local steps ranks
    steps=$(reference_steps)
    needs_gpu
    ranks=$(gpus_used)
    [ "$ranks" -gt 0 ] || skip "this machine has one GPU"
    figure several_gpus "$ranks"
    start_service
    part 60 several_all_reduces "$ranks"
    part 30 several_bench "$ranks" all_reduce
    part 30 several_bench "$ranks" all_reduce --algorithm native
    part 20 several_uneven_bench "$ranks"
    part 30 several_bench "$ranks" all_gather
    part 30 several_bench "$ranks" alltoall
    # The reference has two micro-batches.
    part 40 nccl_train several_curve_difference "$steps" --ranks 2 --micro-batches 1
    part 40 nccl_train several_exact_curve_difference "$steps" --ranks 2 --micro-batches 1 --exact
    part 40 nccl_train several_native_curve_difference "$steps" --ranks 2 --micro-batches 1 --algorithm native
    part 60 several_same_bits "$ranks"
    part 40 nccl_answers several_exact_ 0 --ranks 2 --exact
    part 40 nccl_answers several_ 1e-3 --ranks 2
    # A rank that is lost where memory is read through NVLink or PCIe.
    part 25 signalled KILL --ranks 2
    part 25 signalled STOP --ranks 2
    end_parts
}
