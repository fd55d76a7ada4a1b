#!/usr/bin/env bash
# Trains a model of Qwen2's kind on chats and on prompts with completions: it then answers as they do, whatever the
# ranks, all of it or adapters alone. What is not the assistant's is not learned.
#   chat_training.sh BIN TOKENIZER SCRATCH
tokenizer=$2
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$3"

cat >shape/config.json <<'END_CONFIG'
{"model_type": "qwen2", "vocab_size": 544, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "max_position_embeddings": 128,
 "hidden_act": "silu", "tie_word_embeddings": false}
END_CONFIG
random-checkpoint model "$tokenizer" --like shape
cp -r model bare
cat >model/tokenizer_config.json <<'END_TEMPLATE'
{"chat_template": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}"}
END_TEMPLATE
cat >chats.jsonl <<'END_CHATS'
{"messages": [{"role": "user", "content": "What is a ring?"}, {"role": "assistant", "content": "Ranks in a circle."}]}
{"messages": [{"role": "user", "content": "What is a tree?"}, {"role": "assistant", "content": "Ranks in pairs."}]}
{"messages": [{"role": "system", "content": "Be loud."}, {"role": "user", "content": "What is a ring?"}, {"role": "assistant", "content": "A CIRCLE."}, {"role": "user", "content": "And a tree?"}, {"role": "assistant", "content": "PAIRS."}]}
{"prompt": "2+3=", "completion": "5"}
END_CHATS

train() { # OUT ARGUMENTS...
    launcher --data chats.jsonl --context 128 --batch 1 --steps 100 --no-scaling --quiet --no-bind --out "$@" >"$1.log" 2>&1 || fail "$*: $(cat "$1.log")"
}
answers() { # ARGUMENTS...
    launcher --mode generate --quiet --no-bind --max-new-tokens 16 "$@" 2>err || fail "$*: $(cat err)"
}
expect() { # ANSWERS ARGUMENTS...
    local expected=$1
    shift
    [ "$(answers "$@")" = "$expected" ] || fail "$* answered $(answers "$@")"
}

train two --ranks 2 --checkpoint model --lr 1e-2 --heldout chats.jsonl --eval-every 50
few=(--steps 12 --checkpoint model --lr 1e-2) # each line several times
train few --ranks 2 "${few[@]}"
train one --ranks 1 --micro-batches 2 "${few[@]}"
launcher compare few one | grep -q '^byte-equal' || fail "one rank trains other parameters than two"
expect $'Ranks in a circle.\nRanks in pairs.' --checkpoint two --chat --prompt "What is a ring?" --prompt "What is a tree?"
expect 5 --checkpoint two --prompt "2+3="
tail -n 1 two/timings.jsonl | grep -q '"heldout_loss": 0\.0' || fail "no held-out loss: $(tail -n 1 two/timings.jsonl)"
grep -q '"first_sentence": "What is a ring? Ranks in a circle. "' two/manifest.json || fail "the record shows no chat"

# the same chats by ShareGPT's names
sed 's/"messages"/"conversations"/; s/"role": "user", "content"/"from": "human", "value"/g; s/"role": "assistant", "content"/"from": "gpt", "value"/g
    s/"role": "system", "content"/"from": "system", "value"/' chats.jsonl >sharegpt.jsonl
grep -q '"from": "gpt", "value": "PAIRS."' sharegpt.jsonl || fail "the names are not replaced"
train shared --ranks 2 "${few[@]}" --data sharegpt.jsonl
launcher compare shared few | grep -q '^byte-equal' || fail "ShareGPT's names train other parameters"

# adapters alone, for the same answers the other way round; and several turns
sed 's/a circle\./in PAIRS/; s/pairs\./a circle./; s/in PAIRS/pairs./' chats.jsonl >swapped.jsonl
train adapted --ranks 2 --checkpoint two --data swapped.jsonl --lora 8 --lora-targets all-linear --lr 1e-2
expect $'Ranks in pairs.\nRanks in a circle.' --checkpoint two --adapter adapted --chat --prompt "What is a ring?" --prompt "What is a tree?"
cat >turns.jsonl <<'END_TURNS'
{"messages": [{"role": "system", "content": "Be loud."}, {"role": "user", "content": "What is a ring?"}, {"role": "assistant", "content": "A CIRCLE."}, {"role": "user", "content": "And a tree?"}]}
END_TURNS
launcher --mode tp-cpu --ranks 2 --checkpoint two --max-new-tokens 16 --quiet --no-bind --prompts - --out turns <turns.jsonl >turns.log 2>&1 || fail "$(cat turns.log)"
grep -q '"text": "PAIRS."' turns/results.json || fail "the second answer is $(cat turns/results.json)"

# pipelines read the same batches
train staged --mode pp-cpu --ranks 2 --stages 2 --micro-batches 2 "${few[@]}"
launcher compare staged few | grep -q '^byte-equal' || fail "a pipeline trains other parameters"

teach() { launcher --ranks 2 --steps 2 --no-scaling --quiet --no-bind --out refused "$@"; }
echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": [{}]}' >tools.jsonl
refused 'tools.jsonl:1: tools: entry 0 must be' teach --checkpoint model --data tools.jsonl
refused '"messages": the checkpoint has no chat template' teach --checkpoint bare --data chats.jsonl
refused '"messages": a chat needs a --checkpoint with a chat template' teach --data chats.jsonl
refused 'prompts and chats are not cut into windows' teach --checkpoint model --data chats.jsonl --windows
refused 'none of the 4 sentences' teach --checkpoint model --data chats.jsonl --context 3

# the day of a template that asks for one is part of the data
cp -r bare dated
echo '{% for m in messages %}{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}{{ strftime_now("%Y") }}' >dated/chat_template.jinja
refused '--chat-date DATE' teach --checkpoint dated --data chats.jsonl
refused '--chat-date: the checkpoint'"'"'s chat template does not ask' teach --checkpoint model --data chats.jsonl --chat-date today
train day --ranks 1 --steps 2 --save-every 1 --checkpoint dated --chat-date 2026-11-30
grep -q '"chat_date": "2026-11-30T00:00"' day/manifest.json || fail "the record does not have the day"
refused 'it was written with --chat-date 2026-11-30T00:00, and this job has 2026-12-01T00:00' teach --ranks 1 --checkpoint dated --data chats.jsonl --context 128 --batch 1 --out day --resume --chat-date 2026-12-01
# a model that is trained in its own directory keeps what is beside it
train day --ranks 1 --steps 1 --checkpoint day --chat-date 2026-11-30 --overwrite
cmp dated/chat_template.jinja day/chat_template.jinja || fail "the template is lost"
tokenizer-learn --vocab-size 275 --out learned.json chats.jsonl >log 2>&1 || fail "tokenizer-learn: $(cat log)"
grep -q '"What"' learned.json || fail "tokenizer-learn has not read the chats"
