# The phase faults: a rank that is killed, one that stands still, and a kernel that never ends. Each
# ends the job with a named cause within the deadline, and the GPU is free again. Sourced by run.sh.

deadline_seconds=5 # --timeout of these jobs
# From the fault to the launcher's end: the deadline, 5 s for an abort, and what processes need.
end_seconds=20
# Of a job with a hung kernel in all, of which NCCL's begin and loading every kernel are a part.
hung_seconds=60

# A process of the bundle's rank program.
rank_pid() {
    local process
    for process in /proc/[0-9]*; do
        [ "$process/exe" -ef "$bin/rank" ] && echo "${process#/proc/}" && return
    done
    return 1
}

# A rank that gets the signal while two of them train. The other one's collective then never ends on
# the GPU.
signalled() { # SIGNAL FLAGS...
    local launcher pid="" status=0 begun log=$work/$phase.last
    # Enough work that it is under way for seconds, once NCCL has begun and the ranks have said so.
    "$bin/launcher" --authorize local --account gpu --mode ddp-nccl "${@:2}" \
        $(reference_flags) --micro-batches 256 --steps 20 --timeout $deadline_seconds --out "$work/$1" >"$log" 2>&1 &
    launcher=$!
    trap "kill -KILL $launcher 2>/dev/null" EXIT
    while kill -0 "$launcher" 2>/dev/null && [ -z "$pid" ]; do
        { grep -q 'rank 1: .*GPU-' "$log" && pid=$(rank_pid); } || sleep 0.1
    done
    [ -n "$pid" ] || fail "there was no rank to send SIG$1 to: $(tail -1 "$log")"
    begun=$SECONDS
    kill "-$1" "$pid"
    wait "$launcher" || status=$?
    cat "$log"
    [ "$status" -ne 0 ] || fail "the job went on without the rank that got SIG$1"
    grep -q 'rank [01]' "$log" || fail "no rank is named after SIG$1"
    figure "exit_after_SIG$1" "$status"
    figure "seconds_after_SIG$1" $((SECONDS - begun))
    [ $((SECONDS - begun)) -le $end_seconds ] || fail "the job ended $((SECONDS - begun)) s after SIG$1"
}

# With the plugin that hangs the fourth layer norm of a rank never ends.
hung() { # NAME MODE FLAGS...
    local name=$1 status=0 begun=$SECONDS
    shift
    # Kernels are loaded before the one that hangs: to load one may wait for those that run.
    CUDA_MODULE_LOADING=EAGER "$bundle/hang/bin/launcher" --authorize local --account gpu --mode "$@" --timeout $deadline_seconds \
        --out "$work/$name" >"$work/faults.last" 2>&1 || status=$?
    cat "$work/faults.last"
    [ "$status" -ne 0 ] || fail "a kernel that never ends did not end the job ($name)"
    grep 'rank 0' "$work/faults.last" | grep -q "after $deadline_seconds s" || fail "no rank and no deadline is named ($name)"
    figure "seconds_of_$name" $((SECONDS - begun))
    [ $((SECONDS - begun)) -le $((hung_seconds - 5)) ] || fail "the job with the hung kernel took $((SECONDS - begun)) s ($name)"
    rank_is_left && fail "a rank is left ($name)"
    return 0
}

rank_is_left() { (bin=$bundle/hang/bin && rank_pid >/dev/null); }

free_bytes() { "$bin/launcher" gpus --json 2>/dev/null | manifest_figure /dev/stdin memory_free_bytes; }

# The driver may need a moment for what a killed process held.
memory_is_free() { # BYTES BEFORE
    local now i
    for ((i = 0; i < 10; i++)); do
        now=$(free_bytes)
        [ -n "$now" ] || fail "the driver does not say how much memory is free"
        [ $(($1 - now)) -gt $((64 << 20)) ] || break
        sleep 0.5
    done
    figure memory_lost_bytes $(($1 - now))
    [ $(($1 - now)) -le $((64 << 20)) ] || fail "the GPU's memory is not free again: $(($1 - now)) bytes lack"
}

phase_faults() {
    local before
    needs_gpu
    start_service
    before=$(free_bytes)
    part 25 signalled KILL --ranks 2 --share-gpu
    part 25 signalled STOP --ranks 2 --share-gpu
    install_around hang
    part $hung_seconds hung hung_training ddp-nccl --ranks 1 $(reference_flags)
    part $hung_seconds hung hung_decoding tp-nccl --ranks 1 --checkpoint "$bundle/reference" --prompt "he goed to school"
    part 10 memory_is_free "${before:-0}"
    end_parts
}
