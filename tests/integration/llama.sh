#!/usr/bin/env bash
# A Llama, and a tokenizer of Llama 3's kind, through the launcher: every number of ranks draws the same
# tokens, and what cannot be is refused.
#   llama.sh BIN TOKENIZER SCRATCH
tokenizer=$2
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$3"

cat >shape/config.json <<'END'
{"model_type": "llama", "vocab_size": 544, "hidden_size": 50, "intermediate_size": 128, "num_hidden_layers": 2,
 "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
 "max_position_embeddings": 256, "hidden_act": "silu", "tie_word_embeddings": false}
END
random-checkpoint model "$tokenizer" --like shape
cat >prompts.jsonl <<'END'
{"prompt": "The quick brown fox"}
{"prompt": "<|im_start|>user\n  two  lines? 1234567\n<|im_end|>"}
END
run() { # DIRECTORY ARGUMENTS...
    launcher --checkpoint model --prompts prompts.jsonl --max-new-tokens 12 --ignore-eos --quiet --no-bind --out "$@" >/dev/null
    [ "$(tokens "$1" | wc -l)" -eq 4 ] || fail "$1 does not have the tokens of two prompts and two answers"
}
run one --mode tp-cpu --ranks 1
run two --mode tp-cpu --ranks 2
run four --mode tp-cpu --ranks 4
[ "$(tokens one)" = "$(tokens two)" ] || fail "two ranks draw other tokens than one"
[ "$(tokens one)" = "$(tokens four)" ] || fail "four ranks draw other tokens than one"

# The plan has the job's parameters, exchanges and cache: 16 texts of 256 tokens on each of two ranks.
plan_has_parameters two --checkpoint model --decode --ranks 2 --tensor 2 --batch 16 --precision float32
[ "$(said plan.json cache)" = "$(said two/results.json cache_bytes).0" ] || fail "a cache of $(said plan.json cache) bytes is planned, not $(said two/results.json cache_bytes)"
awk "BEGIN { exit $(said plan.json times) != 2 * $(said two/results.json all_reduces_per_token) }" || # two texts share a step
    fail "$(said plan.json times) all-reduces a step are planned, not twice $(said two/results.json all_reduces_per_token)"

# The template's token stands before each prompt. Special tokens in a prompt are letters, unless asked.
run special --mode tp-cpu --ranks 2 --special-tokens
tokens one | sed -n 3p | grep -q ':\[1,' || fail "the template's token is missing"
tokens special | sed -n 3p | grep -q ':\[1,1,' || fail "--special-tokens does not read <|im_start|>"
tokens one | sed -n 3p | grep -q ':\[1,1,' && fail "a prompt became a special token unasked"

# A prompt of special tokens fits where the same letters would not.
prompt=$(printf '<|im_start|>%.0s' $(seq 200))
launcher --mode tp-cpu --checkpoint model --prompt "$prompt" --special-tokens --max-new-tokens 1 --quiet --no-bind --out fits >/dev/null ||
    fail "a prompt of 200 special tokens does not fit into 256"

refused "products that are timed are gpt2's" launcher --quiet --ranks 1 --no-bind -- inference-bench model 1
refused "Usage: launcher --ranks N -- inference-bench" launcher --quiet --ranks 1 --no-bind -- inference-bench model 1x
refused "at most 100" launcher --quiet --ranks 1 --no-bind -- inference-bench model 101 # a sequence would end before
refused "--context 257 where the checkpoint's model has 256: it cannot be changed" launcher --quiet --mode tp-cpu --checkpoint model --prompt hello --context 257
refused "it can between 1, 2, 4" launcher --quiet --mode tp-cpu --ranks 3 --checkpoint model --prompt hello

# A context longer than a job's needs --context, which holds for the check of prompts, too.
sed -i 's/"max_position_embeddings": 256/"max_position_embeddings": 131072/' model/config.json
refused "take fewer with --context N" launcher --quiet --mode tp-cpu --checkpoint model --prompt hello
refused "1 to 59 tokens, this one has" launcher --quiet --mode tp-cpu --checkpoint model --context 60 \
    --prompt "$(printf '<|im_start|>%.0s' $(seq 30))"
run short --mode tp-cpu --ranks 2 --context 128
[ "$(tokens one)" = "$(tokens short)" ] || fail "--context changes tokens"
tr -d ' \n' <short/results.json | grep -q '"context":128' || fail "the record has another context than --context"
launcher --checkpoint model --mode generate --context 60 --special-tokens --prompt "$(printf '<|im_start|>%.0s' $(seq 30))" \
    --quiet --no-bind --out tight >/dev/null || fail "--special-tokens: a prompt that fits is refused"
sed -i 's/"rope_theta": 500000.0/"rope_theta": 500000.0, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}/' model/config.json
refused 'rope_type "yarn"' launcher --quiet --context 64 --mode tp-cpu --checkpoint model --prompt hello
echo "llama: passed"
