#!/usr/bin/env bash
# A Phi-3, whose files have queries, keys and values as one matrix, and gate and up as another: on each number of ranks
# it draws the tokens that transformers has drawn, and so does what is trained of it. The same with longrope, in jobs of
# short texts and of long ones, and with heads of which rope turns a part: their logits have the bits of one rank.
#   phi3.sh BIN MODEL TOKENIZER SCRATCH
model=$2
tokenizer=$3
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$4"

mkdir phi3
cp "$tokenizer" phi3/tokenizer.json
cp "$model/config.json" "$model/model.safetensors" phi3/
cp -r phi3 longrope
cp "$model/longrope.json" longrope/config.json
for kind in tokens short_tokens long_tokens; do
    sed 's/, "prompt_token_ids.*/}/' "$model/$kind.json" >"$kind.jsonl"
    ids "$model/$kind.json" >"$kind.wanted"
    [ "$(wc -l <"$kind.wanted")" -eq $((2 * $(wc -l <"$kind.jsonl"))) ] || fail "the fixture has $(wc -l <"$kind.wanted") lists of tokens"
done
cmp -s tokens.wanted short_tokens.wanted && fail "both models draw the same tokens"

same() { # TOKENS OUT ARGUMENTS...
    launcher --mode tp-cpu --max-new-tokens 24 --ignore-eos --quiet --no-bind --logprobs 2 --prompts "$1.jsonl" --out "${@:2}" >out 2>err ||
        fail "${*:2}: $(cat err)"
    ids "$2/results.json" | cmp -s - "$1.wanted" || fail "${*:2} has other tokens than transformers: $(ids "$2/results.json")"
}
logprobs() { tr -d ' \n' <"$1/results.json" | grep -oE '"logprobs?":-[0-9.e+-]*'; }
equal() { # OUT OTHER
    [ "$(logprobs "$1" | wc -l)" -ge 24 ] || fail "$1 has $(logprobs "$1" | wc -l) log-probabilities"
    cmp -s <(logprobs "$1") <(logprobs "$2") || fail "the log-probabilities of $1 and $2 have other bits"
}
same tokens of-1 --ranks 1 --checkpoint phi3
same tokens of-4 --checkpoint phi3 --ranks 4
for kind in short long; do
    context=$([ $kind = short ] && echo 64 || echo 128)
    for ranks in 1 2 4; do
        same ${kind}_tokens "$kind-$ranks" --checkpoint longrope --context "$context" --ranks "$ranks"
    done
done
# The job's context, and not a text's length, chooses the factors.
launcher --mode tp-cpu --max-new-tokens 24 --ignore-eos --quiet --no-bind --prompts short_tokens.jsonl --checkpoint longrope --context 65 --out mixed >out 2>err ||
    fail "short texts in a job of long ones: $(cat err)"
tokens mixed | cmp -s - short_tokens.wanted && fail "short texts in a job of long ones have the factors of short ones"

# Steps that change nothing: the model is read and written whole, as a Phi-3.
echo '{"text": "a b c d"}' >data.jsonl
train() { # OUT ARGUMENTS...
    launcher --data data.jsonl --loss-on all --context 64 --batch 1 --no-scaling --quiet --no-bind --out "$@" 2>err || fail "no training: $(cat err)"
}
train trained --checkpoint phi3 --steps 1 --lr 0
train trained-longrope --checkpoint longrope --steps 1 --lr 0
for out in trained trained-longrope; do
    grep -q '"model_type": "phi3"' $out/config.json || fail "what is trained is no Phi-3: $(cat $out/config.json)"
    grep -aq '"model.layers.2.self_attn.qkv_proj.weight"' $out/model.safetensors || fail "no qkv_proj in $out"
    grep -aq q_proj $out/model.safetensors && fail "a q_proj in $out"
