# The phase for two and more GPUs of one machine, each with a rank. Sourced by run.sh.

# 2, 4 or 8 of the GPUs that there are; 0 where there is one.
gpus_used() {
    local there
    there=$("$bin/launcher" gpus --json | grep -c '"index"')
    awk -v n="$there" 'BEGIN { for (u = 1; 2 * u <= n && u < 8; u *= 2); print (u > 1 ? u : 0) }'
}

several_bench() { # RANKS KIND FLAGS...
    local ranks=$1 kind=$2
    shift 2
    must "$bin/coll-bench" "$kind" --transport nccl --ranks "$ranks" -b 4 -e "$(pick 256M 4K)" -f "$(pick 16 32)" \
        -n "$(pick 20 2)" -w "$(pick 5 1)" -- --account gpu "$@"
    grep -q '# Out of bounds values : 0 OK' "$work/$phase.last" || fail "coll-bench $kind on $ranks GPUs: values are wrong"
}

# Ours beside NCCL's own call, and `direct` in a graph.
several_all_reduces() { # RANKS
    must "$bin/launcher" --ranks "$1" --quiet -- "$bin/gpu-measure" all-reduces "$plugin" "$(pick 64 2)"
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
    part 30 several_bench "$ranks" all_gather
    part 30 several_bench "$ranks" alltoall
    # The reference has two micro-batches.
    part 40 nccl_train several_curve_difference "$steps" --ranks 2 --micro-batches 1
    part 40 nccl_train several_exact_curve_difference "$steps" --ranks 2 --micro-batches 1 --exact
    part 40 nccl_train several_native_curve_difference "$steps" --ranks 2 --micro-batches 1 --algorithm native
    part 40 nccl_answers several_exact_ 0 --ranks 2 --exact
    part 40 nccl_answers several_ 1e-3 --ranks 2
    end_parts
}
