#!/usr/bin/env bash
# Chats with a model of Qwen2's kind: --chat, lines with messages and HTTP requests draw the tokens of the
# same text with its marks written by hand. A checkpoint without a template is refused.
#   chat.sh BIN TOKENIZER SCRATCH
tokenizer=$2
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$3"
trap '[ -z "$server" ] || kill "$server"' EXIT

cat >shape/config.json <<'END_CONFIG'
{"model_type": "qwen2", "vocab_size": 544, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "max_position_embeddings": 128,
 "hidden_act": "silu", "tie_word_embeddings": false}
END_CONFIG
random-checkpoint model "$tokenizer" --like shape
cat >model/tokenizer_config.json <<'END_TEMPLATE'
{"model_max_length": 1000000000000000019884624838656,
 "chat_template": [{"name": "other", "template": ""}, {"name": "default", "template":
 "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}{% endif %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}"}]}
END_TEMPLATE

run() { # DIRECTORY ARGUMENTS...
    launcher --mode tp-cpu --checkpoint model --max-new-tokens 12 --quiet --no-bind --out "$@" >out 2>err || fail "$*: $(cat err)"
}
cat >whole.jsonl <<'END_PROMPTS'
{"prompt": "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nWhat is a ring?<|im_end|>\n<|im_start|>assistant\n"}
{"prompt": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n\u00e9<|im_end|>\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n"}
END_PROMPTS
run by-hand --ranks 2 --special-tokens --prompts whole.jsonl
run flag --ranks 2 --chat --prompt "What is a ring?"
[ "$(tokens flag)" = "$(tokens by-hand | head -n 2)" ] || fail "--chat draws $(tokens flag), and not $(tokens by-hand)"
grep -q '"prompt": "What is a ring?"' flag/results.json || fail "the record does not have what was asked"
run alone --mode generate --ranks 1 --chat --prompt "What is a ring?"
[ -s out ] || fail "--mode generate prints no answer"
cat >lines.jsonl <<'END_LINES'
{"messages": [{"role": "user", "content": "What is a ring?"}]}
{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "assistant", "content": "\u00e9", "refusal": null}, {"role": "user", "content": "b"}]}
END_LINES
run lines --ranks 2 --prompts - <lines.jsonl
[ "$(tokens lines)" = "$(tokens by-hand)" ] || fail "lines with messages draw $(tokens lines), and not $(tokens by-hand)"

# ---- over HTTP
serve() { serve_model model --ranks "${ranks:-2}" "$@"; }
ask() { curl -sS --max-time 60 "$(cat served/serve.url)/v1/$1" -d "$2"; }
of() { grep -oE "\"$1\":(\"([^\"\\\\]|\\\\.)*\"|[0-9]+|null)" | head -n 1 | cut -d: -f2-; }
messages='"messages": [{"role": "user", "content": "What is a ring?"}]'

serve --special-tokens
ask completions "{\"max_tokens\": 12, $(head -n 1 whole.jsonl | cut -c 2-)" >completion
ask chat/completions "{\"max_completion_tokens\": 12, $messages}" >chat
[ "$(of content <chat)" = "$(of text <completion)" ] || fail "a chat is answered by $(cat chat), and its text by $(cat completion)"
[ "$(of prompt_tokens <chat)" = "$(of prompt_tokens <completion)" ] || fail "the prompt's tokens: $(cat chat), $(cat completion)"
grep -q '"object":"chat.completion"' chat || fail "a chat's answer: $(cat chat)"
ask chat/completions "{\"max_tokens\": 12, \"stream\": true, $messages}" >stream
grep -q '"delta":{"role":"assistant","content":""}' stream || fail "a stream does not say whose message it is: $(cat stream)"
grep -q '"object":"chat.completion.chunk"' stream || fail "a stream's pieces: $(cat stream)"
tail -n 2 stream | grep -q 'data: \[DONE\]' || fail "a stream has no end: $(cat stream)"
pieces=$(grep -oE '"delta":\{"content":"([^"\\]|\\.)*"' stream | sed -E 's/^"delta":\{"content":"(.*)"$/\1/' | tr -d '\n')
[ "\"$pieces\"" = "$(of content <chat)" ] || fail "a stream has $pieces, the answer is $(of content <chat)"

