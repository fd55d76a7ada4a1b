# What the phases have found, as JSON and as a table. Sourced by run.sh. `out` has phases/NAME.json and
# phases/NAME.figures of each phase that has run, in this call or an earlier one.

json_text() {
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    # Few texts need more than that, and each process more takes its time.
    local LC_ALL=C
    [[ $text != *[!\ -~]* ]] || text=$(tr -d '\000-\037' <<<"$text" | iconv -c -f utf-8 -t utf-8)
    printf '"%s"' "$text"
}

phase_json() { # NAME STATUS CODE SECONDS REASON
    local name value comma=""
    printf '{"phase": "%s", "status": "%s", "exit_code": %d, "seconds": %d, "reason": ' "$1" "$2" "$3" "$4"
    json_text "$5"
    printf ', "figures": {'
    while read -r name value; do
        printf '%s"%s": %s' "$comma" "$name" "$value"
        comma=", "
    done < <(cat "$out/phases/$1.figures" 2>/dev/null)
    printf '}}\n'
}

# The phase's file is whole at any time, also if the script is ended while it is written.
keep_json() { # NAME STATUS CODE SECONDS REASON
    phase_json "$@" >"$out/phases/$1.json.new"
    mv "$out/phases/$1.json.new" "$out/phases/$1.json"
}

# Of a phase that has begun: until it has ended, the results say that it has not.
begun_json() { # NAME SECONDS
    keep_json "$1" failed 143 "$2" "it began, and the script was ended meanwhile"
}

