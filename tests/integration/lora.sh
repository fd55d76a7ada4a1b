#!/usr/bin/env bash
# Adapters (--lora) through the launcher, of a GPT-2 and of a Qwen3 in bfloat16: every layout has the parameters of one
# rank, what is exchanged is theirs alone, a training goes on with the same bits, and also after a rank was killed. Then
# every number of ranks draws the same tokens with them. What cannot be is refused.
#   lora.sh BIN TOKENIZER GATE SCRATCH        GATE: the library of checkpoint_gate.c
bin=$1
tokenizer=$2
gate=$3
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$4"

cat >shape/config.json <<'END_CONFIG'
{"model_type": "qwen3", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
 "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16, "rms_norm_eps": 1e-6, "rope_theta": 1000000,
 "max_position_embeddings": 64, "hidden_act": "silu", "tie_word_embeddings": true, "use_sliding_window": false}
END_CONFIG
random-checkpoint qwen3 "$tokenizer" --like shape --bfloat16
random-checkpoint gpt2 "$tokenizer" --vocab-size 512 --width 64 --layers 2 --heads 4 --context 64

options="--quiet --no-bind --no-scaling --batch 2 --lr 1e-2"
train() { # MODEL OUT ARGUMENTS...
    model=$1
    out=$2
    shift 2
    # shellcheck disable=SC2086
    launcher $options --checkpoint "$model" --out "$out" "$@" 2>err || fail "$out $*: $(cat err)"
}
same() { # OUT OF
    cmp "$1/adapter_model.safetensors" "$2/adapter_model.safetensors" || fail "$1 has other adapters than $2"
}
of_manifest() { # OUT EXPRESSION
    tr -d ' \n' <"$1/manifest.json" | grep -q "$2" || fail "$1/manifest.json has no $2"
}
first_loss() { # OUT
    head -n 1 "$1/timings.jsonl" | grep -oE '"loss_global":[^,]*'
}

for model in gpt2 qwen3; do
    lora="--lora 4 --lora-targets all-linear"
    # shellcheck disable=SC2086
    {
        train $model $model-one --ranks 1 --micro-batches 4 --steps 6 $lora
        train $model $model-two --ranks 2 --micro-batches 2 --steps 6 $lora --recompute
        train $model $model-four --ranks 4 --steps 6 $lora --bucket-bytes 4096
        train $model $model-shards --ranks 4 --steps 6 $lora --zero 1
        train $model $model-plain --ranks 4 --steps 1
        train $model $model-default --ranks 1 --steps 1 --lora 4
        train $model $model-parts --ranks 2 --micro-batches 2 --steps 3 $lora --save-every 3 --resume
        train $model $model-parts --ranks 4 --steps 6 $lora --save-every 3 --resume
    }
    for other in two four shards parts; do
        same $model-$other $model-one
    done
    [ "$(first_loss $model-one)" = "$(first_loss $model-plain)" ] || fail "new adapters change the loss of $model"
    of_manifest $model-four '"byte_equivalent":true'
    [ ! -e $model-one/model.safetensors ] || fail "the frozen $model was written"
    ls $model-parts/checkpoints/step-000000006/model.safetensors 2>/dev/null && fail "a checkpoint has the frozen $model"
done
# 2 layers of 4 × (64 + 192 + 64 + 64 + 64 + 256 + 256 + 64), and of the default layers
of_manifest gpt2-four '"trained_params":8192,'
of_manifest gpt2-four '"lora":{"rank":4,"alpha":8.0,"targets":"all-linear","merge":false,"adapter":null}'
of_manifest gpt2-four '"kind":"all_reduce","calls":[0-9.]*,"bytes":328[0-9][0-9].0'
of_manifest gpt2-four '"purpose":"moments","planned_bytes":65536,'
of_manifest gpt2-shards '"purpose":"moments","planned_bytes":16384,'
of_manifest gpt2-default '"trained_params":2048,'
of_manifest gpt2-default '"targets":null'
of_manifest qwen3-default '"trained_params":2560,' # q: 4 × (64 + 128), v: 4 × (64 + 64)
grep -q '"target_modules"' qwen3-default/adapter_config.json || fail "no target_modules"

