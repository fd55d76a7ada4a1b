# The phase profile: where a step's time goes, kernel by kernel, by CUPTI. To trace costs time, so
# nothing here is a figure of speed. Sourced by run.sh.

# The kernels that took the most time of the last half of the trace.
tell_trace() { # FILE
    awk '{ lines[NR] = $0 }
        END {
            for (i = int(NR / 2) + 1; i <= NR; i++) {
                split(lines[i], is, " ")
                if (first == 0) first = is[1]
                last = is[1] + is[2]; sum += is[2]; n[is[6]]++; ns[is[6]] += is[2]
            }
            printf "%.1f ms, of which kernels and copies run for %.1f ms\n", (last - first) / 1e6, sum / 1e6
            for (name in ns) printf "%9.2f ms %7d times %8.2f us each  %s\n", ns[name] / 1e6, n[name], ns[name] / n[name] / 1e3, substr(name, 1, 90) | "sort -rn | head -25"
        }' "$1"
}

trace() { # NAME MODE FLAGS...
    local name=$1
    shift
    RINGFENCE_PROFILE=$work/$name.trace must "$bundle/profile/bin/launcher" --authorize local --account gpu --quiet \
        --mode "$@" --out "$work/traced-$name"
    [ -s "$work/$name.trace" ] || fail "CUPTI wrote nothing"
    sort -n -o "$work/$name.trace" "$work/$name.trace"
    tell_trace "$work/$name.trace" | tee "$out/log/profile-$name.txt"
    gzip -c "$work/$name.trace" >"$out/log/profile-$name.trace.gz"
}

trace_train() { # NAME FLAGS...
    local name=$1
    shift
    draw_gpt2 2
    trace "$name" ddp-nccl --ranks 1 --no-scaling --checkpoint "$drawn" --tokenizer "$drawn/tokenizer.json" \
        --data "$drawn/train.jsonl" --loss-on all --batch "$(pick 16 1)" --steps "$(pick 8 2)" "$@"
}

trace_decode() { # NAME FLAGS...
    local name=$1
    shift
    draw_gpt2 2
    trace "$name" tp-nccl --ranks 1 --ignore-eos --checkpoint "$drawn" --prompt " anAN boCS" \
        --max-num-seqs 1 --max-new-tokens "$(pick 64 3)" "$@"
}

phase_profile() {
    needs_gpu
    [ -e "$bundle/profile/lib" ] || skip "the bundle was made without CUPTI"
    [ -e "$bin/cuda/libcupti.so.13" ] || skip "there is no libcupti.so.13 beside PyTorch"
    start_service
    install_around profile
    part 30 trace minigpt ddp-nccl --ranks 1 --no-scaling --steps "$(pick 40 2)" --batch "$(pick 16 1)" --loss-on all
    part 45 trace_train gpt2-bf16 --precision bfloat16
    part 30 trace_decode decode-bf16 --precision bfloat16
    end_parts
}
