#!/usr/bin/env bash
# Tools that a chat's model may call: a model that has learned a call makes it, whole and in a stream, on one rank and on
# two, and goes on behind its result; and one that has learned nothing makes a valid one where it must. A prompt with tools is its text by hand.
#   chat_tools.sh BIN TOKENIZER SCRATCH
tokenizer=$2
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$3"
trap '[ -z "$server" ] || kill "$server"' EXIT

cat >shape/config.json <<'END_CONFIG'
{"model_type": "qwen2", "vocab_size": 544, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "max_position_embeddings": 512,
 "hidden_act": "silu", "tie_word_embeddings": false}
END_CONFIG
# The marks of calls are added tokens that are not special, as Qwen's are.
sed '0,/"added_tokens": \[/s//&{"id": 542, "content": "<tool_call>", "special": false}, {"id": 543, "content": "<\/tool_call>", "special": false}, /' "$tokenizer" >tokenizer.json
random-checkpoint model tokenizer.json --like shape
cat >model/chat_template.jinja <<'END_TEMPLATE'
{%- if tools %}{{ '<|im_start|>system\nTools:' }}{% for tool in tools %}{{ ' ' + tool | tojson }}{% endfor %}{{ '<|im_end|>\n' }}{% endif %}
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}
{%- for call in m.tool_calls %}{{ '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}{{ call.function.arguments | tojson }}{{ '}</tool_call>' }}{% endfor %}
{{- '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
END_TEMPLATE

tool='{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"$ref": "#/$defs/days"}}, "required": ["city", "days"], "$defs": {"days": {"type": "integer"}}}}}'
cat >chats.jsonl <<END_CHATS
{"tools": [$tool], "messages": [{"role": "user", "content": "Rain in Oslo?"}, {"role": "assistant", "content": "Let me see.", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\", \"days\": 2}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "rain"}, {"role": "assistant", "content": "Yes."}]}
{"tools": "[${tool//\"/\\\"}]", "messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}]}
END_CHATS
launcher --ranks 2 --checkpoint model --data chats.jsonl --context 512 --batch 1 --steps 60 --lr 1e-2 --no-scaling --quiet --no-bind --out taught >taught.log 2>&1 || fail "$(cat taught.log)"

ask() { curl -sS --max-time 60 "$(cat served/serve.url)/v1/chat/completions" -d "{\"tools\": [$tool], $1}"; }
has() { # FILE WHAT...: the text has each
    local what
    for what in "${@:2}"; do
        grep -qF -- "$what" "$1" || fail "no $what in: $(cat "$1")"
    done
}
question='"messages": [{"role": "user", "content": "Rain in Oslo?"}]'
quoted=${tool//\"/\\\"}
arguments='"function":{"name":"weather","arguments":"{\"city\":\"Oslo\",\"days\":2}"}'

for ranks in 1 2; do
    serve_model taught --ranks $ranks
    ask "$question" >whole
    has whole '"message":{"role":"assistant","content":"Let me see.","tool_calls":[{"id":"' "$arguments}]}" '"finish_reason":"tool_calls"'
    ask "\"stream\": true, $question" >stream
    [ "$(grep -oE '"delta":\{"content":"[^"]+"' stream | cut -d'"' -f6 | tr -d '\n')" = "Let me see." ] || fail "a stream with a call says: $(cat stream)"
    has stream '"delta":{"tool_calls":[{"id":"' "$arguments,\"index\":0}]}" '"delta":{},"logprobs":null,"finish_reason":"tool_calls"'
    id=$(grep -oE '"id":"[0-9]{9}"' whole | cut -d'"' -f4)
    called="{\"role\": \"assistant\", \"content\": \"Let me see.\", \"tool_calls\": [{\"id\": \"$id\", \"type\": \"function\", $arguments}]}"
    ask "${question%]}, $called, {\"role\": \"tool\", \"tool_call_id\": \"$id\", \"content\": \"rain\"}]" >words
    has words '"content":"Yes."}' '"finish_reason":"stop"'
    ask '"messages": [{"role": "user", "content": "Hello"}]' >words
    has words '"content":"Hi!"}' '"finish_reason":"stop"'
    end
done

# A prompt with tools, a call and its result has the tokens of the same text; what they say is no mark.
serve_model model --special-tokens
ask "\"max_tokens\": 1, \"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"$id\", \"type\": \"function\", $arguments}]}, {\"role\": \"tool\", \"tool_call_id\": \"$id\", \"content\": \"rain\"}]" >reply
curl -sS "$(cat served/serve.url)/v1/completions" -d "{\"max_tokens\": 1, \"prompt\": \"<|im_start|>system\\nTools: $quoted<|im_end|>\\n<|im_start|>user\\na<|im_end|>\\n<|im_start|>assistant\\n<tool_call>{\\\"name\\\": \\\"weather\\\", \\\"arguments\\\": {\\\"city\\\": \\\"Oslo\\\", \\\"days\\\": 2}}</tool_call><|im_end|>\\n<|im_start|>tool\\nrain<|im_end|>\\n<|im_start|>assistant\\n\"}" >by-hand
[ "$(said reply prompt_tokens)" = "$(said by-hand prompt_tokens)" ] || fail "the prompt's tokens: $(cat reply by-hand)"

# A model that knows nothing makes a valid call where it must.
for choice in '"required"' '{"type": "function", "function": {"name": "weather"}}'; do
    ask "\"max_tokens\": 200, \"temperature\": 1, \"seed\": 3, \"tool_choice\": $choice, $question" >forced
    has forced '"content":null,"tool_calls":[{' '"finish_reason":"tool_calls"'
    grep -qE '"arguments":"\{\\"city\\":\\"(Rome|Oslo)\\",\\"days\\":-?[0-9]+\}"' forced || fail "a call that is not valid: $(cat forced)"
done
ask "\"max_tokens\": 3, \"tool_choice\": \"required\", $question" >cut
has cut '"finish_reason":"length"'
grep -q '"tool_calls"' cut && fail "half a call is none: $(cat cut)"
end

# A template that writes none.
echo '{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}' >model/chat_template.jinja
serve_model model
ask "$question" >reply
has reply "tools: this model's chat template writes none" '"param":"tools"'
end