# ---- log-probabilities: of each token, also in pieces, and null where nobody asks
grep -q '"logprobs":null' chat || fail "log-probabilities that nobody has asked for: $(cat chat)"
ask chat/completions "{\"max_tokens\": 12, \"ignore_eos\": true, \"logprobs\": true, \"top_logprobs\": 2, $messages}" >logprobs
entry='\{"token":"([^"\\]|\\.)*","logprob":-[0-9.e-]+,"bytes":(\[[0-9,]+\]|null)'
[ "$(grep -oE "$entry,\"top_logprobs\":\[$entry\},$entry\}\]\}" logprobs | wc -l)" = 12 ] || fail "a chat's log-probabilities: $(cat logprobs)"
grep -q '"refusal":null' logprobs || fail "a chat's log-probabilities: $(cat logprobs)"
ask chat/completions "{\"max_tokens\": 12, \"ignore_eos\": true, \"logprobs\": true, \"top_logprobs\": 2, \"stream\": true, $messages}" >stream
[ "$(grep -oE "$entry" stream)" = "$(grep -oE "$entry" logprobs)" ] || fail "a stream has other log-probabilities: $(cat stream logprobs)"
ask chat/completions "{\"max_tokens\": 12, \"ignore_eos\": true, \"logprobs\": true, $messages}" >logprobs
[ "$(grep -oE "$entry,\"top_logprobs\":\[\]\}" logprobs | wc -l)" = 12 ] || fail "a chat's own log-probabilities: $(cat logprobs)"
end

# ---- several answers: each with its index, whole and in pieces, and the prompt's tokens counted once
serve
several="\"max_tokens\": 12, \"ignore_eos\": true, \"temperature\": 1, \"seed\": 3, \"n\": 2, \"reasoning_effort\": \"low\", $messages"
ask chat/completions "{$several}" >several
[ "$(grep -oE '"index":[0-9]' several | tr -d '\n')" = '"index":0"index":1' ] || fail "two answers: $(cat several)"
[ "$(of completion_tokens <several)" = 24 ] || fail "the tokens of two answers: $(cat several)"
[ "$(of prompt_tokens <several)" = "$(of prompt_tokens <chat)" ] || fail "the prompt's tokens: $(cat several)"
ask chat/completions "{\"stream\": true, $several}" >stream
for index in 0 1; do
    pieces=$(grep -oE '"index":'$index',"delta":\{"content":"([^"\\]|\\.)*"' stream | sed -E 's/^.*"content":"(.*)"$/\1/' | tr -d '\n')
    grep -qF "\"index\":$index,\"message\":{\"role\":\"assistant\",\"content\":\"$pieces\"}" several || fail "answer $index as a stream: $pieces, and whole: $(cat several)"
    [ "$(grep -cE "\"index\":$index,\"delta\":\{\"role\":\"assistant\"" stream)" = 1 ] || fail "answer $index does not say whose message it is: $(cat stream)"
    [ "$(grep -cE "\"index\":$index,.*\"finish_reason\":\"length\"" stream)" = 1 ] || fail "answer $index has no end: $(cat stream)"
done
end

# ---- what a user types is no mark, and the answer may be as long as there is room for
serve
ask chat/completions '{"messages": [{"role": "user", "content": "<|im_end|>"}], "ignore_eos": true}' >typed
[ "$(of prompt_tokens <typed)" -gt 25 ] || fail "a mark that was typed is one: $(cat typed)"
[ "$(of total_tokens <typed)" = 128 ] || fail "the answer ends too early: $(cat typed)"
request_refused() { # SAYS BODY [PATH]
    ask "${3:-chat/completions}" "$2" >reply
    grep -q "$1" reply || fail "not refused with \"$1\", but: $(cat reply)"
}
request_refused '"param":"messages"' '{}'
request_refused 'must be a list of messages' '{"messages": "a"}'
request_refused 'a chat has messages' '{"prompt": "a"}'
request_refused 'v1/chat/completions takes them' "{$messages}" completions
request_refused 'message 0: it has no role' '{"messages": [{"content": "a"}]}'
request_refused 'message 1: its role must be' '{"messages": [{"role": "user", "content": "a"}, {"role": "tools", "content": "[]"}]}'
request_refused 'message 0: its content' '{"messages": [{"role": "user"}]}'
request_refused 'message 0: its content' '{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}'
request_refused 'message 0: audio: this is not supported' '{"messages": [{"role": "user", "content": "a", "audio": {"id": "b"}}]}'
request_refused '"param":"chat_template_kwargs"' "{\"chat_template_kwargs\": {\"date_string\": \"a\"}, $messages}"
request_refused 'chat_template_kwargs: a completion has no such' '{"chat_template_kwargs": {}, "prompt": "a"}' completions
request_refused '"param":"top_logprobs"' "{\"top_logprobs\": 2, $messages}"
request_refused '"param":"top_logprobs"' "{\"logprobs\": true, \"top_logprobs\": 21, $messages}"
request_refused '"param":"logprobs"' "{\"logprobs\": 2, $messages}"
request_refused '"param":"tools"' "{\"tools\": [{}], $messages}"
request_refused '"param":"response_format"' "{\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"schema\": {\"multipleOf\": 1}}}, $messages}"
request_refused '"param":"response_format"' "{\"response_format\": {\"type\": \"json_object\"}, \"ignore_eos\": true, $messages}"
for role in system developer; do
    ask chat/completions '{"max_tokens": 12, "messages": [{"role": "'$role'", "content": "Be brief."}, {"role": "user", "content": "a", "name": "b"}]}' >$role
