#!/usr/bin/env bash
# A Phi-3, whose files have queries, keys and values as one matrix, and gate and up as another: on each number of ranks
# it draws the tokens that transformers has drawn, and so does what is trained of it, which is a Llama.
#   phi3.sh BIN MODEL TOKENIZER SCRATCH
model=$2
tokenizer=$3
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$4"

mkdir phi3
cp "$tokenizer" phi3/tokenizer.json
cp "$model/config.json" "$model/model.safetensors" phi3/
sed 's/, "prompt_token_ids.*/}/' "$model/tokens.json" >prompts.jsonl
ids "$model/tokens.json" >wanted
[ "$(wc -l <wanted)" -eq 4 ] || fail "the fixture has $(wc -l <wanted) lists of tokens"

same() { # OUT ARGUMENTS...
    launcher --mode tp-cpu --max-new-tokens 24 --ignore-eos --quiet --no-bind --prompts prompts.jsonl --out "$@" >out 2>err ||
        fail "$*: $(cat err)"
    ids "$1/results.json" | cmp -s - wanted || fail "$* has other tokens than transformers: $(ids "$1/results.json")"
}
same of-1 --checkpoint phi3
same of-4 --checkpoint phi3 --ranks 4

# Steps that change nothing: the model is read and written whole.
echo '{"text": "a b c d"}' >data.jsonl
launcher --checkpoint phi3 --data data.jsonl --loss-on all --context 64 --batch 1 --steps 1 --lr 0 --no-scaling --quiet --no-bind --out trained 2>err ||
    fail "no training: $(cat err)"
grep -q '"model_type": "llama"' trained/config.json || fail "what is trained is no Llama: $(cat trained/config.json)"
same of-trained --checkpoint trained

# Added tokens that take the spaces beside them, as Phi-3's: a chat is answered, and none is learned.
cp -r phi3 strips
sed -i '0,/"rstrip": false/s//"rstrip": true/' strips/tokenizer.json
echo '{% for m in messages %}{{ m.content }}</s>{% endfor %}' >strips/chat_template.jinja
echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}' >chats.jsonl
launcher --mode generate --checkpoint strips --chat --prompt a --max-new-tokens 2 --quiet --no-bind >out 2>err || fail "no answer: $(cat err)"
launcher --checkpoint strips --data chats.jsonl --context 64 --batch 1 --steps 1 --no-scaling --quiet --no-bind --out none >out 2>err && fail "a chat is learned"
grep -q 'no chats are learned with a tokenizer' err || fail "no chats are learned: $(cat err)"

launcher plan --checkpoint phi3 --decode --json >plan.json || fail "no plan"
[ -n "$(said plan.json parameters)" ] && [ "$(said plan.json parameters)" = "$(said of-1/results.json parameters)" ] ||
    fail "$(said plan.json parameters) parameters are planned, not $(said of-1/results.json parameters)"

refused_changed phi3 'partial_rotary_factor must be 1' 's/"partial_rotary_factor": 1.0/"partial_rotary_factor": 0.75/'
refused_changed phi3 'rope_type "longrope" is none of' 's/^{/{"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0]},/'
refused_changed phi3 'layers.0.self_attn.qkv_proj.weight has another shape' 's/"num_key_value_heads": 2/"num_key_value_heads": 4/'
refused_changed phi3 'layers.0.self_attn.qkv_proj.weight has another shape' 's/"num_key_value_heads": 2/"num_key_value_heads": 1/'
refused_changed phi3 'changed/model.safetensors: tensor model.layers.0.mlp.gate_up_proj.weight has another shape' 's/"intermediate_size": 48/"intermediate_size": 24/'
echo "phi3: passed"
