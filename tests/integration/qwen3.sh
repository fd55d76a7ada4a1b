#!/usr/bin/env bash
# A Qwen3 through the launcher: every layout of training gives the parameters of one rank, the weights of its heads'
# norms among them; then every number of ranks draws the same tokens. A chat loses the thoughts of earlier answers.
# What cannot be is refused.
#   qwen3.sh BIN TOKENIZER TEMPLATE SCRATCH
tokenizer=$2
template=$3
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$4"

# Heads that are together wider than the stream, and share keys and values; more ids than the tokenizer has, as in Qwen3.
cat >shape/config.json <<'END_CONFIG'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 1024, "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16, "rms_norm_eps": 1e-6,
 "rope_theta": 1000000, "max_position_embeddings": 128, "hidden_act": "silu", "tie_word_embeddings": true,
 "attention_bias": false, "attention_dropout": 0.0, "use_sliding_window": false, "sliding_window": null, "max_window_layers": 2}
END_CONFIG
random-checkpoint model "$tokenizer" --like shape
random-checkpoint half "$tokenizer" --like shape --bfloat16

train() { # DIRECTORY ARGUMENTS...
    launcher --checkpoint "${from:-model}" --quiet --no-bind --no-scaling --batch 2 --steps 6 --lr 3e-3 --out "$@" 2>err || fail "$*: $(cat err)"
}
same() { # DIRECTORY HOW
    cmp "$1/model.safetensors" one/model.safetensors || fail "$2 trains otherwise than one rank"
}
train one --ranks 1 --micro-batches 4
train trained --ranks 2 --micro-batches 2
same trained "--ranks 2"
for stage in 1 2 3; do
    train "sharded-$stage" --ranks 2 --micro-batches 2 --zero "$stage"
    same "sharded-$stage" "--zero $stage"
done
pipeline() { # DIRECTORY ARGUMENTS...
    train "$@" --mode pp-cpu
    same "$1" "pp-cpu $*"
}
pipeline stages --ranks 2 --micro-batches 4 --pipeline 1f1b --recompute
pipeline shared --ranks 2 --tensor 2 --micro-batches 4
pipeline quarter --ranks 4 --tensor 4 --micro-batches 4 --recompute
pipeline cube --ranks 8 --stages 2 --tensor 2 --micro-batches 2 --pipeline 1f1b
cmp -s trained/model.safetensors model/model.safetensors && fail "nothing was learnt"
for key in '"model_type": "qwen3"' '"head_dim": 16' '"use_sliding_window": false' Qwen3ForCausalLM; do
    grep -q "$key" trained/config.json || fail "the trained model has no $key: $(cat trained/config.json)"
done
for name in q_norm k_norm; do
    grep -aq "model.layers.1.self_attn.$name.weight" trained/model.safetensors || fail "no $name in the trained model"
done

# Two heads of keys and values: sums have more leaves than these, so that four ranks, which share them, decode as one.
mkdir few-shape
sed 's/"num_key_value_heads": 4/"num_key_value_heads": 2/' shape/config.json >few-shape/config.json
random-checkpoint few "$tokenizer" --like few-shape
from=few train few-one --ranks 1 --micro-batches 4
from=few train few-two --mode pp-cpu --ranks 2 --tensor 2 --micro-batches 4
cmp few-one/model.safetensors few-two/model.safetensors || fail "2 ranks with a head of keys each train otherwise than one"
refused "2 of keys and values, cannot be cut between 4 ranks; it can between 1, 2" launcher --checkpoint few --mode pp-cpu --ranks 4 --tensor 4 --micro-batches 4 --steps 1 --quiet --out none