done
[ "$(of content <developer)" = "$(of content <system)" ] || fail "a developer's message is no system message: $(cat developer)"
ask chat/completions "{\"tools\": [], \"tool_choice\": \"none\", \"response_format\": {\"type\": \"text\"}, \"top_logprobs\": 0, \"chat_template_kwargs\": {\"enable_thinking\": false}, \"max_tokens\": 1, $messages}" |
    grep -q '"choices"' || fail "what changes nothing is refused"
request_refused '"param":"messages"' "{\"messages\": [{\"role\": \"user\", \"content\": \"$(printf 'a %.0s' {1..200})\"}]}"
end

# ---- a chat that goes on: what was computed of it is not computed again, and changes nothing
turns() { # the first question; then with its answer, and another question
    ask chat/completions "{\"max_tokens\": 24, \"ignore_eos\": true, \"temperature\": 1.5, \"seed\": 4, $messages}" >first
    ask chat/completions "{\"max_tokens\": 24, \"ignore_eos\": true, \"temperature\": 1.5, \"seed\": 5, ${messages%]}, {\"role\": \"assistant\", \"content\": $(of content <first)}, {\"role\": \"user\", \"content\": \"More?\"}]}" >second
}
serve
turns
cp first cached-first && cp second cached-second
[ "$(of cached_tokens <first)" = 0 ] || fail "something is cached of the first question: $(cat first)"
[ "$(of cached_tokens <second)" -ge 32 ] || fail "nothing is cached of the second question: $(cat second)"
curl -sS "$(cat served/serve.url)/metrics" | grep -q "^ringfence_cached_prompt_tokens_total $(of cached_tokens <second)\$" || fail "the metrics do not count it"
end
serve --no-prefix-cache
turns
[ "$(of cached_tokens <second)" = 0 ] || fail "--no-prefix-cache: $(cat second)"
for turn in first second; do
    [ "$(of content <"$turn")" = "$(of content <"cached-$turn")" ] || fail "what is cached changes the $turn answer: $(cat "$turn" "cached-$turn")"
done
end

# ---- an answer in a form, with a bias and a penalty: the same on any number of ranks, with drafts of both kinds, and with its log-probabilities; max_tokens cuts it
form='"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "required": ["a", "b"], "properties": {
 "a": {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 1, "maxItems": 2}, "b": {"type": ["integer", "null"]}}}}}'
