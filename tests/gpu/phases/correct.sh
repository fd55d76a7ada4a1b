# Phases that show that results are right: parity, compute-sanitizer, gate, nccl. Sourced by run.sh.

# What the phases find here, for the log.
look_around() {
    uname -srm
    grep -m1 'model name' /proc/cpuinfo
    echo "$(nproc) CPUs, $(free -g | awk '/^Mem/ { print $2 }') GB; lo is $(cat /sys/class/net/lo/operstate)"
    df -h /dev/shm "$work"
    ls -l "$bin/cuda"
    env | grep -E '^(CUDA|NCCL|CUBLAS|NVIDIA|LD_LIBRARY_PATH)' || echo "no variable of CUDA's or NCCL's"
}

contact() { # WHAT...
    must "$bin/gpu-measure" contact "$plugin" "$@"
    take_figures
}

# First what all else depends on, a thing at a time.
phase_parity() {
    local status=0 what
    needs_gpu
    look_around 2>&1
    for what in kernels graph signals collective; do
        part 20 contact "$what"
    done
    part 20 contact overlap $(pick "" "64 2")
    "$bin/gpu-parity" "$plugin" >"$work/parity.last" 2>&1 || status=$?
    cat "$work/parity.last"
    [ "$status" -eq 0 ] ||
        echo "gpu-parity: $(grep -m1 'FAILED' "$work/parity.last" || tail -1 "$work/parity.last")" >>"$work/parity.parts"
    figure cases "$(grep -c '^\[       OK' "$work/parity.last")"
    end_parts
}

sanitizer_run() { # KIND CASE...
    must "$tool" --tool "$1" --error-exitcode 86 "$bin/gpu-parity" "$plugin" "${@:2}"
}

phase_compute_sanitizer() {
    local cases=(layernorm layernorm_grad embed product_packed product_leaves attention attention_cached
        mma_tile bfloat16_attention_tiles cross_entropy optimizer)
    local fast=(product_few draw bfloat16_cross_entropy bfloat16_layernorm_grad)
    needs_gpu
    tool=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) || skip "there is no compute-sanitizer"
    export tool
    part 45 sanitizer_run memcheck "${cases[@]}" "${fast[@]}"
    ! grep -qs 'Device not supported' "$work/$phase.last" || skip "compute-sanitizer does not support this machine's GPU"
    part 55 sanitizer_run racecheck "${cases[@]}"
    part 25 sanitizer_run synccheck mma_tile bfloat16_attention_tiles
    end_parts
}

# No GPU is needed: whoever has no right to it is refused before anything is touched.
phase_gate() {
    start_service
    must_refuse 6 "needs a token" "$bin/launcher" --mode ddp-nccl --ranks 1 --out "$work/none"
    must "$bin/launcher" --mode gate-check --ranks 2 --authorize local --account gpu
    must "$bin/launcher" --mode gate-check --ranks 2 --write-job "$work/gate.json"
    must "$bin/launcher" --mode gate-check --ranks 1 --write-job "$work/other.json"
    must "$bin/budget-service" authorize once 0 --vendor local --account gpu --job "$work/gate.json" \
        --out "$work/once.token"
    must_refuse 6 "token" "$bin/launcher" --job "$work/other.json" --token "$work/once.token"
    must "$bin/launcher" --job "$work/gate.json" --token "$work/once.token"
    must_refuse 6 "token" "$bin/launcher" --job "$work/gate.json" --token "$work/once.token"
}

# ---- losses and answers beside the CPU's ----

# The losses of the first steps of a record, one a line.
losses() { # DIRECTORY STEPS
    sed -n 's/^{"step": \([0-9]*\), "rank": 0, .*"loss_global": \([^,]*\),.*/\1 \2/p' "$1/timings.jsonl" |
        sort -n | awk -v steps="$2" '$1 < steps { print $2 }'
}

# The largest relative difference of two curves. They have to be as long as they should.
curve_difference() { # DIRECTORY STEPS
    paste <(losses "$bundle/reference" "$2") <(losses "$1" "$2") |
        awk -v steps="$2" 'NF == 2 { n++; d = ($1 - $2) / $1; d = d < 0 ? -d : d; most = d > most ? d : most }
            END { if (n != steps) exit 1; printf "%.3g\n", most }'
}

