#!/usr/bin/env bash
# random-checkpoint: what it refuses before it draws, and what its directory says of a tokenizer of Llama 3's kind.
#   random_checkpoint.sh BIN TOKENIZER SCRATCH
oracle=$(dirname "$2")
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$3"
mkdir like

refused() { # SAYS ARGUMENTS...
    says=$1
    shift
    random-checkpoint "$@" >out 2>err && fail "$* is not refused"
    grep -qF -- "$says" err || fail "$*: $(cat err), and not: $says"
}
shape="--width 32 --layers 1 --heads 2 --context 64"

# shellcheck disable=SC2086
{
    refused "has 512 tokens, the model only 100" few "$oracle/tokenizer.json" $shape --vocab-size 100
    [ ! -e few ] || fail "a directory was made for a model that cannot be"
    refused "take fewer --layers or a smaller --width" huge "$oracle/tokenizer.json" --width 16384 --layers 512 --heads 128
    grep -qF "parameters take " err || fail "it does not say what a huge model takes: $(cat err)"
    [ ! -e huge ] || fail "a directory was made for a model that has no room"
    refused "cannot open none.json" few none.json $shape --vocab-size 512
    grep -q "none.json.*none.json" err && fail "a missing tokenizer is named twice: $(cat err)"
    random-checkpoint model "$oracle/tokenizer.json" $shape --vocab-size 512
    cp model/model.safetensors kept
    refused "model has a model: name another directory, or --overwrite it" model "$oracle/tokenizer.json" $shape --vocab-size 512 --seed 2
    cmp model/model.safetensors kept || fail "a model was written over"
    random-checkpoint model "$oracle/tokenizer.json" $shape --vocab-size 512 --seed 2 --overwrite
    cmp -s model/model.safetensors kept && fail "--overwrite writes nothing"
    touch model/model.safetensors.index.json
    refused "has a model in several files" model "$oracle/tokenizer.json" $shape --vocab-size 512 --overwrite
}

# Its own template puts <|im_start|>, 1, before a text.
cp "$oracle/hub_llama3.json" like/tokenizer.json
echo '{"model_type": "llama", "vocab_size": 544, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
 "num_key_value_heads": 2, "max_position_embeddings": 64}' >like/config.json
echo '{{ messages }}' >like/chat_template.jinja
random-checkpoint drawn "$oracle/hub_llama3.json" --like like
grep -q '"bos_token_id": 1,' drawn/config.json || fail "begins with another token: $(cat drawn/config.json)"
grep -q '"bos_token": "<|im_start|>"' drawn/tokenizer_config.json || fail "calls its beginning otherwise: $(cat drawn/tokenizer_config.json)"
[ ! -e drawn/chat_template.jinja ] || fail "takes the chats of another tokenizer"
random-checkpoint same ./like/../like/tokenizer.json --like like
random-checkpoint --layers 2 before "$oracle/hub_llama3.json" --like like
random-checkpoint behind "$oracle/hub_llama3.json" --like like --layers 2
grep -q '"num_hidden_layers": 2' before/config.json || fail "--like takes back a number that stands before it"
cmp before/model.safetensors behind/model.safetensors || fail "the order of options makes a difference"
refused "--layers: '0' is not a number from 1 to" zero "$oracle/tokenizer.json" --layers 0
cmp like/chat_template.jinja same/chat_template.jinja || fail "leaves out the chat template"
launcher --mode generate --checkpoint same --prompt a --max-new-tokens 1 --quiet >out 2>err || fail "the launcher does not read it: $(cat err)"
echo "random-checkpoint: ok"
