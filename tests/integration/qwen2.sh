#!/usr/bin/env bash
# A Qwen2, and a tokenizer of its kind, through the launcher: it is trained, so that its biases are not zero;
# then every number of ranks draws the same tokens. Texts are normalised, and what cannot be is refused.
#   qwen2.sh BIN TOKENIZER SCRATCH
tokenizer=$2
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$3"

cat >shape/config.json <<'END_CONFIG'
{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 544, "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
 "max_position_embeddings": 128, "hidden_act": "silu", "tie_word_embeddings": false, "attention_dropout": 0.0,
 "use_sliding_window": false, "sliding_window": 64, "max_window_layers": 2}
END_CONFIG
random-checkpoint model "$tokenizer" --like shape

train() { # DIRECTORY ARGUMENTS...
    launcher --checkpoint model --quiet --no-bind --no-scaling --batch 2 --steps 8 --lr 3e-3 --out "$@" 2>err || fail "$*: $(cat err)"
}
train trained --ranks 2
train one --ranks 1 --micro-batches 2
train sharded --ranks 2 --zero 3
cmp trained/model.safetensors one/model.safetensors || fail "one rank trains otherwise than two"
cmp trained/model.safetensors sharded/model.safetensors || fail "--zero 3 trains otherwise"
cmp -s trained/model.safetensors model/model.safetensors && fail "nothing was learnt"
grep -q '"model_type": "qwen2"' trained/config.json || fail "the trained model is none of Qwen2's: $(cat trained/config.json)"

cat >prompts.jsonl <<'END_PROMPTS'
{"prompt": "The quick brown fox"}
{"prompt": "<|im_start|>user\n  \u00e9t\u00e9? 1234567\n<|im_end|>"}
END_PROMPTS
run() { # DIRECTORY ARGUMENTS...
    launcher --checkpoint trained --max-new-tokens 12 --ignore-eos --special-tokens --quiet --no-bind --out "$@" >/dev/null
    [ "$(tokens "$1" | wc -l)" -eq 4 ] || fail "$1 does not have the tokens of two prompts and two answers"
}
run alone --mode tp-cpu --ranks 1 --prompts prompts.jsonl
for ranks in 2 4; do
    run "of-$ranks" --mode tp-cpu --ranks "$ranks" --prompts prompts.jsonl
    [ "$(tokens alone)" = "$(tokens "of-$ranks")" ] || fail "$ranks ranks draw other tokens than one"
done
sed 's/\\u00e9/e\\u0301/g' prompts.jsonl >marks.jsonl
run marks --mode tp-cpu --ranks 2 --prompts marks.jsonl
[ "$(tokens alone)" = "$(tokens marks)" ] || fail "a letter and a mark behind it are other tokens than the letter with the mark"

refused_changed trained "use_sliding_window must be false" 's/"use_sliding_window": false/"use_sliding_window": true/'
refused_changed trained "27 tensors in it, the model has 21" 's/"model_type": "qwen2"/"model_type": "llama"/'
refused_changed trained "attention_bias must be false" 's/"model_type": "qwen2"/"model_type": "qwen2", "attention_bias": true/'
echo "qwen2: passed"