# A plan has the figures of the record: parameters, moments, and the sum of the adapters' gradients.
of_record() { # OUT PURPOSE: of the rank with most
    tr -d ' \n' <"$1/manifest.json" | grep -oE "\"purpose\":\"$2\",\"planned_bytes\":[0-9]*" | cut -d: -f3 | sort -n | tail -n 1
}
for model in gpt2 qwen3; do
    for out in four shards default; do
        zero=0
        lora="--lora 4 --lora-targets all-linear"
        ranks=4
        [ $out != shards ] || zero=1
        [ $out != default ] || lora="--lora 4" ranks=1
        # shellcheck disable=SC2086
        launcher plan --json --precision float32 --checkpoint $model --ranks $ranks --data $ranks --batch 2 --global-batch 8 \
            --zero $zero $lora >plan.json 2>err || fail "plan of $model-$out: $(cat err)"
        figure() { tr -d ' \n' <plan.json | grep -oE "$1[0-9]+" | head -n 1 | grep -oE '[0-9]*$'; }
        grep -q "\"on_cpus\": \"launcher --mode ddp-cpu .* $lora\"" plan.json || fail "plan of $model-$out names another command: $(cat plan.json)"
        [ "$(figure '"weights":')" = "$(of_record $model-$out parameters)" ] || fail "plan of $model-$out: $(cat plan.json)"
        [ "$(figure '"optimizer":')" = "$(of_record $model-$out moments)" ] || fail "plan of $model-$out: $(cat plan.json)"
        [ $zero = 1 ] || [ $ranks = 1 ] || {
            times=$(figure '"operation":"all_reduce",.*"times":')
            each=$(figure '"operation":"all_reduce",.*"payload_bytes":')
            # and 32 bytes of losses, of tokens, and of the norm
            of_manifest $model-$out "\"kind\":\"all_reduce\",\"calls\":[0-9.]*,\"bytes\":$((times * each + 32)).0"
        }
        of_manifest $model-$out "\"trained_params\":$(figure '"targets":[^,]*,"parameters":'),"
    done
done

# Adapters are trained further: with their rank, alpha and layers, on any number of ranks; the first loss is that of the
# model with them, and the optimizer begins anew.
train qwen3 base --ranks 1 --micro-batches 4 --steps 3 --lora 4 --lora-alpha 12 --lora-targets all-linear --lora-merge
train qwen3 further-one --ranks 1 --micro-batches 4 --steps 3 --adapter base
train qwen3 further-four --ranks 4 --steps 3 --adapter base --zero 1 --lora 4 --lora-alpha 12 --lora-targets all-linear
same further-four further-one
of_manifest further-one '"lora":{"rank":4,"alpha":12.0,"targets":null,"merge":false,"adapter":"[^"]*/base/adapter"}'
cmp base/adapter/adapter_config.json further-one/adapter_config.json || fail "adapters that were trained further have another configuration"
cmp -s base/adapter/adapter_model.safetensors further-one/adapter_model.safetensors && fail "training further changes nothing"
[ ! -e base/adapter_config.json ] || fail "a merged model has its adapters beside it: transformers adds them once more"
train base merged-plain --ranks 4 --steps 1
close() { # OF ONE AND ANOTHER: sums of the merged model are rounded otherwise
    awk -v a="${1#*:}" -v b="${2#*:}" 'BEGIN { exit !(a - b < 1e-4 && b - a < 1e-4) }'
}
close "$(first_loss further-one)" "$(first_loss merged-plain)" || fail "a training of adapters does not begin with them"
close "$(first_loss further-one)" "$(first_loss qwen3-plain)" && fail "the adapters of base change no loss"
train qwen3 further-parts --ranks 4 --steps 1 --adapter base --save-every 1 --resume
train qwen3 further-parts --ranks 2 --micro-batches 2 --steps 3 --adapter base --save-every 3 --resume
same further-parts further-one
# Going on with --lora-merge, or without, leaves nothing of the other way.
train qwen3 further-parts --ranks 4 --steps 4 --adapter base --lora 4 --lora-alpha 12 --lora-targets all-linear --lora-merge --save-every 4 --resume
[ -e further-parts/adapter/adapter_config.json ] && [ -e further-parts/model.safetensors ] || fail "nothing is merged after --resume"
[ ! -e further-parts/adapter_model.safetensors ] || fail "a merged model has older adapters beside it"
train qwen3 further-parts --ranks 4 --steps 5 --adapter base --save-every 5 --resume
[ -e further-parts/adapter_config.json ] && [ ! -e further-parts/model.safetensors ] || fail "an older merged model is left"
[ ! -e further-parts/adapter/adapter_model.safetensors ] || fail "older adapters are left"
train qwen3 root --ranks 1 --steps 1 --lora 3 --lora-alpha 7 # 7 / sqrt(3) is 12.12... / 3
sed -i 's/"use_rslora": false/"use_rslora": true/' root/adapter_config.json
train qwen3 further-root --ranks 1 --steps 1 --adapter root
grep -q '"lora_alpha": 12.12435565' further-root/adapter_config.json || fail "$(cat further-root/adapter_config.json)"

