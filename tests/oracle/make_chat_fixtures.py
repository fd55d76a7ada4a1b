#!/usr/bin/env python3
"""Makes chats.json: chats as Jinja writes them by templates of several models' kinds, also of models that think, and
their ids by the tokenizers library, for tests/rank/data/test_chat.c. Needs jinja2 and tokenizers.

    python make_chat_fixtures.py
"""
import pathlib

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer

import rows

HERE = pathlib.Path(__file__).parent
# the test adds them in this order
HEADERS = ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>", "<end_of_turn>"]
LINES = ["\n", "\n\n"]  # Gemma's has them behind these, and they are not special
CHATML = (r"{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
          r"{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
SYSTEM = r"{% if messages[0].role != 'system' %}{{ 'MARKSYSTEM' }}{% endif %}"
LLAMA3 = (r"{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' "
          r"+ m.content | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
          r"{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
DATES = r"""{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "1 Feb 2003" %}
{%- endif %}
{%- set first = '' %}
{%- if messages[0].role == 'system' %}
    {%- set first = messages[0].content | trim %}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{{- "Cutting Knowledge Date: December 2023\n" }}
{{- "Today Date: " + date_string + "\n\n" }}
{{- first + "<|eot_id|>" }}
{%- for m in messages %}
    {{- '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}
{%- endfor %}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
"""
# Models that think: thoughts leave earlier answers, and stay behind the last question. Two ways to take them.
QUESTION = r"""{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
{%- set index = (messages|length - 1) - loop.index0 %}
{%- if ns.multi_step_tool and message.role == 'user' and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
{%- set ns.multi_step_tool = false %}{%- set ns.last_query_index = index %}{%- endif %}
{%- endfor %}
"""
TAKEN = r"""{%- set reasoning_content = '' %}{%- if '</think>' in content %}
{%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\n') %}
{%- endif %}"""
TAKEN_OF_MESSAGE = r"""{%- set reasoning_content = "" %}
{%- if message.reasoning_content is defined and message.reasoning_content is not none %}
{%- set reasoning_content = message.reasoning_content %}
{%- endif %}
{%- if "</think>" in message.content %}
{%- set content = message.content.split("</think>")[-1].lstrip("\n") %}
{%- set reasoning_content = message.content.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n") %}
{%- endif %}"""
THINKING = QUESTION + r"""{%- for message in messages %}{%- set content = message.content %}
{%- if message.role != 'assistant' %}
    {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
{%- else %}
    MARKTAKEN
    {%- if loop.index0 > ns.last_query_index %}
        {%- if loop.last or (not loop.last and reasoning_content) %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + content }}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"""
INST = r"""{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Roles take turns, and the user begins.') }}{% endif %}
{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}
{% elif m['role'] == 'assistant' %}{{ m['content'] + eos_token + ' ' }}{% endif %}{% endfor %}"""
ZEPHYR = r"""{% for m in messages %}
{% if m['role'] == 'user' %}
{{ '<|user|>\n' + m['content'] + eos_token }}
{% elif m['role'] == 'system' %}
{{ '<|system|>\n' + m['content'] + eos_token }}
{% elif m['role'] == 'assistant' %}
{{ '<|assistant|>\n' + m['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
TURNS = r"""{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('No system.') }}{% endif %}
{% for m in messages %}{% if m['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = m['role'] %}{% endif %}
{{ '<start_of_turn>' + role + '\n' + m['content'] | trim + '<end_of_turn>\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"""
TEMPLATES = {
    "chatml": ("qwen2", "", CHATML),
    "chatml with a system": ("qwen2", "", SYSTEM.replace(
        "MARKSYSTEM", r"<|im_start|>system\nIt\'s a \\box{} for \"you\".<|im_end|>\n") + CHATML),
    "chatml with line ends": ("smollm2", "", (SYSTEM.replace(
        "MARKSYSTEM", r"<|im_start|>system\nYou help.<|im_end|>\n") + CHATML).replace(r"\n", "\n")),
    "chatml behind a token": ("gpt2", "<|endoftext|>", "{{ bos_token }}" + CHATML),
    "thinking": ("qwen2", "", THINKING.replace("MARKTAKEN", TAKEN)),
    "thinking, of messages": ("smollm2", "", THINKING.replace("MARKTAKEN", TAKEN_OF_MESSAGE)),
    "llama 3": ("llama3", "<|endoftext|>", LLAMA3),
    "llama 3, a space before each stretch": ("llama2", "<s>", LLAMA3),
    "llama 3, a space before the text": ("mistral", "<s>", LLAMA3),
    "turns in brackets": ("mistral", "<s>", INST),
    "marks that are no tokens": ("llama2", "<s>", ZEPHYR),
    "another name for the assistant": ("gemma", "<s>", TURNS),
    "llama 3.1": ("llama3", "<|endoftext|>", DATES),
}
CHATS = [
    [("user", "What is a ring all-reduce?")],
    [("user", "\n  It begins with line ends, and ends so. \n\n")],
    [("system", "Be brief."), ("user", "1234 naïve e\u0301"), ("assistant", "中文\n"), ("user", "")],
    [("user", "a"), ("system", "later"), ("user", "b\nc")],
    [("user", "a"), ("assistant", "<think>\nWell.\n</think>\n\nYes.\n"), ("user", "b"), ("assistant", "No.\n")],
]
# Only for those that think.
THOUGHTS = [
    [("system", "Think."), ("user", "a"), ("assistant", "\n\n<think>\n\n x\ny \n\n</think>\n\n\nz"), ("user", "b")],
    [("user", "a"), ("assistant", "<think>b</think>c<think>\n\n</think>\nd"), ("assistant", "e</think>"), ("user", "f")],
    [("user", "a"), ("assistant", "<think>\nb\n</think>\n\nc"), ("user", "<tool_response>d</tool_response>"),
     ("assistant", "\n<think>\n</think>\ne")],
    [("user", "a"), ("assistant", "\nb"), ("assistant", "c<think>d\n<think>\n\n</think>"), ("assistant", "\n\ne\n")],
    [("user", "<tool_response>a</tool_response>b"), ("assistant", "x\n</think>"), ("assistant", "<think>\ny")],
    [("assistant", "<think>a</think>b"), ("assistant", "<think>\na\n</think>\nb")],
]


class Refused(Exception):
    pass


def refuse(message):
    raise Refused(message)


def main():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    made = []
    for name, (kind, begin, template) in TEMPLATES.items():
        tokenizer = Tokenizer.from_file(str(HERE / f"hub_{kind}.json"))
        tokenizer.add_special_tokens(HEADERS)
        if kind == "gemma":
            tokenizer.add_tokens([AddedToken(line, normalized=False) for line in LINES])
        chats = CHATS + (THOUGHTS if "think" in name else [])
        for chat, no_thinking in [(chat, False) for chat in chats] + [(chat, True) for chat in chats[-2:]]:
            messages = [{"role": role, "content": content} for role, content in chat]
            end = "</s>" if begin == "<s>" else begin
            try:
                text = environment.from_string(template).render(messages=messages, bos_token=begin, eos_token=end,
                                                                add_generation_prompt=True,
                                                                **({"enable_thinking": False} if no_thinking else {}))
            except Refused as refused:
                made.append({"name": name, "tokenizer": kind, "bos_token": begin, "eos_token": end,
                             "template": template, "messages": chat, "refused": str(refused)})
                continue
            made.append({"name": name, "tokenizer": kind, "bos_token": begin, "eos_token": end, "template": template,
                         "messages": chat, "no_thinking": no_thinking, "text": text,
                         "ids": tokenizer.encode(text, add_special_tokens=False).ids})
    rows.write(made, HERE / "chats.json")


if __name__ == "__main__":
    main()