done
grep -q '"original_max_position_embeddings": 64' trained-longrope/config.json || fail "no longrope is written: $(cat trained-longrope/config.json)"
same tokens of-trained --checkpoint trained
same short_tokens short-trained --ranks 1 --checkpoint trained-longrope --context 64
equal short-1 short-trained
same long_tokens long-trained --ranks 1 --checkpoint trained-longrope
equal long-1 long-trained

# One whose sums can be cut into leaves. What is saved on the way has these matrices, too, and every layout trains the
# model of one rank; every number of ranks decodes with its bits.
cat >shape/config.json <<'END_CONFIG'
{"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "vocab_size": 640, "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "rms_norm_eps": 1e-5, "hidden_act": "silu",
 "max_position_embeddings": 128, "original_max_position_embeddings": 64, "partial_rotary_factor": 0.75, "tie_word_embeddings": true,
 "rope_scaling": {"type": "longrope", "short_factor": [1, 1.25, 1.5], "long_factor": [1, 4, 8]}}
END_CONFIG
random-checkpoint drawn "$tokenizer" --like shape
train one --checkpoint drawn --steps 4 --lr 1e-2 --micro-batches 2
train saved --checkpoint drawn --steps 2 --lr 1e-2 --micro-batches 2 --save-every 2
train saved --checkpoint drawn --steps 4 --lr 1e-2 --micro-batches 2 --save-every 2 --resume
train sharded --checkpoint drawn --steps 4 --lr 1e-2 --ranks 2 --zero 3
train shared --mode pp-cpu --checkpoint drawn --steps 4 --lr 1e-2 --ranks 2 --tensor 2 --micro-batches 2
cmp -s one/model.safetensors drawn/model.safetensors && fail "nothing was learnt"
for out in saved sharded shared; do
    cmp one/model.safetensors $out/model.safetensors || fail "$out: another model than that of one rank"
done
for context in 64 128; do
    for ranks in 1 2 4; do
        launcher --mode tp-cpu --max-new-tokens 24 --ignore-eos --quiet --no-bind --logprobs 2 --prompts tokens.jsonl --checkpoint one --context $context \
            --ranks $ranks --out bits-$context-$ranks >out 2>err || fail "$ranks ranks: $(cat err)"
        equal bits-$context-1 bits-$context-$ranks
    done
done
cmp -s <(logprobs bits-64-1) <(logprobs bits-128-1) && fail "all texts have the same factors"

# Added tokens that take the spaces beside them, as Phi-3's: a chat is answered, and none is learned.
cp -r phi3 strips
sed -i '0,/"rstrip": false/s//"rstrip": true/' strips/tokenizer.json
echo '{% for m in messages %}{{ m.content }}</s>{% endfor %}' >strips/chat_template.jinja
echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}' >chats.jsonl
launcher --mode generate --checkpoint strips --chat --prompt a --max-new-tokens 2 --quiet --no-bind >out 2>err || fail "no answer: $(cat err)"
refused 'no chats are learned with a tokenizer' launcher --checkpoint strips --data chats.jsonl --context 64 --batch 1 --steps 1 --no-scaling --quiet --no-bind --out none

plan_has_parameters of-1 --checkpoint phi3 --decode

refused_changed phi3 'rope turns 3 of a head.s 6 elements' 's/"partial_rotary_factor": 1.0/"partial_rotary_factor": 0.5/'
refused_changed longrope 'short_factor is no list of 3 numbers' 's/"partial_rotary_factor": 0.75/"partial_rotary_factor": 1.0/'
refused_changed longrope 'partial_rotary_factor must be 1' 's/"model_type": "phi3"/"model_type": "llama"/'
refused_changed phi3 'layers.0.self_attn.qkv_proj.weight has another shape' 's/"num_key_value_heads": 2/"num_key_value_heads": 4/'
refused_changed phi3 'layers.0.self_attn.qkv_proj.weight has another shape' 's/"num_key_value_heads": 2/"num_key_value_heads": 1/'
refused_changed phi3 'changed/model.safetensors: tensor model.layers.0.mlp.gate_up_proj.weight has another shape' 's/"intermediate_size": 48/"intermediate_size": 24/'
echo "phi3: passed"
