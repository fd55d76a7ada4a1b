#!/usr/bin/env python3
"""Makes muon.fixture: what torch.optim.Muon and torch.optim.AdamW make of a small GPT-2 in some steps,
for tests/rank/optim/test_muon.c. Needs torch 2.9 or later.

    python make_muon_fixture.py [directory]

Muon has the matrices of the blocks, AdamW all else. All is in float64, also what Muon has in bfloat16.
"""
import os
import struct
import sys

import torch

BLOCK = [("ln_1.weight", 0, 1), ("ln_1.bias", 0, 1), ("attn.c_attn.weight", 1, 3),
         ("attn.c_attn.bias", 0, 3), ("attn.c_proj.weight", 1, 1), ("attn.c_proj.bias", 0, 1),
         ("ln_2.weight", 0, 1), ("ln_2.bias", 0, 1), ("mlp.c_fc.weight", 1, 4),
         ("mlp.c_fc.bias", 0, 4), ("mlp.c_proj.weight", 4, 1), ("mlp.c_proj.bias", 0, 1)]
VOCAB, WIDTH, LAYERS, CONTEXT, STEPS = 20, 16, 1, 8, 2
RATE, DECAY, MOMENTUM, SCALE = 0.02, 0.1, 0.95, 0.5


def tensors():
    """(name, shape) of each tensor, in the order of the parameter array."""
    out = [("wte.weight", (VOCAB, WIDTH)), ("wpe.weight", (CONTEXT, WIDTH))]
    for layer in range(LAYERS):
        for name, rows, columns in BLOCK:
            shape = (rows * WIDTH, columns * WIDTH) if rows else (columns * WIDTH,)
            out.append((f"h.{layer}.{name}", shape))
    return out + [("ln_f.weight", (WIDTH,)), ("ln_f.bias", (WIDTH,))]


def put(file, name, values):
    data = values.detach().to(torch.float32).flatten().tolist()
    file.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", len(data)))
    file.write(struct.pack(f"<{len(data)}f", *data))


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.bfloat16 = torch.float64  # Muon asks for it by this name
    generator = torch.Generator().manual_seed(12)
    params, groups = [], {"matrices": [], "decay": [], "rest": []}
    for name, shape in tensors():
        start = torch.randn(shape, generator=generator).to(torch.float64) * 0.1
        param = torch.nn.Parameter(start)
        params.append(param)
        kind = "rest" if len(shape) == 1 else "matrices" if name.startswith("h.") else "decay"
        groups[kind].append(param)
    muon = torch.optim.Muon(groups["matrices"], lr=RATE, weight_decay=DECAY, momentum=MOMENTUM,
                            nesterov=True, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW([{"params": groups["decay"], "weight_decay": DECAY},
                               {"params": groups["rest"], "weight_decay": 0.0}],
                              lr=RATE, betas=(0.9, 0.95), foreach=False, fused=False)
    with open(os.path.join(directory, "muon.fixture"), "wb") as file:
        put(file, "start", torch.cat([param.flatten() for param in params]))
        for step in range(1, STEPS + 1):
            grads = [torch.randn(param.shape, generator=generator) for param in params]
            put(file, f"grads{step}", torch.cat([grad.flatten() for grad in grads]))
            for param, grad in zip(params, grads):
                param.grad = grad.to(torch.float64) * SCALE
            muon.step()
            adamw.step()
            put(file, f"params{step}", torch.cat([param.flatten() for param in params]))


if __name__ == "__main__":
    main()
