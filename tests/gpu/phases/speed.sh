# The phase speed: our own figures. The goals and PyTorch's figures are put beside them by report.sh.
# Sourced by run.sh. Its parts have limits of their own: one that fails does not stop the next.

# The same work as the peer's: 16 rows of 64 tokens, a loss on every token.
speed_minigpt() {
    must train_job --ranks 1 --steps "$(pick 500 2)" --batch "$(pick 16 1)" --loss-on all --out "$work/minigpt"
    figure minigpt_tokens_per_sec "$(manifest_figure "$work/minigpt/manifest.json" tokens_per_sec_1proc)"
}

# Named by their precision: float32 is f32.
short_name() { case $1 in bfloat16) echo bf16 ;; float32) echo f32 ;; esac; }

# 16 rows of 1024 tokens, as the peer's.
speed_train() { # PRECISION
    draw_gpt2 2
    must train_job --ranks 1 --precision "$1" --checkpoint "$drawn" --tokenizer "$drawn/tokenizer.json" \
        --data "$drawn/train.jsonl" --loss-on all --batch "$(pick 16 1)" --steps "$(pick 20 2)" --out "$work/gpt2-$1"
    figure "gpt2_$(short_name "$1")_tokens_per_sec" \
        "$(manifest_figure "$work/gpt2-$1/manifest.json" tokens_per_sec_1proc)"
    figure "gpt2_$(short_name "$1")_memory_planned_bytes" "$(planned_bytes "$work/gpt2-$1/manifest.json")"
    figure "gpt2_$(short_name "$1")_memory_used_bytes" \
        "$(manifest_figure "$work/gpt2-$1/manifest.json" memory_used_bytes)"
}

# What the formula has for the device, of all purposes.
planned_bytes() {
    awk '/"devices": \[/ { inside = 1 } inside && /"planned_bytes":/ { gsub(/[^0-9]/, "", $2); sum += $2 }
        END { printf "%d\n", sum }' "$1"
}

# One text, token after token. The bytes are those of the weights as the device holds them.
speed_decode() { # NAME PRECISION GB SHAPE...
    local name=$1 precision=$2 us bytes
    shift 2
    name=${name}_$(short_name "$precision")
    draw_gpt2 "$@"
    must answer_job --ranks 1 --precision "$precision" --checkpoint "$drawn" --prompt " anAN boCS" \
        --max-num-seqs 1 --max-new-tokens "$(pick 256 3)" --out "$work/$name"
    us=$(manifest_figure "$work/$name/results.json" p50 | awk '{ print $1 * 1000 }')
    bytes=$(manifest_figure "$work/$name/results.json" weight_bytes)
    figure "${name}_decode_us" "$us"
    figure "${name}_decode_bytes_per_s" "$(awk -v b="$bytes" -v us="$us" 'BEGIN { printf "%.4g", b / us * 1e6 }')"
}

speed_copy() {
    measure copy "$plugin" "$(pick 2048 3)"
    take_figures
}

speed_host() {
    measure all-reduce "$plugin"
    take_figures
}

speed_bench() {
    must "$bin/coll-bench" all_reduce --transport nccl --ranks 1 -b 4 -e "$(pick 1G 4K)" -f 8 -- --account gpu
}

phase_speed() {
    local precision trained=() decoded=()
    needs_gpu
    for precision in bfloat16 float32; do
        ! takes_precision ddp-nccl $precision || trained+=($precision)
        ! takes_precision tp-nccl $precision --checkpoint "$bundle/reference" --prompt x || decoded+=($precision)
    done
    start_service
    part 10 speed_copy
    part 10 speed_host
    part 15 speed_minigpt
    for precision in "${trained[@]}"; do
        part 35 speed_train "$precision"
    done
    for precision in "${decoded[@]}"; do
        part 15 speed_decode gpt2 "$precision" 2
    done
    part 30 speed_bench
    # The first is the shortest that there is.
    part 40 speed_decode xl "${decoded[0]}" 8 --width 1600 --layers 48 --heads 25
    part 150 speed_decode 8b "${decoded[0]}" 36 --width 4096 --layers 39 --heads 32
    end_parts
}
