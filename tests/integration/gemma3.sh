#!/usr/bin/env bash
# A Gemma 3 through the launcher: on 1, 2 and 4 ranks, which share its one head of keys and values, it draws the tokens
# that transformers has drawn, on texts longer than its window; with a draft, from a cached beginning, and in a batch.
# Its plan has its weights. What cannot be is refused. A SmolLM3 draws the same tokens on each number of ranks.
#   gemma3.sh BIN MODEL TOKENIZER SCRATCH
model=$2
tokenizer=$3
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$4"

mkdir gemma3
cp "$model/config.json" "$model/model.safetensors" gemma3/
cp "$tokenizer" gemma3/tokenizer.json
sed 's/"prompt_token_ids.*/}/; s/, }$/}/' "$model/tokens.json" >prompts.jsonl
ids "$model/tokens.json" >wanted
[ "$(wc -l <wanted)" -eq 6 ] || fail "the fixture has $(wc -l <wanted) lists of tokens"

run() { # DIRECTORY ARGUMENTS...
    launcher --mode tp-cpu --max-new-tokens 24 --ignore-eos --quiet --no-bind --prompts prompts.jsonl --out "$@" >"$1.text" 2>err ||
        fail "$*: $(cat err)"
}
same() { # DIRECTORY
    ids "$1/results.json" | cmp -s - wanted || fail "$1 has other tokens than transformers: $(ids "$1/results.json")"
}
for ranks in 1 2 4; do
    run "of-$ranks" --checkpoint gemma3 --ranks "$ranks"
    same "of-$ranks"
done
run one-by-one --checkpoint gemma3 --ranks 2 --max-num-seqs 1
same one-by-one
run drafted --checkpoint gemma3 --ranks 2 --draft gemma3
same drafted
run fours-1 --checkpoint gemma3 --ranks 1 --weights int4
run fours-4 --checkpoint gemma3 --ranks 4 --weights int4 --draft gemma3
cmp fours-1.text fours-4.text || fail "4 ranks draw otherwise than one in int4"
launcher --mode generate --checkpoint gemma3 --max-new-tokens 24 --ignore-eos --quiet --no-bind --prompts prompts.jsonl >generated
cmp generated of-1.text || fail "mode generate answers otherwise"

# The second time its beginning is in the cache.
prompt='{"prompt": "A text that goes on behind its window, and on, and on, until nobody recalls how it began. Then it ends."}'
printf '%s\n%s\n' "$prompt" "$prompt" | launcher --mode tp-cpu --ranks 2 --checkpoint gemma3 --max-new-tokens 24 --ignore-eos --quiet --no-bind \
    --max-num-seqs 1 --prompts - --stream json --out cached >events || fail "the same prompt twice"
[ "$(ids cached/results.json | tail -n 1)" = "$(tail -n 1 wanted)" ] || fail "from the cache: $(ids cached/results.json)"
grep -qE '"cached_tokens": ?[1-9]' events || fail "nothing was cached: $(grep cached events)"

for ranks in 1 4; do
    plan_has_parameters of-1 --checkpoint gemma3 --decode --ranks "$ranks" --tensor "$ranks" --precision bfloat16
done

refused "gemma3_text runs on CPUs only" launcher --quiet --mode tp-nccl --checkpoint gemma3 --prompt hello
refused "4 heads, and 1 of keys and values, cannot be cut between 3 ranks; it can between 1, 2, 4" launcher --quiet \
    --mode tp-cpu --ranks 3 --checkpoint gemma3 --prompt hello

cat >shape/config.json <<'END_CONFIG'
{"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "vocab_size": 640, "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "rms_norm_eps": 1e-6, "rope_theta": 5000000.0,
 "max_position_embeddings": 256, "hidden_act": "silu", "no_rope_layers": [1, 1, 1, 0], "use_sliding_window": false, "sliding_window": null}
END_CONFIG
random-checkpoint smollm3 "$tokenizer" --like shape --bfloat16 >/dev/null
grep -q '"no_rope_layer_interval": 4' smollm3/config.json || fail "the layers without rope are not written: $(cat smollm3/config.json)"
run smollm3-1 --checkpoint smollm3 --ranks 1
for ranks in 2 4; do
    run "smollm3-$ranks" --checkpoint smollm3 --ranks "$ranks"
    cmp smollm3-1.text "smollm3-$ranks.text" || fail "$ranks ranks draw otherwise than one from a SmolLM3"
done
echo "gemma3: passed"
