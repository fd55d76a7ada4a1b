#!/usr/bin/env python3
"""Makes gemma3.fixture: what transformers computes for tests/rank/model/test_decode.c and test_oracle.c. Tiny random Gemma
3s decode incrementally, and are trained, as in make_llama_fixture.py; texts are longer than their windows. And the directory gemma3, for
tests/integration/gemma3.sh: a model as transformers writes it, in bfloat16, and the tokens that it draws behind texts,
in tokens.json. Needs numpy, torch, transformers and tokenizers.

    python make_gemma3_fixture.py [directory]

The format is that of make_model_fixtures.py. The models run in float64; results are rounded. The embedding's factor is
that of the type which the model's checkpoint would have.
"""
import json
import os
import sys

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

from make_decode_fixture import decode
from make_model_fixtures import put

LENGTH = 23
SHAPE = dict(vocab_size=37, intermediate_size=48, num_attention_heads=4, max_position_embeddings=24, rms_norm_eps=1e-6,
             pad_token_id=None)
MODELS = {
    "gemma3": (torch.float32, SHAPE | dict(
        hidden_size=20, num_hidden_layers=4, num_key_value_heads=1, head_dim=6, sliding_window=5,
        query_pre_attn_scalar=9, sliding_window_pattern=2, rope_theta=1e5, rope_local_base_freq=100.0)),
    "gemma3-linear": (torch.bfloat16, SHAPE | dict(
        hidden_size=24, num_hidden_layers=3, num_key_value_heads=2, head_dim=18, sliding_window=8,
        query_pre_attn_scalar=18, layer_types=["full_attention"] * 3,
        rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e4),
                             sliding_attention=dict(rope_type="default", rope_theta=1e4)))),
}
# in the order in which our array has them
PARTS = ["input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
         "pre_feedforward_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "self_attn.q_norm",
         "self_attn.k_norm", "post_attention_layernorm", "post_feedforward_layernorm"]


def names(layers):
    return (["model.embed_tokens.weight"] +
            ["model.layers.%d.%s.weight" % (layer, part) for layer in range(layers) for part in PARTS] +
            ["model.norm.weight"])

# Shorter than the window of 16 tokens, longer, and much longer.
PROMPTS = ["The quick brown fox", "int main(void) { return 42; }",
           "A text that goes on behind its window, and on, and on, until nobody recalls how it began. Then it ends."]


def make_directory(directory, tokenizer):
    """A model with one head of keys and values; its numbers are those of bfloat16."""
    torch.manual_seed(23)
    config = Gemma3TextConfig(
        vocab_size=640, hidden_size=32, intermediate_size=64, num_hidden_layers=7, num_attention_heads=4,
        num_key_value_heads=1, head_dim=16, sliding_window=16, query_pre_attn_scalar=12, max_position_embeddings=256,
        pad_token_id=None, bos_token_id=1, eos_token_id=2)
    model = Gemma3ForCausalLM(config)
    with torch.no_grad():
        for name, values in model.named_parameters():
            values.normal_(0, 0.03 if "embed" in name else 0.3 if "norm" in name else 0.15)
    model = model.to(torch.bfloat16).eval()
    model.save_pretrained(directory)
    os.remove(os.path.join(directory, "generation_config.json"))
    scale = model.model.embed_tokens.embed_scale.to(torch.bfloat16)
    model = model.double()
    model.model.embed_tokens.embed_scale = scale.double()
    with open(os.path.join(directory, "tokens.json"), "w") as file:
        for prompt in PROMPTS:
            ids = tokenizer.encode(prompt).ids
            out = model.generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False, eos_token_id=None,
                                 pad_token_id=0)
            print(json.dumps({"prompt": prompt, "prompt_token_ids": ids, "token_ids": out[0, len(ids):].tolist()}),
                  file=file)


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    rng = np.random.default_rng(19)
    with open(os.path.join(directory, "gemma3.fixture"), "wb") as file:
        for which, (dtype, settings) in MODELS.items():
            model = Gemma3ForCausalLM(Gemma3TextConfig(**settings)).double().eval()
            scale = torch.tensor(settings["hidden_size"] ** 0.5, dtype=torch.float32).to(dtype)
            model.model.embed_tokens.embed_scale = scale.double()
            state = model.state_dict()
            flat = []
            for name in names(settings["num_hidden_layers"]):
                values = rng.normal(0, 0.05 if "embed" in name else 0.25, state[name].shape).astype(np.float32)
                state[name].copy_(torch.tensor(values, dtype=torch.float64))
                flat.append(values.reshape(-1))
            ids = [int(i) for i in rng.integers(0, settings["vocab_size"], LENGTH)]
            put(file, which + ".params", np.concatenate(flat))
            put(file, which + ".ids", ids)
            put(file, which + ".logits", decode(model, ids))
            targets = [-1 if i % 4 == 3 else int((id * 5 + 3) % settings["vocab_size"]) for i, id in enumerate(ids)]
            logits = model(torch.tensor([ids])).logits[0]
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor(targets), ignore_index=-1, reduction="sum")
            loss.backward()
            found = dict(model.named_parameters())
            put(file, which + ".targets", targets)
            put(file, which + ".loss", np.array([loss.item()]))
            put(file, which + ".grads", np.concatenate(
                [found[name].grad.numpy().reshape(-1) for name in names(settings["num_hidden_layers"])]))
    make_directory(os.path.join(directory, "gemma3"), Tokenizer.from_file(os.path.join(directory, "hub_gemma.json")))


if __name__ == "__main__":
    main()
