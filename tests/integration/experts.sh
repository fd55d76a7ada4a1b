#!/usr/bin/env bash
# Models with experts, a Mixtral and a Qwen3-MoE, through the launcher: every layout of training gives the parameters of
# one rank, and a training goes on from a checkpoint with the same bits. Every number of ranks draws the same tokens,
# alone and beside other prompts, in float32, bfloat16, int8 and int4. What cannot be is refused. Plans have the figures of jobs.
#   experts.sh BIN TOKENIZER SCRATCH
tokenizer=$2
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$3"

mkdir mixtral-shape qwen3-shape
cat >mixtral-shape/config.json <<'END_CONFIG'
{"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 64,
 "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8, "rms_norm_eps": 1e-5, "rope_theta": 1000000,
 "max_position_embeddings": 128, "hidden_act": "silu", "tie_word_embeddings": false, "num_local_experts": 4, "num_experts_per_tok": 2,
 "router_aux_loss_coef": 0.02, "router_jitter_noise": 0.0, "sliding_window": null, "output_router_logits": false}
END_CONFIG
cat >qwen3-shape/config.json <<'END_CONFIG'
{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 192,
 "moe_intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16,
 "rms_norm_eps": 1e-6, "rope_theta": 1000000, "max_position_embeddings": 128, "hidden_act": "silu", "tie_word_embeddings": true,
 "attention_bias": false, "use_sliding_window": false, "sliding_window": null, "num_experts": 6, "num_experts_per_tok": 3,
 "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [], "router_aux_loss_coef": 0.001}
END_CONFIG
random-checkpoint plain "$tokenizer" --vocab-size 512 --width 32 --layers 1 --heads 2 --context 64
for kind in mixtral qwen3; do
    random-checkpoint $kind "$tokenizer" --like $kind-shape
    random-checkpoint $kind-half "$tokenizer" --like $kind-shape --bfloat16
done

train() { # DIRECTORY ARGUMENTS...
    launcher --checkpoint $kind --quiet --no-bind --no-scaling --batch 2 --steps 6 --lr 3e-3 --out "$@" 2>err || fail "$*: $(cat err)"
    [ "$1" = $kind-one ] || cmp "$1/model.safetensors" $kind-one/model.safetensors || fail "$* trains otherwise than one rank"
}
tensor() { train "$@" --mode pp-cpu --stages 1; }
for kind in mixtral qwen3; do
    train $kind-one --ranks 1 --micro-batches 4
    cmp -s $kind/model.safetensors $kind-one/model.safetensors && fail "nothing was learnt"
    train $kind-four --ranks 4
    train $kind-trained --ranks 2 --micro-batches 2 --recompute
    for stage in 1 2 3; do
        train $kind-sharded-$stage --ranks 2 --micro-batches 2 --zero $stage
    done
    train $kind-out --ranks 2 --micro-batches 2 --expert-ranks 2
    train $kind-out-four --ranks 4 --expert-ranks 2 --transport tcp --recompute
    tensor $kind-shared --ranks 2 --tensor 2 --micro-batches 4
    tensor $kind-both --ranks 4 --tensor 2 --micro-batches 2 --recompute
    launcher compare $kind-one $kind-four >out || fail "compare: $(cat out)"
    grep -q byte-equal out || fail "compare: $(cat out)"
    launcher --checkpoint $kind --quiet --no-bind --no-scaling --batch 2 --steps 3 --save-every 3 --lr 3e-3 --ranks 2 --micro-batches 2 \
        --out $kind-resumed 2>err || fail "$(cat err)"
    train $kind-resumed --ranks 2 --micro-batches 2 --save-every 3 --resume --expert-ranks 2
done
[ "$(grep -c '"router_loss": [0-9]' qwen3-trained/timings.jsonl)" -eq 12 ] || fail "not each step of each rank has the router's loss"
# Without what is of ranks.
loads() { tr -d ' \n' <"$1/manifest.json" | grep -oE '"experts":\{[^}]*\}' | sed 's/"busiest_rank":[^,]*,//'; }
[ -n "$(loads qwen3-one)" ] || fail "no experts in the manifest"
for other in four trained out shared both; do
    [ "$(loads qwen3-one)" = "$(loads qwen3-$other)" ] || fail "qwen3-$other loads its experts so: $(loads qwen3-$other), and one rank so: $(loads qwen3-one)"
done
grep -q '"model_type": "mixtral"' mixtral-trained/config.json || fail "the trained model is no mixtral"
grep -q '"num_experts": 6' qwen3-trained/config.json || fail "the trained model has no experts"

# A new model, of GPT-2's sizes.
new() { # DIRECTORY ARGUMENTS...
    launcher --quiet --no-bind --no-scaling --experts 4 --experts-per-token 2 --width 32 --batch 2 --steps 4 --out "$@" 2>err ||
        fail "$*: $(cat err)"
}
new new-one --ranks 1 --micro-batches 4
new new-four --ranks 4
new new-shared --mode pp-cpu --ranks 2 --tensor 2 --stages 1 --micro-batches 4
new new-unforced --ranks 1 --micro-batches 4 --router-loss -1
for other in four shared; do
    cmp new-$other/model.safetensors new-one/model.safetensors || fail "new-$other is otherwise than one rank"
done
cmp -s new-unforced/model.safetensors new-one/model.safetensors && fail "--router-loss changes nothing"
grep -q '"num_local_experts": 4' new-one/config.json || fail "the new model is no mixtral of 4 experts: $(cat new-one/config.json)"

cat >prompts.jsonl <<'END_PROMPTS'
{"prompt": "The quick brown fox"}
{"prompt": "he goed to school"}
{"prompt": "i has"}
END_PROMPTS
sed -n 2p prompts.jsonl >second.jsonl
answer() { # DIRECTORY ARGUMENTS...
    launcher --max-new-tokens 12 --ignore-eos --special-tokens --quiet --no-bind --out "$@" >"$1.text" 2>err || fail "$*: $(cat err)"
}
check() { # NAME MODEL ARGUMENTS...
    local name=$1 model=$2 ranks
    shift 2
    for ranks in 1 2 4; do
        answer "$name-$ranks" --mode tp-cpu --ranks $ranks --checkpoint "$model" --prompts prompts.jsonl "$@"
        [ "$(tokens "$name-$ranks" | wc -l)" -eq 6 ] || fail "$name-$ranks has not the tokens of three prompts and answers"
        [ "$(tokens "$name-1")" = "$(tokens "$name-$ranks")" ] || fail "$ranks ranks draw other tokens than one from $name"
    done
    answer "$name-second" --mode tp-cpu --ranks 2 --checkpoint "$model" --prompts second.jsonl "$@"
    [ "$(tokens "$name-second")" = "$(tokens "$name-1" | sed -n 3,4p)" ] || fail "$name: a prompt alone has other tokens than beside others"
    answer "$name-0" --mode generate --checkpoint "$model" --prompts prompts.jsonl "$@"
    cmp "$name-0.text" "$name-1.text" || fail "mode generate answers otherwise from $name"
}
for kind in mixtral qwen3; do
    check $kind $kind-trained
    check $kind-half $kind-half
done
check mixtral-int8 mixtral --weights int8
check qwen3-int4 qwen3 --weights int4
grep -q '"weight_type": "bfloat16"' qwen3-half-4/results.json || fail "matrices in bfloat16 are not held so"
grep -q '"weight_type": "int8"' mixtral-int8-4/results.json || fail "matrices in int8 are not held so"
grep -q '"weight_type": "int4"' qwen3-int4-4/results.json || fail "matrices in int4 are not held so"

refused_in_a_line() { # WHAT COMMAND...
    refused "$@" --out none
    [ "$(grep -c . err)" -eq 1 ] || fail "refused in more than one line: $(cat err)"
}
ask() { launcher --mode tp-cpu --checkpoint changed --prompt hello --quiet --no-bind "$@"; }
changed qwen3 's/"decoder_sparse_step": 1/"decoder_sparse_step": 2/'
refused_in_a_line "decoder_sparse_step must be 1" ask
changed qwen3 's/"mlp_only_layers": \[\]/"mlp_only_layers": [1]/'
refused_in_a_line "mlp_only_layers must be empty" ask
changed mixtral 's/"num_experts_per_tok": 2/"num_experts_per_tok": 5/'
refused_in_a_line "the number of experts of a token is 5" ask
changed mixtral 's/"model_type": "mixtral"/"model_type": "llama"/'
refused_in_a_line "no tensor model.layers.0.mlp.gate_proj.weight" ask
refused_in_a_line "makes a new model" launcher --checkpoint mixtral --experts 4 --quiet
refused_in_a_line "the model has no experts" launcher --checkpoint plain --router-loss 0.1 --quiet
teach() { launcher --checkpoint mixtral --quiet --no-bind --no-scaling --steps 1 --ranks 2 "$@"; }
refused_in_a_line "cannot be cut into stages" teach --mode pp-cpu --micro-batches 2
refused_in_a_line "cannot be cut into stages" launcher --experts 4 --mode pp-cpu --ranks 2 --micro-batches 2 --steps 1 --quiet
refused_in_a_line "they must be even" launcher --experts 4 --width 66 --heads 22 --steps 1 --quiet
refused_in_a_line "models with experts run on CPUs only" launcher --experts 4 --mode ddp-nccl --steps 1 --quiet
refused_in_a_line "--context-ranks: ranks cannot share the tokens of a batch of a model with experts" teach --context-ranks 2
refused_in_a_line "models with experts have no adapters" teach --lora 4
refused_in_a_line "--expert-ranks 4 does not divide the model's experts, 6" launcher --checkpoint qwen3 --quiet --ranks 4 --expert-ranks 4 --steps 1
refused_in_a_line "models with experts run on CPUs only" teach --mode ddp-nccl
refused_in_a_line "models with experts run on CPUs only" launcher --mode tp-nccl --checkpoint mixtral --prompt hello --quiet

# A plan has the figures of jobs. Where every token goes to every expert, all experts have equally many rows, as a plan
# takes them to have. The job is the command that the plan names.
seq 20000 >numbers.txt
billed() { # OPERATION: bytes of its exchanges in plan.json, and what a rank sends of them
    tr -d ' \n' <plan.json | { grep -oE "\"operation\":\"$1\"[^}]*" || true; } |
        awk -F'[:,]' '{ all += $8 * $10; sent += $12 } END { printf "%.0f %.0f\n", all, sent }'
}
planned() { tr -d ' \n' <plan.json | grep -oE "\"$1\":[0-9]*" | head -1 | grep -oE '[0-9]*$'; }
exchanged() { tr -d ' \n' <"$1/manifest.json" | grep -oE "\"kind\":\"$2\",\"calls\":[0-9.]*,\"bytes\":[0-9]*" | head -1 | grep -oE '[0-9]*$'; }
held() { tr -d ' \n' <"$1/manifest.json" | grep -oE "\"purpose\":\"$2\",\"planned_bytes\":[0-9]*" | head -1 | grep -oE '[0-9]*$'; }
at_most_more() { # BYTES A B WHAT: losses, counts, and the norm's parts come on top
    [ -n "$2" ] && [ -n "$3" ] && [ "$2" -ge "$3" ] && [ "$2" -le $(($3 + $1)) ] || fail "$4: $2, and planned are $3"
}
as_planned() { # DIRECTORY ARGUMENTS...
    local out=$1
    shift
    launcher plan --json --precision float32 --model minigpt --experts 4 --experts-per-token 4 --batch 8 --steps 3 --pipeline 1 "$@" >plan.json 2>err ||
        fail "plan of $out: $(cat err)"
    command=$(grep -oE '"on_cpus": "launcher [^"]*"' plan.json | head -1 | cut -d'"' -f4)
    $command --data numbers.txt --quiet --no-bind --no-scaling --out "$out" 2>err || fail "$out: '$command': $(cat err)"
    sent=$(grep -oE '"bytes_sent": [0-9]*' "$out/timings.jsonl" | tail -1 | grep -oE '[0-9]*$')
    read -r sums sums_sent < <(billed all_reduce)
    read -r _ sharded_sent < <(billed reduce_scatter)
    read -r _ gathered_sent < <(billed all_gather)
    read -r _ rows_sent < <(billed all_to_all)
}
for case in "2 2 16 --recompute" "4 2 32" "4 4 64 --recompute" "2 1 16" "4 2 64 --zero 1"; do
    read -r ranks shared batch again <<<"$case"
    out=planned-$ranks-$shared${again//[- ]/}
    as_planned $out --data $ranks --tensor 1 --expert-ranks $shared --global-batch $batch $again
    [ $shared = 1 ] || [ "$(exchanged $out alltoall)" = "$rows_sent" ] || fail "$out: $(exchanged $out alltoall) bytes of rows, and planned are $rows_sent"
    # a record has the sums of one rank's experts with nobody's, too; and four ranks' pieces of a sum are rounded up
    [ $ranks = $shared ] || at_most_more 200 "$(exchanged $out all_reduce)" "$sums" "$out: sums"
    # with --zero a rank's pieces are not all as large as the mean
    planned_bytes=$((sums_sent + sharded_sent + gathered_sent + rows_sent))
    moments_off=$(($(held $out moments) - $(planned optimizer)))
    more=$((ranks == 2 ? 0 : 4096))
    [[ $again != *zero* ]] || more=$((planned_bytes / 500))
    at_most_more $((2 * more + 200)) $((sent + more)) $planned_bytes "$out: bytes sent"
    [ "$(held $out parameters)" = "$(planned weights)" ] || fail "$out: $(held $out parameters) bytes of parameters, and planned are $(planned weights)"
    [ $moments_off = 0 ] || { [[ $again = *zero* ]] && [ $((${moments_off#-} * 500)) -le "$(planned optimizer)" ]; } ||
        fail "$out: $(held $out moments) bytes of moments, and planned are $(planned optimizer)"
done
for again in "" --recompute; do
    # shellcheck disable=SC2086
    as_planned planned-tensor$again --data 1 --tensor 2 --global-batch 16 $again
    at_most_more 200 "$sent" "$sums_sent" "planned-tensor$again: bytes sent"
done

# In decoding too: parameters, their bytes in each type, and how often ranks add up.
result() { tr -d ' \n' <"$1/results.json" | grep -oE "\"$2\":[0-9]*" | head -1 | grep -oE '[0-9]*$'; }
for kind in mixtral qwen3; do
    for weights in checkpoint int8 int4; do
        answer planned-$kind-$weights --mode tp-cpu --ranks 1 --checkpoint $kind --prompts second.jsonl --weights $weights
        launcher plan --checkpoint $kind --decode --ranks 1 --precision float32 --weights $weights --json >plan.json 2>err || fail "plan: $(cat err)"
        [ "$(result planned-$kind-$weights weight_bytes)" = "$(planned weights)" ] ||
            fail "$kind: $(result planned-$kind-$weights weight_bytes) bytes of weights in $weights, and planned are $(planned weights)"
        [ "$(result planned-$kind-$weights parameters)" = "$(planned parameters)" ] || fail "$kind: $(planned parameters) parameters are planned"
    done
    launcher plan --checkpoint $kind --decode --ranks 2 --tensor 2 --json >plan.json 2>err || fail "plan: $(cat err)"
    times=$(tr -d ' \n' <plan.json | grep -oE '"operation":"all_reduce"[^}]*' | awk -F'[:,]' '{ sum += $8 } END { printf "%.0f", sum }')
    [ "$(result $kind-second all_reduces_per_token)" = "$times" ] || fail "$kind: $(result $kind-second all_reduces_per_token) all-reduces, and planned are $times"
done
echo "experts: passed"