# A rank is killed, and the job goes on by itself. It waits for that at a checkpoint.
# shellcheck disable=SC2086
LD_PRELOAD=$gate GATE_STEP=100 ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 launcher $options --checkpoint gpt2 --lora 4 --lora-targets all-linear --ranks 2 --micro-batches 2 --steps 300 --save-every 5 \
    --resume --max-restarts 1 --out killed 2>killed.err &
launcher=$!
until [ -d killed/checkpoints ] && ls killed/checkpoints | grep -q step-; do
    kill -0 "$launcher" || fail "the job ended by itself: $(cat killed.err)"
    sleep 0.02
done
kill -KILL "$(pgrep -P "$launcher" | tail -n 1)"
touch killed/go
wait "$launcher" || fail "a job whose rank was killed did not go on: $(cat killed.err)"
grep -q '"attempts": 2' killed/manifest.json || fail "nobody was killed"
train gpt2 unharmed --ranks 4 --steps 300 --lora 4 --lora-targets all-linear
same killed unharmed

# The model with its adapters answers as the merged one, on any number of ranks.
head -n 20 "$bin/../share/ringfence/heldout.jsonl" >heldout.jsonl
train qwen3 merged --ranks 2 --steps 20 --lora 8 --lora-alpha 8 --lora-targets all-linear --lora-merge --heldout heldout.jsonl \
    --eval-every 10
of_manifest merged '"eval":{"loss":[0-9.]*,"sentences":20,'
answer() { # OUT ARGUMENTS...
    launcher --mode tp-cpu --max-new-tokens 12 --ignore-eos --quiet --no-bind --prompt "he goed to school" --prompt "she have" \
        --out "$@" >"$1.text" || fail "$*"
}
answer merged-1 --ranks 1 --checkpoint merged
for ranks in 1 2 4; do
    answer "adapter-$ranks" --ranks $ranks --checkpoint qwen3 --adapter merged
    [ "$(tokens "adapter-$ranks")" = "$(tokens merged-1)" ] || fail "$ranks ranks draw other tokens than the merged model"
done
tr -d ' \n' <adapter-2/results.json | grep -q '"weight_type":"bfloat16",' || fail "adapters change the type of the model's matrices"
answer adapter-int8 --ranks 1 --checkpoint qwen3 --adapter merged --weights int8
answer adapter-int8-4 --ranks 4 --checkpoint qwen3 --adapter merged --weights int8 --baseline
[ "$(tokens adapter-int8-4)" = "$(tokens adapter-int8)" ] || fail "4 ranks draw other tokens beside int8"
tr -d ' \n' <adapter-2/results.json | grep -q '"adapter":"[^"]*/merged/adapter",' || fail "results.json does not name the adapters"
answer plain-1 --ranks 1 --checkpoint qwen3
tr -d ' \n' <plain-1/results.json | grep -q '"adapter":null,' || fail "results.json names adapters where there are none"
[ "$(tokens plain-1)" != "$(tokens merged-1)" ] || fail "adapters change nothing"
launcher --mode generate --eval --heldout heldout.jsonl --quiet --checkpoint qwen3 --adapter merged >generate.text || fail "generate --eval"

