#!/usr/bin/env python3
"""Makes decode.fixture: what transformers computes for tests/rank/model/test_decode.c. Two sequences
go through a tiny random GPT-2 incrementally, with transformers' own cache of keys and values: a
chunk of seven tokens, then one token at a time. Needs numpy, torch and transformers.

    python make_decode_fixture.py [directory]

The format is that of make_model_fixtures.py. The model runs in float64; results are rounded.
"""
import os
import sys

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from make_model_fixtures import put, tensors

CONFIG = dict(vocab=37, width=20, layers=2, heads=2, context=24)
LENGTHS = (23, 17)
CHUNK = 7


def model_of(cfg, params):
    config = GPT2Config(vocab_size=cfg["vocab"], n_embd=cfg["width"], n_layer=cfg["layers"],
                        n_head=cfg["heads"], n_positions=cfg["context"])
    model = GPT2LMHeadModel(config).double().eval()
    state = {"transformer." + n: torch.tensor(v, dtype=torch.float64) for n, v in params.items()}
    state["lm_head.weight"] = state["transformer.wte.weight"]
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all(n.endswith((".attn.bias", ".masked_bias")) for n in missing)
    return model


def decode(model, ids):
    """Logits of every position, by way of the cache."""
    logits, cache, at = [], None, 0
    while at < len(ids):
        count = CHUNK if at == 0 else 1
        with torch.no_grad():
            out = model(torch.tensor([ids[at:at + count]]), past_key_values=cache, use_cache=True)
        logits.append(out.logits[0])
        cache = out.past_key_values
        at += count
    return torch.cat(logits).numpy()


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    rng = np.random.default_rng(16)
    params = {}
    for name, shape in tensors(CONFIG):
        values = rng.normal(0, 0.25, shape)
        if "ln_" in name and name.endswith("weight"):
            values += 1
        params[name] = values.astype(np.float32)
    model = model_of(CONFIG, params)
    sequences = [[int(i) for i in rng.integers(0, CONFIG["vocab"], n)] for n in LENGTHS]
    with open(os.path.join(directory, "decode.fixture"), "wb") as file:
        flat = [params[name].reshape(-1) for name, _ in tensors(CONFIG)]
        put(file, "params", np.concatenate(flat))
        put(file, "ids", sum(sequences, []))
        put(file, "logits", np.concatenate([decode(model, ids) for ids in sequences]))


if __name__ == "__main__":
    main()
