#!/usr/bin/env python3
"""Makes model.fixture, adamw.fixture and outer.fixture: what PyTorch computes for the cases of
tests/rank/model/test_oracle.c, tests/rank/optim/test_adamw.c and test_outer.c there. Needs numpy and torch.

    python make_model_fixtures.py [directory]

A fixture is a list of records: name length (u32), name, number of values (u32), values (float32),
all little-endian. The model is GPT-2 written out here, in float64; results are rounded to float32.
"""
import math
import os
import struct
import sys

import numpy as np
import torch

BLOCK = [
    ("ln_1.weight", 0, 1), ("ln_1.bias", 0, 1),
    ("attn.c_attn.weight", 1, 3), ("attn.c_attn.bias", 0, 3),
    ("attn.c_proj.weight", 1, 1), ("attn.c_proj.bias", 0, 1),
    ("ln_2.weight", 0, 1), ("ln_2.bias", 0, 1),
    ("mlp.c_fc.weight", 1, 4), ("mlp.c_fc.bias", 0, 4),
    ("mlp.c_proj.weight", 4, 1), ("mlp.c_proj.bias", 0, 1),
]


def tensors(cfg):
    """(name, shape) of every tensor, in the order of the parameter array."""
    c = cfg["width"]
    out = [("wte.weight", (cfg["vocab"], c)), ("wpe.weight", (cfg["context"], c))]
    for layer in range(cfg["layers"]):
        for name, rows, columns in BLOCK:
            shape = (rows * c, columns * c) if rows else (columns * c,)
            out.append((f"h.{layer}.{name}", shape))
    return out + [("ln_f.weight", (c,)), ("ln_f.bias", (c,))]


def forward(cfg, p, ids, targets, segments):
    """Logits (T, V) and the loss sum; every segment on its own, as a row without padding."""
    logits = []
    for begin, end in zip(segments[:-1], segments[1:]):
        n = end - begin
        x = p["wte.weight"][ids[begin:end]] + p["wpe.weight"][:n]
        for layer in range(cfg["layers"]):
            x = block(cfg, p, f"h.{layer}.", x)
        x = norm(x, p["ln_f.weight"], p["ln_f.bias"])
        logits.append(x @ p["wte.weight"].T)
    logits = torch.cat(logits)
    loss = torch.nn.functional.cross_entropy(logits, targets, ignore_index=-1, reduction="sum")
    return logits, loss


def norm(x, weight, bias):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)