ask() { launcher --quiet --out refused "$@"; }
refused "--lora 4 adapts a model that is trained already" ask --lora 4
refused "--adapter adapts a model that is trained already" ask --adapter gpt2-four
refused "--lora 4 goes with mode ddp-cpu, not with pp-cpu" ask --mode pp-cpu --checkpoint gpt2 --lora 4
refused "--lora 4 goes with mode ddp-cpu, not with ddp-nccl" ask --mode ddp-nccl --checkpoint gpt2 --lora 4
refused "--lora 4 goes with --zero 0 and 1" ask --checkpoint gpt2 --lora 4 --zero 2
refused "--lora goes with modes that train" ask --mode generate --prompt a --checkpoint gpt2 --lora 4
refused "--lora-alpha goes with --lora" ask --checkpoint gpt2 --lora-alpha 4
refused "gpt2-plain/model.safetensors and would write over it, or move it away" ask --checkpoint gpt2-plain --lora 4 --out gpt2-plain
[ -f gpt2-plain/model.safetensors ] || fail "the model of adapters was moved away"
refused "--lora-merge goes with --lora" ask --checkpoint gpt2 --lora-merge
refused 'no linear layer "q_proj"; it has c_attn' ask --checkpoint gpt2 --lora 4 --lora-targets q_proj
refused "--adapter goes with modes that answer on CPUs (generate, tp-cpu), and with ddp-cpu, not with pp-cpu" ask --mode pp-cpu \
    --checkpoint gpt2 --adapter gpt2-one
refused 'no linear layer "q_proj"' ask --checkpoint gpt2 --adapter merged
refused "--adapter $PWD/merged is of the --checkpoint" ask --mode generate --prompt a --checkpoint merged --adapter merged
refused "is of the --checkpoint" ask --checkpoint merged --adapter ./merged/
refused "is of the --checkpoint" ask --mode generate --prompt a --checkpoint merged --adapter merged/adapter
refused "merged/adapter/adapter_config.json and would write over it" ask --checkpoint qwen3 --adapter merged --out merged
refused "--adapter: cannot open $PWD/nowhere/adapter_config.json" ask --checkpoint gpt2 --adapter nowhere
refused "--lora 8: $PWD/gpt2-one/adapter_config.json has r 4" ask --checkpoint gpt2 --adapter gpt2-one --lora 8
refused "--lora-alpha 4: $PWD/gpt2-one/adapter_config.json has adapters times 8 / 4" ask --checkpoint gpt2 --adapter gpt2-one --lora-alpha 4
refused "--lora-targets c_attn: $PWD/gpt2-one/adapter_config.json has c_attn,c_proj,c_fc" ask --checkpoint gpt2 --adapter gpt2-one \
    --lora-targets c_attn
cp -r gpt2-one hostile
tail -c +9 hostile/adapter_model.safetensors >hostile/cut
mv hostile/cut hostile/adapter_model.safetensors
refused "launcher: error: --adapter: $PWD/hostile/adapter_model.safetensors" ask --checkpoint gpt2 --adapter hostile
size=$(stat -c %s gpt2-one/adapter_model.safetensors)
head -c $((size - 4)) gpt2-one/adapter_model.safetensors >hostile/adapter_model.safetensors
printf '\0\0\300\177' >>hostile/adapter_model.safetensors
refused "has a NaN or an infinity in it" ask --checkpoint gpt2 --adapter hostile
refused "gpt2-two/adapter_config.json and would write over it" ask --checkpoint gpt2 --adapter gpt2-two --out gpt2-two
refused "--adapter goes with modes that answer on CPUs" ask --mode tp-nccl --prompt a --checkpoint gpt2 --adapter merged
refused 'no linear layer "q_proj"' ask --mode generate --prompt a --checkpoint gpt2 --adapter merged
refused "adapter_config.json" ask --mode generate --prompt a --checkpoint gpt2 --adapter qwen3
goes_on() { # WHAT IT SAYS, ARGUMENTS...
    says=$1
    shift
    # shellcheck disable=SC2086
    if launcher $options --ranks 2 --micro-batches 2 --steps 8 --save-every 3 --resume --out gpt2-parts "$@" >refused.text 2>&1 ||
        ! grep -qF -- "$says" refused.text; then
        fail "$*: $(cat refused.text), and not: $says"
    fi
}
goes_on "with --lora 4, and this job has 8" --checkpoint gpt2 --lora 8 --lora-targets all-linear
goes_on "with --lora 4, and this job has 0" --checkpoint gpt2
goes_on "with --lora-alpha 8, and this job has 4" --checkpoint gpt2 --lora 4 --lora-alpha 4 --lora-targets all-linear
goes_on "with --lora-targets c_attn,c_proj,c_fc, and this job has c_attn" --checkpoint gpt2 --lora 4
goes_on "are of another model than that of --checkpoint" --checkpoint gpt2-plain --lora 4 --lora-targets all-linear
echo "lora: ok"