cat >prompts.jsonl <<'END_PROMPTS'
{"prompt": "The quick brown fox"}
{"prompt": "<|im_start|>user\n  two lines? 1234567\n<|im_end|>"}
END_PROMPTS
answer() { # DIRECTORY ARGUMENTS...
    launcher --max-new-tokens 12 --ignore-eos --special-tokens --quiet --no-bind --prompts prompts.jsonl --out "$@" >"$1.text"
}
run() { # DIRECTORY ARGUMENTS...
    answer "$@" --mode tp-cpu
    [ "$(tokens "$1" | wc -l)" -eq 4 ] || fail "$1 does not have the tokens of two prompts and two answers"
}
for model in trained half few-two; do
    run "$model-1" --checkpoint "$model" --ranks 1
    for ranks in 2 4; do
        run "$model-$ranks" --checkpoint "$model" --ranks "$ranks"
        [ "$(tokens "$model-1")" = "$(tokens "$model-$ranks")" ] || fail "$ranks ranks draw other tokens than one from $model"
    done
    answer "$model-0" --checkpoint "$model" --mode generate
    cmp "$model-0.text" "$model-1.text" || fail "mode generate answers otherwise from $model"
done
grep -q '"weight_type": "float32"' trained-4/results.json || fail "weights in float32 are not held so"
grep -q '"weight_type": "bfloat16"' half-4/results.json || fail "matrices in bfloat16 are not held so"

cp "$template" model/chat_template.jinja
cat >lines.jsonl <<'END_LINES'
{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>\nb\n</think>\n\nc"}, {"role": "user", "content": "d"}]}
END_LINES
cat >whole.jsonl <<'END_WHOLE'
{"prompt": "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nc<|im_end|>\n<|im_start|>user\nd<|im_end|>\n<|im_start|>assistant\n"}
END_WHOLE
chat() { # DIRECTORY ARGUMENTS...
    launcher --checkpoint model --mode tp-cpu --ranks 2 --max-new-tokens 12 --ignore-eos --quiet --no-bind --out "$@" >/dev/null
}
chat by-hand --special-tokens --prompts whole.jsonl
chat messages --prompts - <lines.jsonl
[ -n "$(tokens messages)" ] && [ "$(tokens messages)" = "$(tokens by-hand)" ] || fail "a chat is $(tokens messages), and not $(tokens by-hand)"

# The template's switch: the same text for --chat and for a line of its own, and the other way round.
cat >unthought.jsonl <<'END_WHOLE'
{"prompt": "<|im_start|>user\nd<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"}
{"prompt": "<|im_start|>user\nd<|im_end|>\n<|im_start|>assistant\n"}
END_WHOLE
cat >switched.jsonl <<'END_LINES'
{"messages": [{"role": "user", "content": "d"}], "chat_template_kwargs": {"enable_thinking": false}}
{"messages": [{"role": "user", "content": "d"}]}
END_LINES
chat unthought --special-tokens --prompts unthought.jsonl
chat switched --prompts - <switched.jsonl
[ "$(tokens switched)" = "$(tokens unthought)" ] || fail "enable_thinking: $(tokens switched), and not $(tokens unthought)"
sed -e 's/, "chat_template.*}}/}/' -e '2s/]}/], "chat_template_kwargs": {"enable_thinking": true}}/' -i switched.jsonl
chat back --no-thinking --prompts - <switched.jsonl
[ "$(tokens back)" = "$(tokens unthought)" ] || fail "enable_thinking with --no-thinking: $(tokens back), and not $(tokens unthought)"
chat flag --chat --no-thinking --prompt d
[ "$(tokens flag)" = "$(tokens unthought | head -n 2)" ] || fail "--no-thinking: $(tokens flag), and not $(tokens unthought)"
rm model/chat_template.jinja
refused "no switch for it" chat none --no-thinking --prompts - <switched.jsonl

plan_has_parameters trained-2 --checkpoint trained --decode --ranks 2 --tensor 2 --batch 16 --precision float32

refused_changed trained "use_sliding_window must be false" 's/"use_sliding_window": false/"use_sliding_window": true/'
refused_changed trained "attention_bias must be false" 's/"attention_bias": false/"attention_bias": true/'
refused_changed trained "layer_types has another one" 's/"model_type": "qwen3"/"model_type": "qwen3", "layer_types": ["full_attention", "sliding_attention"]/'
refused_changed trained "24 tensors in it, the model has 20" 's/"model_type": "qwen3"/"model_type": "llama"/'
echo "qwen3: passed"