check_curve() { # FIGURE DIRECTORY STEPS
    local difference
    difference=$(curve_difference "$2" "$3") || fail "$2 does not have $3 losses"
    figure "$1" "$difference"
    awk -v d="$difference" 'BEGIN { exit !(d <= 1e-4) }' || fail "$1: losses differ by $difference from the CPU's"
}

# The reference's training on the GPU.
nccl_train() { # FIGURE STEPS FLAGS...
    local figure=$1 steps=$2
    shift 2
    must train_job $(reference_flags) "$@" --out "$work/$figure"
    check_curve "$figure" "$work/$figure" "$steps"
}

# In bfloat16 only a loss that goes elsewhere is wrong.
nccl_bfloat16() { # STEPS
    must train_job --ranks 1 $(reference_flags) --precision bfloat16 --out "$work/bfloat16"
    local difference
    difference=$(curve_difference "$work/bfloat16" "$1") || fail "there are not $1 losses"
    figure bfloat16_curve_difference "$difference"
    awk -v d="$difference" 'BEGIN { exit !(d <= 0.05) }' || fail "losses in bfloat16 differ by $difference from the CPU's"
}

# Answers to the reference's prompts, beside the CPU's. Where one parts, the CPU's logits of the two
# tokens may be that far apart; 0: none may.
nccl_answers() { # PREFIX GAP FLAGS...
    local prefix=$1 gap=$2
    shift 2
    must answer_job "$@" --checkpoint "$bundle/reference" --max-new-tokens 16 \
        --prompts "$bundle/share/ringfence/prompts.txt" --out "$work/answers_$prefix"
    measure answers "$bundle/reference" "$bundle/reference/results.json" "$work/answers_$prefix/results.json"
    take_figures "$prefix"
    awk -v gap="$gap" '$1 == "answers_different" { n = $2 } $1 == "answers_logit_gap" { wide = $2 > gap }
        END { exit n > 0 && (gap == 0 || wide) }' "$work/$phase.last" ||
        fail "${prefix}answers differ from the CPU's: $(paste -sd ' ' "$work/$phase.last")"
}

# Two ranks that share the GPU: a test arrangement, whose times mean nothing.
nccl_shared_bench() { # KIND SIZE FLAGS...
    local kind=$1 size=$2
    shift 2
    must "$bin/coll-bench" "$kind" --transport nccl --ranks 2 -b "$size" -e "$size" -n 2 -w 1 -- --account gpu --share-gpu "$@"
    grep -q '# Out of bounds values : 0 OK' "$work/$phase.last" || fail "coll-bench $kind on two ranks: values are wrong"
}

nccl_bench() {
    must "$bin/coll-bench" all_reduce --transport nccl --ranks 1 -b 4 -e "$(pick 64M 4K)" -f 16 -- --account gpu
}

phase_nccl() {
    local steps few
    steps=$(reference_steps)
    few=$((steps < 20 ? steps : 20)) # all that two ranks on one GPU may do
    needs_gpu
    start_service
    # NCCL's own kernels run only where there are two ranks.
    part 25 nccl_shared_bench all_reduce 64K
    part 25 nccl_shared_bench all_reduce 64K --algorithm native
    part 25 nccl_shared_bench all_gather 64K
    part 35 nccl_train curve_difference "$steps" --ranks 1
    part 35 nccl_train exact_curve_difference "$steps" --ranks 1 --exact
    part 25 nccl_answers exact_ 0 --ranks 1 --exact
    part 25 nccl_answers "" 1e-3 --ranks 1
    part 30 nccl_bfloat16 "$steps"
    part 15 nccl_bench
    # Half the micro-batches on each of two ranks.
    part 35 nccl_train two_ranks_curve_difference "$few" --ranks 2 --share-gpu --micro-batches 1 --steps "$few"
    part 50 nccl_answers two_ranks_ 0 --ranks 2 --exact --share-gpu
    part 50 nccl_answers two_ranks_cuda_ 1e-3 --ranks 2 --share-gpu
    end_parts
}
