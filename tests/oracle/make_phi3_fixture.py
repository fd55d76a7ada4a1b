#!/usr/bin/env python3
"""Makes phi3.fixture: what transformers computes for tests/rank/model/test_decode.c and test_oracle.c of tiny random
Phi-3s and a Llama with longrope: logits, losses and gradients of a text, as make_llama_fixture.py has them, but with all
tokens in one pass, so that transformers takes the same factors for all of them. And the directory phi3, for
tests/integration/phi3.sh: a tiny random Phi-3 as transformers writes it, in bfloat16, and the tokens that it draws
behind texts, in tokens.json; and longrope.json, another config.json for the same weights, with longrope and heads of
which a part is turned, and what it draws in short_tokens.json and long_tokens.json. Models run in float64. Needs numpy,
torch, transformers and tokenizers.

    python make_phi3_fixture.py [directory]
"""
import copy
import json
import os
import sys

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, Phi3Config, Phi3ForCausalLM

from make_model_fixtures import put

LENGTH = 23
SHAPE = dict(vocab_size=37, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, rms_norm_eps=1e-5, max_position_embeddings=24, tie_word_embeddings=True)
PHI3 = SHAPE | dict(pad_token_id=None, bos_token_id=0, eos_token_id=0)
MODELS = {
    # a text longer than the original context
    "phi3-long": lambda: Phi3ForCausalLM(Phi3Config(
        **PHI3, original_max_position_embeddings=12, partial_rotary_factor=0.75, rope_theta=500.0,
        rope_scaling=dict(type="longrope", short_factor=[1.0, 1.1, 1.3], long_factor=[0.75, 2.25, 5.0]))),
    # and one that is not
    "phi3-short": lambda: Phi3ForCausalLM(Phi3Config(
        **PHI3, original_max_position_embeddings=24, partial_rotary_factor=0.5,
        rope_scaling=dict(type="longrope", short_factor=[1.0, 1.5], long_factor=[3.0, 4.0], attention_factor=1.25))),
    "longrope": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE | dict(rope_parameters=dict(
        rope_type="longrope", rope_theta=1e4, factor=8.0, original_max_position_embeddings=16,
        short_factor=[1.0, 1.0, 1.0, 1.0], long_factor=[1.0, 1.5, 2.0, 4.0])))),
}
PROMPTS = ["The quick brown fox", "int main(void) { return 42; }"]
LONG_PROMPT = "the quick brown fox jumps over the lazy dog, and the dog is not lazy any more; " * 2
LONGROPE = dict(partial_rotary_factor=0.75, rope_theta=1e4, original_max_position_embeddings=64, sliding_window=None,
                rope_scaling=dict(type="longrope", short_factor=[1.0, 1.25], long_factor=[2.0, 8.0]))


def fill(model, rng):
    """Random parameters, with their names."""
    flat = []
    for name, parameter in model.named_parameters():
        values = (rng.normal(0, 0.25, parameter.shape) + ("norm" in name)).astype(np.float32)
        parameter.data.copy_(torch.tensor(values, dtype=torch.float64))
        flat.append((name, values))
    return flat


# The tensors of a layer, in the order in which our array has them. Queries, keys and values stand one behind the other
# in a Phi-3's matrix, and gate and up in another, so its numbers have the order of a Llama's.
PARTS = ["input_layernorm", "qkv_proj", "q_proj", "k_proj", "v_proj", "o_proj", "post_attention_layernorm",
         "gate_up_proj", "gate_proj", "up_proj", "down_proj"]


def place(name):
    """Where a tensor stands in the array of all parameters."""
    words = name.split(".")
    if words[1] != "layers":
        return (0 if words[1] == "embed_tokens" else 2, 0, 0)
    return (1, int(words[2]), PARTS.index(words[-2]))


def write_fixture(directory):
    rng = np.random.default_rng(31)
    with open(os.path.join(directory, "phi3.fixture"), "wb") as file:
        for which, make in MODELS.items():
            model = make().double().eval()
            flat = sorted(fill(model, rng), key=lambda of: place(of[0]))
            ids = [int(i) for i in rng.integers(0, SHAPE["vocab_size"], LENGTH)]
            targets = [-1 if i % 4 == 3 else int((id * 5 + 3) % SHAPE["vocab_size"]) for i, id in enumerate(ids)]
            logits = model(torch.tensor([ids])).logits[0]
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor(targets), ignore_index=-1, reduction="sum")
            loss.backward()
            found = dict(model.named_parameters())
            put(file, which + ".params", np.concatenate([values.reshape(-1) for _, values in flat]))
            put(file, which + ".ids", ids)
            put(file, which + ".logits", logits.detach().numpy())
            put(file, which + ".targets", targets)
            put(file, which + ".loss", np.array([loss.item()]))
            put(file, which + ".grads", np.concatenate([found[name].grad.numpy().reshape(-1) for name, _ in flat]))


def write_tokens(path, model, tokenizer, prompts):
    with open(path, "w") as file:
        for prompt in prompts:
            ids = tokenizer.encode(prompt).ids
            out = model.generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False, eos_token_id=None)
            print(json.dumps({"prompt": prompt, "prompt_token_ids": ids, "token_ids": out[0, len(ids):].tolist()}),
                  file=file)
            print("%s: %d tokens" % (os.path.basename(path), out.shape[1]))


def main():
    here = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    write_fixture(here)
    directory = os.path.join(here, "phi3")
    tokenizer = Tokenizer.from_file(os.path.join(here, "hub_llama2.json"))
    torch.manual_seed(29)
    shape = dict(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=24, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=1,
        eos_token_id=2)
    model = Phi3ForCausalLM(Phi3Config(**shape, sliding_window=100, original_max_position_embeddings=128))
    with torch.no_grad():
        for name, values in model.named_parameters():
            values.normal_(1 if "norm" in name else 0, 0.25)
    model = model.to(torch.bfloat16).eval()
    model.save_pretrained(directory)
    os.remove(os.path.join(directory, "generation_config.json"))
    write_tokens(os.path.join(directory, "tokens.json"), model.double(), tokenizer, PROMPTS)
    other = Phi3ForCausalLM(Phi3Config(**shape, **copy.deepcopy(LONGROPE))).double().eval()
    other.load_state_dict(model.state_dict())
    with open(os.path.join(directory, "longrope.json"), "w") as file:
        json.dump(dict(model_type="phi3", hidden_act="silu", **shape, **LONGROPE), file, indent=2)
        file.write("\n")
    write_tokens(os.path.join(directory, "short_tokens.json"), other, tokenizer, PROMPTS)
    write_tokens(os.path.join(directory, "long_tokens.json"), other, tokenizer, [LONG_PROMPT])


if __name__ == "__main__":
    main()
