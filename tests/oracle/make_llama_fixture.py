#!/usr/bin/env python3
"""Makes llama.fixture: what transformers computes for tests/rank/model/test_decode.c and
test_oracle.c. Tiny random
Llamas, Qwen2s, Qwen3s and a SmolLM3 decode incrementally, with transformers' own cache: a chunk of seven tokens, then one token at
a time. And they are trained on these tokens: the loss, and the gradient of every parameter. Needs
numpy, torch and transformers.

    python make_llama_fixture.py [directory]

The format is that of make_model_fixtures.py. The models run in float64; results are rounded.
"""
import os
import sys

import numpy as np
import torch
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM, SmolLM3Config, SmolLM3ForCausalLM)

from make_decode_fixture import decode
from make_model_fixtures import put

SHAPE = dict(vocab_size=37, hidden_size=20, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, head_dim=6, rms_norm_eps=1e-5,
             max_position_embeddings=24)
LENGTH = 23
MODELS = {
    "tied": dict(tie_word_embeddings=True,
                 rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
    "untied": dict(tie_word_embeddings=False,
                   rope_parameters=dict(rope_type="linear", rope_theta=500.0, factor=2.0)),
    "llama3": dict(tie_word_embeddings=False,
                   rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=8.0,
                                        low_freq_factor=1.0, high_freq_factor=4.0,
                                        original_max_position_embeddings=64)),
}
QWEN2 = dict(rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=1e6), use_sliding_window=False)
QWEN2_MODELS = {
    "qwen2": SHAPE | QWEN2 | dict(tie_word_embeddings=False, sliding_window=8),
    "qwen2-tied": {key: value for key, value in SHAPE.items() if key != "head_dim"} | QWEN2 | dict(
        hidden_size=24, num_key_value_heads=4, tie_word_embeddings=True),
}
QWEN3_MODELS = {
    "qwen3": SHAPE | QWEN2 | dict(tie_word_embeddings=True),
    "qwen3-untied": SHAPE | QWEN2 | dict(
        hidden_size=24, num_attention_heads=2, head_dim=18, tie_word_embeddings=False,
        rope_parameters=dict(rope_type="default", rope_theta=1e4)),
}
SMOLLM3_MODELS = {
    "smollm3": SHAPE | dict(rms_norm_eps=1e-6, no_rope_layer_interval=2, pad_token_id=None,
                            rope_parameters=dict(rope_type="default", rope_theta=1e4)),
}


def names(tied, kind):
    found = ["model.embed_tokens.weight"]
    attention = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]
    parts = (["input_layernorm.weight"] + [part + ".weight" for part in attention] +
             [part + ".bias" for part in attention if kind == "qwen2"] +
             [part + ".weight" for part in ("self_attn.o_proj", "post_attention_layernorm", "mlp.gate_proj",
                                            "mlp.up_proj", "mlp.down_proj")] +
             [part for part in ("self_attn.q_norm.weight", "self_attn.k_norm.weight") if kind == "qwen3"])
    for layer in range(SHAPE["num_hidden_layers"]):
        found += ["model.layers.%d.%s" % (layer, part) for part in parts]
    return found + ["model.norm.weight"] + ([] if tied else ["lm_head.weight"])


def gradients(model, ids, targets):
    """The sum of the losses where there is a target, and its gradients."""
    model.zero_grad()
    logits = model(torch.tensor([ids])).logits[0]
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(targets), ignore_index=-1,
                                             reduction="sum")
    loss.backward()
    found = dict(model.named_parameters())
    return loss.item(), np.concatenate(
        [found[name].grad.numpy().reshape(-1) for name in names_of(model)])


def names_of(model):
    return names(model.config.tie_word_embeddings, model.config.model_type)


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    rng = np.random.default_rng(17)
    with open(os.path.join(directory, "llama.fixture"), "wb") as file:
        models = [(which, LlamaForCausalLM(LlamaConfig(**SHAPE, **settings))) for which, settings in MODELS.items()]
        models += [(which, Qwen2ForCausalLM(Qwen2Config(**settings))) for which, settings in QWEN2_MODELS.items()]
        models += [(which, Qwen3ForCausalLM(Qwen3Config(**settings))) for which, settings in QWEN3_MODELS.items()]
        models += [(which, SmolLM3ForCausalLM(SmolLM3Config(**settings))) for which, settings in SMOLLM3_MODELS.items()]
        for which, model in models:
            model = model.double().eval()
            state = model.state_dict()
            flat = []
            for name in names_of(model):
                values = rng.normal(0, 0.25, state[name].shape)
                values = (values + ("norm" in name)).astype(np.float32)
                state[name].copy_(torch.tensor(values, dtype=torch.float64))
                flat.append(values.reshape(-1))
            ids = [int(i) for i in rng.integers(0, SHAPE["vocab_size"], LENGTH)]
            put(file, which + ".params", np.concatenate(flat))
            put(file, which + ".ids", ids)
            put(file, which + ".logits", decode(model, ids))
            targets = [-1 if i % 4 == 3 else int((id * 5 + 3) % SHAPE["vocab_size"])
                       for i, id in enumerate(ids)]
            loss, grads = gradients(model, ids, targets)
            put(file, which + ".targets", targets)
            put(file, which + ".loss", np.array([loss]))
            put(file, which + ".grads", grads)


if __name__ == "__main__":
    main()