# The goals: NAME|WANTED|MEASURED, the last empty where a figure lacks. Ratios are ours over theirs.
goals() {
    cat "$out"/phases/*.figures 2>/dev/null | awk '
        { is[$1] = $2 }
        function has(name) { return name in is }
        function least(a, b) { return !has(a) ? b : !has(b) || is[a] + 0 < is[b] + 0 ? a : b }
        function most(a, b) { return least(a, b) == a && has(b) ? b : a }
        function ratio(a, b) { return has(a) && has(b) && is[b] > 0 ? sprintf("%.4g", is[a] / is[b]) : "" }
        function value(a) { return has(a) ? is[a] : "" }
        function difference(a, b) { return has(a) && has(b) ? sprintf("%.4g", is[a] - is[b]) : "" }
        function goal(name, wanted, measured) { print name "|" wanted "|" measured }
        END {
            goal("largest relative difference of losses from the CPU", "<= 1e-4", value("curve_difference"))
            goal("the same with --exact", "<= 1e-4", value("exact_curve_difference"))
            goal("answers that differ from the CPU, --exact", "<= 0", value("exact_answers_different"))
            goal("logits beside PyTorch in float64: largest difference over the largest logit", "<= 1e-4", value("cuda_logits_difference"))
            goal("a kernel that never ends: seconds of the whole job, training", "<= 40", value("seconds_of_hung_training"))
            goal("the same, decoding", "<= 40", value("seconds_of_hung_decoding"))
            goal("MiniGPT training over PyTorch eager", ">= 5", ratio("minigpt_tokens_per_sec", most("torch_minigpt_eager_tokens_per_sec", "torch_minigpt_eager_fused_tokens_per_sec")))
            goal("MiniGPT training over PyTorch compiled", ">= 1.5", ratio("minigpt_tokens_per_sec", "torch_minigpt_compiled_tokens_per_sec"))
            goal("GPT-2 124M training, bfloat16, over PyTorch eager", ">= 1.4", ratio("gpt2_bf16_tokens_per_sec", "torch_gpt2_bf16_eager_tokens_per_sec"))
            goal("the same over PyTorch compiled", ">= 0.9", ratio("gpt2_bf16_tokens_per_sec", "torch_gpt2_bf16_compiled_tokens_per_sec"))
            goal("the same, tokens/s", ">= 300000", value("gpt2_bf16_tokens_per_sec"))
            ours = least("gpt2_bf16_decode_us", "gpt2_f32_decode_us")
            theirs = least("torch_gpt2_bf16_decode_us", "torch_gpt2_f32_decode_us")
            goal("GPT-2 124M decoding, time of a token over PyTorch eager", "<= 0.1", ratio(ours, theirs))
            goal("the same, microseconds a token", "<= 300", value(ours))
            goal("GPT-2 XL decoding, bfloat16, share of the copy bandwidth", ">= 0.6", ratio("xl_bf16_decode_bytes_per_s", "copy_bytes_per_s"))
            goal("an 8 B shape decoding, bfloat16, share of the copy bandwidth", ">= 0.8", ratio("8b_bf16_decode_bytes_per_s", "copy_bytes_per_s"))
            # one rank copies, and calls no NCCL; "calling" is made to, as more ranks do
            goal("an all-reduce: microseconds of the host over NCCL itself, one rank", "<= 1", difference("coll_host_us", "nccl_host_us"))
            goal("the same, replayed in a graph", "<= 1", difference("coll_host_us_in_graph", "nccl_host_us_in_graph"))
            goal("the same where ours calls NCCL, as more ranks do", "<= 1", difference("coll_calling_host_us", "nccl_host_us"))
            goal("the same with NCCL called, replayed in a graph", "<= 1", difference("coll_calling_host_us_in_graph", "nccl_host_us_in_graph"))
            goal("GPT-2 training, bfloat16: memory that is used over the formula", "<= 1.1", ratio("gpt2_bf16_memory_used_bytes", "gpt2_bf16_memory_planned_bytes"))
            goal("an all-reduce of 64 MiB on two or more GPUs, native: time over NCCL itself", "<= 1.03", ratio("native_all_reduce_us_67108864", "nccl_all_reduce_us_67108864"))
        }'
}

# Goals with "yes", "no" or "not run" as a fourth field.
judged_goals() {
    goals | awk -F '|' '{
        split($2, wanted, " ")
        met = $3 == "" ? "not run" : (wanted[1] == ">=" ? $3 + 0 >= wanted[2] + 0 : $3 + 0 <= wanted[2] + 0) ? "yes" : "no"
        print $0 "|" met
    }'
}

goals_json() { # JUDGED
    local name wanted measured met comma="" json
    while IFS='|' read -r name wanted measured met; do
        case $met in yes) json=true ;; no) json=false ;; *) json=null ;; esac
        printf '%s{"goal": ' "$comma"
        json_text "$name"
        printf ', "wanted": "%s", "measured": %s, "met": %s}\n' "$wanted" "${measured:-null}" "$json"
        comma=", "
    done <<<"$1"
}

# To paste into docs/BENCHMARKS.md.
write_table() { # GPUS JUDGED
    local name value
    printf 'On %s, commit %s, %s.\n\n' "$1" "$(cat "$bundle/commit" 2>/dev/null)" "$(date -u +%Y-%m-%d)"
    printf '| goal | wanted | measured | met |\n|---|---|---|---|\n'
    sed 's/^/| /; s/|/ | /2g; s/$/ |/' <<<"$2"
    printf '\n| figure | |\n|---|---|\n'
    for name in "${phases[@]}"; do
        while read -r figure value; do
            printf '| %s: %s | %s |\n' "$name" "$figure" "$value"
        done < <(cat "$out/phases/$name.figures" 2>/dev/null)
    done
}

write_results() {
    local name comma="" gpus judged
    gpus=$(cat "$work/gpus")
    judged=$(judged_goals)
    {
        printf '{"commit": %s, "date": "%s", "gpus": %s, "phases": [\n' \
            "$(json_text "$(cat "$bundle/commit" 2>/dev/null)")" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(json_text "$gpus")"
        for name in "${phases[@]}"; do
            [ -e "$out/phases/$name.json" ] || continue
            printf '%s' "$comma"
            cat "$out/phases/$name.json"
            comma=", "
        done
        printf '], "goals": [\n'
        goals_json "$judged"
        printf ']}\n'
    } >"$out/gpu-results.json.new"
    write_table "$gpus" "$judged" >"$out/gpu-results.md.new"
    mv "$out/gpu-results.json.new" "$out/gpu-results.json"
    mv "$out/gpu-results.md.new" "$out/gpu-results.md"
}
