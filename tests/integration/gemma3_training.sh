#!/usr/bin/env bash
# Trains Gemma 3s: every layout gives the parameters of one rank, and what is written is the Gemma 3 that was read. One
# learns chats, all of it or by adapters, and answers as they do on each number of ranks. What cannot be is refused.
#   gemma3_training.sh BIN MODEL TOKENIZER SCRATCH
model=$2
tokenizer=$3
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$4"

mkdir gemma3
cp "$model/config.json" "$model/model.safetensors" gemma3/
cp "$tokenizer" gemma3/tokenizer.json
# Gemma's turns, with marks that this tokenizer has.
cat >gemma3/chat_template.jinja <<'END_TEMPLATE'
{{ bos_token }}{% for m in messages %}{% if m['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = m['role'] %}{% endif %}
{{ '<late>' + role + '\n' + m['content'] | trim + '</s>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<late>model\n' }}{% endif %}
END_TEMPLATE
echo '{"bos_token": "<s>", "eos_token": "</s>"}' >gemma3/tokenizer_config.json
cat >chats.jsonl <<'END_CHATS'
{"messages": [{"role": "user", "content": "What is a ring?"}, {"role": "assistant", "content": "Ranks in a circle."}]}
{"messages": [{"role": "user", "content": "What is a tree?"}, {"role": "assistant", "content": "Ranks in pairs, and these in pairs again, up to the last one."}]}
END_CHATS

train() { # OUT ARGUMENTS...
    launcher --data chats.jsonl --batch 1 --lr 1e-2 --no-scaling --quiet --no-bind --out "$@" 2>err || fail "$*: $(cat err)"
}
same() { # OUT OF
    cmp "$1/model.safetensors" "$2/model.safetensors" || fail "$1 is another model than $2"
}

# Nothing is learned: what is written draws the tokens of transformers, which are of texts longer than the window.
train still --checkpoint gemma3 --lr 0 --steps 1
sed 's/"prompt_token_ids.*/}/; s/, }$/}/' "$model/tokens.json" >prompts.jsonl
launcher --mode tp-cpu --checkpoint still --max-new-tokens 24 --ignore-eos --quiet --no-bind --prompts prompts.jsonl --out drawn >out
ids drawn/results.json | cmp -s - <(ids "$model/tokens.json") || fail "what is written has other tokens: $(ids drawn/results.json)"
for key in '"model_type": "gemma3_text"' '"dtype": "bfloat16"' Gemma3ForCausalLM '"sliding_window": 16' '"query_pre_attn_scalar": 12'; do
    grep -q "$key" still/config.json || fail "the model that is written has no $key: $(cat still/config.json)"
done
for name in self_attn.k_norm post_attention_layernorm pre_feedforward_layernorm post_feedforward_layernorm; do
    grep -aq "model.layers.6.$name.weight" still/model.safetensors || fail "no $name in what is written"
done

few=(--checkpoint gemma3 --steps 4)
train one "${few[@]}" --ranks 1 --micro-batches 4
train two "${few[@]}" --ranks 2 --micro-batches 2 --zero 3 --recompute
same two one
train stages "${few[@]}" --mode pp-cpu --ranks 2 --micro-batches 4 --pipeline 1f1b --recompute
same stages one
train split "${few[@]}" --mode pp-cpu --ranks 3 --micro-batches 4 --pipeline zb-h1
same split one
train resumed --checkpoint gemma3 --steps 2 --ranks 4 --save-every 2
train resumed "${few[@]}" --ranks 4 --save-every 2 --resume
same resumed one
cmp -s one/model.safetensors still/model.safetensors && fail "nothing was learnt"

# One whose heads of keys and values can be cut.
cat >shape/config.json <<'END_CONFIG'
{"model_type": "gemma3_text", "vocab_size": 640, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
 "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16, "rms_norm_eps": 1e-6, "sliding_window": 12,
 "query_pre_attn_scalar": 20, "max_position_embeddings": 128, "_sliding_window_pattern": 2}
END_CONFIG
random-checkpoint heads "$tokenizer" --like shape
cp gemma3/chat_template.jinja gemma3/tokenizer_config.json heads/
few=(--checkpoint heads --steps 4)
train heads-one "${few[@]}" --ranks 1 --micro-batches 2
train tensor "${few[@]}" --mode pp-cpu --ranks 2 --tensor 2 --micro-batches 2 --recompute
same tensor heads-one
train cube "${few[@]}" --mode pp-cpu --ranks 4 --stages 2 --tensor 2 --micro-batches 2
same cube heads-one
train context "${few[@]}" --ranks 2 --context-ranks 2 --micro-batches 2
train context-tensor "${few[@]}" --mode pp-cpu --ranks 4 --context-ranks 2 --tensor 2 --micro-batches 2 --recompute
same context-tensor context

# Chats are answered as they were learned, whatever the ranks.
answers() { # ARGUMENTS...
    launcher --mode tp-cpu --quiet --no-bind --max-new-tokens 40 --chat --prompt "What is a ring?" --prompt "What is a tree?" "$@" 2>err || fail "$*: $(cat err)"
}
expected=$'Ranks in a circle.\nRanks in pairs, and these in pairs again, up to the last one.'
train whole --checkpoint gemma3 --ranks 2 --steps 40
lora=(--checkpoint gemma3 --lora 8 --lora-targets all-linear --steps 100)
train adapters "${lora[@]}" --ranks 2
train adapters-one "${lora[@]}" --ranks 1 --micro-batches 2
cmp adapters/adapter_model.safetensors adapters-one/adapter_model.safetensors || fail "one rank trains other adapters than two"
for ranks in 1 4; do
    for what in "--checkpoint whole" "--checkpoint gemma3 --adapter adapters"; do
        # shellcheck disable=SC2086
        [ "$(answers $what --ranks $ranks)" = "$expected" ] || fail "$ranks ranks, $what: $(answers $what --ranks $ranks)"
    done
done
[ "$(answers --checkpoint gemma3)" != "$expected" ] || fail "the model knew the answers"

plan_has_parameters drawn --checkpoint gemma3 --ranks 2

teach() { launcher --data chats.jsonl --steps 1 --quiet --out none "$@"; }
refused "mode ddp-nccl: gemma3_text runs on CPUs only" teach --mode ddp-nccl --checkpoint gemma3
refused "4 heads, and 1 of keys and values, cannot be cut between 2 ranks; it can between 1" teach \
    --mode pp-cpu --ranks 2 --tensor 2 --checkpoint gemma3
refused "the model has no experts" teach --ranks 2 --expert-ranks 2 --checkpoint gemma3
echo "gemma3-training: passed"