def block(cfg, p, at, x):
    n, c = x.shape
    heads = cfg["heads"]
    qkv = norm(x, p[at + "ln_1.weight"], p[at + "ln_1.bias"]) @ p[at + "attn.c_attn.weight"]
    q, k, v = (qkv + p[at + "attn.c_attn.bias"]).split(c, dim=1)
    q, k, v = (t.view(n, heads, c // heads).transpose(0, 1) for t in (q, k, v))
    scores = q @ k.transpose(1, 2) / math.sqrt(c // heads)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    probabilities = scores.masked_fill(~mask, -math.inf).softmax(-1)
    a = (probabilities @ v).transpose(0, 1).reshape(n, c)
    x = x + a @ p[at + "attn.c_proj.weight"] + p[at + "attn.c_proj.bias"]
    h = norm(x, p[at + "ln_2.weight"], p[at + "ln_2.bias"]) @ p[at + "mlp.c_fc.weight"]
    h = torch.nn.functional.gelu(h + p[at + "mlp.c_fc.bias"], approximate="tanh")
    return x + h @ p[at + "mlp.c_proj.weight"] + p[at + "mlp.c_proj.bias"]


def put(file, name, values):
    data = np.ascontiguousarray(np.asarray(values, dtype="<f4").reshape(-1))
    raw = name.encode()
    file.write(struct.pack("<I", len(raw)) + raw + struct.pack("<I", data.size) + data.tobytes())


def run(cfg, params, ids, targets, segments):
    p = {n: torch.tensor(v, dtype=torch.float64, requires_grad=True) for n, v in params.items()}
    logits, loss = forward(cfg, p, torch.tensor(ids), torch.tensor(targets), segments)
    loss.backward()
    grads = {n: t.grad.numpy() for n, t in p.items()}
    return logits.detach().numpy(), loss.item(), grads


def batch_of(rng, cfg, lengths, masked):
    """Ids and targets of packed segments; a part of the targets is masked, as are segments' ends."""
    segments = [0] + list(np.cumsum(lengths))
    ids = rng.integers(0, cfg["vocab"], segments[-1])
    targets = np.roll(ids, -1)
    targets[rng.random(segments[-1]) < masked] = -1
    targets[np.array(segments[1:]) - 1] = -1
    return ids, targets, [int(s) for s in segments]


def put_batch(file, name, cfg, ids, targets, segments):
    order = ("vocab", "width", "layers", "heads", "context")
    put(file, name + ".config", [cfg[k] for k in order])
    put(file, name + ".ids", ids)
    put(file, name + ".targets", targets)
    put(file, name + ".segments", segments)


def whole_case(file, name, cfg, seed, lengths):
    """A small model: every parameter, logit and gradient. Parameters are large on purpose."""
    rng = np.random.default_rng(seed)
    params = {}
    for tensor, shape in tensors(cfg):
        values = rng.normal(0, 0.25, shape)
        if "ln_" in tensor and tensor.endswith("weight"):
            values += 1
        params[tensor] = values.astype(np.float32)
    ids, targets, segments = batch_of(rng, cfg, lengths, 0.3)
    logits, loss, grads = run(cfg, params, ids, targets, segments)
    put_batch(file, name, cfg, ids, targets, segments)
    put(file, name + ".params", np.concatenate([params[t].reshape(-1) for t, _ in tensors(cfg)]))
    put(file, name + ".logits", logits)
    put(file, name + ".loss", [loss])
    put(file, name + ".grads", np.concatenate([grads[t].reshape(-1) for t, _ in tensors(cfg)]))


def mix(x):
    x = x ^ (x >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x = x ^ (x >> np.uint64(27))
    x = x * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def initial(cfg, seed):
    """rank_model_init, said again in numpy."""
    params = {}
    for number, (name, shape) in enumerate(tensors(cfg)):
        if len(shape) == 1:
            one = "ln_" in name and name.endswith("weight")
            params[name] = np.full(shape, 1.0 if one else 0.0, np.float32)
            continue
        deviation = np.float32(0.02)
        if name.endswith("c_proj.weight"):
            deviation = np.float32(0.02 / math.sqrt(2.0 * cfg["layers"]))
        stream = mix(mix(np.array([seed], np.uint64)) + np.uint64(number))
        count = np.arange(1, 3 * shape[0] * shape[1] + 1, dtype=np.uint64)
        bits = mix(stream + np.uint64(0x9E3779B97F4A7C15) * count)
        parts = sum((bits >> np.uint64(16 * u)) & np.uint64(0xFFFF) for u in range(4))
        sums = parts.astype(np.int64).reshape(-1, 3).sum(1) - 6 * 65535
        unit = deviation * np.float32(2.0**-16)
        params[name] = (sums.astype(np.float32) * unit).reshape(shape)
    return params


def sampled_case(file, name, cfg, seed, lengths, samples=64):
    """A model from rank_model_init: the loss, each gradient's norm, and sampled entries."""
    rng = np.random.default_rng(seed)
    params = initial(cfg, seed)
    ids, targets, segments = batch_of(rng, cfg, lengths, 0.0)
    logits, loss, grads = run(cfg, params, ids, targets, segments)
    put_batch(file, name, cfg, ids, targets, segments)
    put(file, name + ".seed", [seed])
    put(file, name + ".loss", [loss])
    rows = np.sort(rng.choice(len(ids), 16, replace=False))
    put(file, name + ".logit_rows", rows)
    put(file, name + ".logits", logits[rows])
    put(file, name + ".norms", [np.sqrt((grads[t] ** 2).sum()) for t, _ in tensors(cfg)])
    for tensor, _ in tensors(cfg):
        flat = grads[tensor].reshape(-1)
        at = np.sort(rng.choice(flat.size, min(samples, flat.size), replace=False))
        put(file, f"{name}.at.{tensor}", at)
        put(file, f"{name}.grads.{tensor}", flat[at])


def adamw_case(file, count=301, steps=10):
    generator = torch.Generator().manual_seed(7)
    start = torch.randn(count, generator=generator)
    grads = [torch.randn(count, generator=generator) * 3 for _ in range(steps)]
    put(file, "start", start)
    put(file, "grads", torch.cat(grads))
    for decay in (0.0, 0.1):
        param = torch.nn.Parameter(start.clone())
        adamw = torch.optim.AdamW([param], lr=3e-3, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=decay, foreach=False, fused=False)
        for step, grad in enumerate(grads):
            param.grad = grad * 0.5
            adamw.step()
            put(file, f"decay{decay}.params{step + 1}", param.detach())
        state = adamw.state[param]
        put(file, f"decay{decay}.first", state["exp_avg"])
        put(file, f"decay{decay}.second", state["exp_avg_sq"])


def outer_case(file, ranks=3, count=301, rounds=4):
    """Rounds of local steps: what each rank has after one, and the common parameters behind it."""
    generator = torch.Generator().manual_seed(8)
    start = torch.randn(count, generator=generator)
    put(file, "start", start)
    for rate, momentum in ((0.7, 0.9), (1.0, 0.0)):
        param = torch.nn.Parameter(start.clone())
        sgd = torch.optim.SGD([param], lr=rate, momentum=momentum, nesterov=momentum > 0,
                              foreach=False, fused=False)
        for i in range(rounds):
            local = [param.detach() + torch.randn(count, generator=generator) * 0.1
                     for _ in range(ranks)]
            param.grad = torch.stack([param.detach() - each for each in local]).mean(dim=0)
            sgd.step()
            put(file, f"momentum{momentum}.local{i}", torch.cat(local))
            put(file, f"momentum{momentum}.params{i}", param.detach())
        if momentum > 0:
            put(file, f"momentum{momentum}.velocity", sgd.state[param]["momentum_buffer"])


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    tiny = dict(vocab=64, width=32, layers=2, heads=4, context=16)
    odd = dict(vocab=50, width=24, layers=2, heads=2, context=150)
    default = dict(vocab=512, width=128, layers=2, heads=4, context=64)
    with open(os.path.join(directory, "model.fixture"), "wb") as file:
        whole_case(file, "tiny", tiny, 1, [16, 5, 1, 9, 16, 3])
        whole_case(file, "odd", odd, 2, [150, 70, 33, 1])
        sampled_case(file, "default", default, 35000, [64] * 8 + [17, 47, 5, 64, 30])
    with open(os.path.join(directory, "adamw.fixture"), "wb") as file:
        adamw_case(file)
    with open(os.path.join(directory, "outer.fixture"), "wb") as file:
        outer_case(file)


if __name__ == "__main__":
    main()
