"""MiniGPT's training step in PyTorch on this machine's GPU: eager, and compiled with CUDA graphs.

    python3 torch_peer.py --model tests/peers/train_torch.py [--steps 200]

Prints "NAME NUMBER" lines: tokens per second by the median step. tests/gpu/run.sh runs it, beside
our own run with the same model, batch and optimizer. It exists to be compared with.
"""
import argparse
import importlib.util
import statistics
import sys
import time

import torch

WARM_UP = 20


def load_model(path):
    spec = importlib.util.spec_from_file_location("train_torch", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def train(peer, compiled, fused, steps):
    torch.manual_seed(35000)
    model = peer.MiniGPT(False).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01, fused=fused)
    forward = torch.compile(model, mode="reduce-overhead") if compiled else model
    ids = torch.randint(peer.VOCAB, (peer.BATCH, peer.CONTEXT + 1), device="cuda")
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    times = []
    for _ in range(WARM_UP + steps):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        forward(inputs, targets).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return peer.BATCH * peer.CONTEXT / statistics.median(times[WARM_UP:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch sees no GPU")
    peer = load_model(given.model)
    for name, compiled, fused in (("eager", False, False), ("eager_fused", False, True), ("compiled", True, True)):
        print(f"torch_{name}_tokens_per_sec {train(peer, compiled, fused, given.steps):.1f}", flush=True)


if __name__ == "__main__":
    main()