blank='(\\[nt]| )*'
colour='\\"(red|green)\\"'
whole="^\"$blank\\{$blank\\\\\"a\\\\\":$blank\\[$blank$colour(,$blank$colour)?$blank\\],$blank\\\\\"b\\\\\":$blank(-?[0-9]+|null)$blank\\}\"\$"
forms() { # NAME
    ask chat/completions "{\"max_tokens\": 100, \"temperature\": 1.5, \"seed\": 4, \"n\": 2, \"logit_bias\": {\"65\": 9, \"66\": -9}, \"repetition_penalty\": 1.2, \"logprobs\": true, $form, $messages}" >"$1"
    grep -oE '"content":"([^"\\]|\\.)*"|"finish_reason":"[a-z]+"' "$1" >"$1.answers"
}
serve
forms two
[ "$(grep -c '"finish_reason":"stop"' two.answers)" = 2 ] || fail "answers in a form do not end: $(cat two)"
[ "$(grep content two.answers | cut -d: -f2- | grep -cE "$whole")" = 2 ] || fail "answers are not in their form: $(cat two)"
bounded() { # SCHEMA REGULAR-EXPRESSION
    for seed in 1 2 3; do
        ask chat/completions "{\"max_tokens\": 100, \"temperature\": 1.5, \"seed\": $seed, \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"a\", \"schema\": $1}}, $messages}" >reply
        of content <reply | grep -qE "^\"$blank($2)\"\$" || fail "$1: $(of content <reply)"
    done
}
bounded '{"type": "string", "pattern": "^[A-F]\\d{1,2}$|^no$"}' '\\"([A-F][0-9]{1,2}|no)\\"'
bounded '{"type": "string", "pattern": "^[a-z ]*$", "minLength": 2, "maxLength": 4}' '\\"[a-z ]{2,4}\\"'
bounded '{"type": "integer", "minimum": 3, "exclusiveMaximum": 15}' '[3-9]|1[0-4]'
bounded '{"type": "number", "exclusiveMinimum": -1, "maximum": 0}' '-?0(\.[0-9]+)?'
ask chat/completions "{\"max_tokens\": 3, \"response_format\": {\"type\": \"json_object\"}, $messages}" | grep -q '"finish_reason":"length"' || fail "max_tokens does not cut"
end
same_forms() { # NAME
    [ "$(sed 's/"id":"[^"]*","object":"[^"]*","created":[0-9]*//' "$1")" = "$(sed 's/"id":"[^"]*","object":"[^"]*","created":[0-9]*//' two)" ] || fail "$1 has other answers: $(cat "$1" two)"
}
ranks=1 serve --speculate 3
forms one
same_forms one
end
ranks=4 serve --draft model
forms four
same_forms four
end

# ---- a template in other words, which refuses some chats itself
cat >model/chat_template.jinja <<'END_TEMPLATE'
{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('No system, please.') }}{% endif %}[{{ m.role }}] {{ m.content }}<|im_end|>{% endfor %}
END_TEMPLATE
serve
ask chat/completions "{\"max_tokens\": 2, $messages}" >reply
[ "$(of prompt_tokens <reply)" -gt 0 ] || fail "another template: $(cat reply)"
request_refused 'No system, please.' '{"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]}'
end
rm model/chat_template.jinja

# ---- a template that asks for the day: the same on each rank, as if it stood in a chat; without one it is refused
echo '{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %}' >model/chat_template.jinja
run written --ranks 2 --chat --prompt "a Monday 30 November 2026 09:05"
grep -q '"chat_date": null' written/manifest.json || fail "the record has a day that nobody has given"
refused '--chat-date: the checkpoint.s chat template does not ask for the day' launcher --mode tp-cpu --checkpoint model --chat --chat-date today --prompt a --quiet --no-bind --out none
echo '{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %} {{ strftime_now("%A %d %B %Y %H:%M") }}' >model/chat_template.jinja
refused 'say it with --chat-date DATE, or --chat-date today' launcher --mode tp-cpu --checkpoint model --chat --prompt a --quiet --no-bind --out none
run dated --ranks 2 --chat --chat-date 2026-11-30T09:05 --prompt a
[ "$(tokens dated)" = "$(tokens written)" ] || fail "a given day draws $(tokens dated), and not $(tokens written)"
grep -q '"chat_date": "2026-11-30T09:05"' dated/manifest.json || fail "the record does not have the day"
serve --chat-date today
ask chat/completions "{\"max_tokens\": 2, $messages}" >reply
[ "$(of prompt_tokens <reply)" -gt 0 ] || fail "a server with a day: $(cat reply)"
end
grep -qE '"chat_date": "20[0-9]{2}-[0-9]{2}-[0-9]{2}T00:00"' served/manifest.json || fail "the server's record does not have the day"
rm model/chat_template.jinja

# ---- a checkpoint that does not say how, or in what is no program
rm model/tokenizer_config.json
refused 'no chat template' launcher --mode tp-cpu --checkpoint model --chat --prompt a --quiet --no-bind --out none
echo '[INST] {{ messages[0].content | shout }} [/INST]' >model/chat_template.jinja
serve
request_refused 'shout' "{$messages}"
grep -q '"param":"messages"' reply || fail "the error does not name the field: $(cat reply)"
end
grep -q 'chats are refused: .*shout' serve.log || fail "no warning of the template: $(cat serve.log)"
rm model/chat_template.jinja
echo '{"chat_template": ' >model/tokenizer_config.json
serve
request_refused 'template cannot be read' "{$messages}"
grep -q 'tokenizer_config' reply && fail "a client is told a path: $(cat reply)"
end
grep -q 'chats are refused: .*/tokenizer_config.json: line' serve.log || fail "no warning of the file: $(cat serve.log)"
echo "chat: passed"
