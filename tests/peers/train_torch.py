#!/usr/bin/env python3
"""The PyTorch peer of the training benchmark: the same model, batch and optimizer, under DDP over
gloo. Needs torch; `./dev bench --peers` installs it into an environment of its own.

    python train_torch.py --variant written|sdpa|compile --processes 1|2 [--steps 40] [--model llama]

With --model llama the model is transformers' LlamaForCausalLM of the same shape, which needs transformers
as well. Each process is pinned to one core and has one thread. Prints one JSON line:
{"variant":…,"processes":…,"tokens_per_sec":…,"step_ms_p50":…,"step_cpu_ms_p50":…}
"""
import argparse
import json
import os
import socket
import statistics
import time

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional

VOCAB, WIDTH, LAYERS, HEADS, CONTEXT, BATCH = 512, 128, 2, 4, 64, 16


class Block(nn.Module):
    def __init__(self, written):
        super().__init__()
        self.written = written
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.mlp_proj = nn.Linear(4 * WIDTH, WIDTH)
        self.gelu = nn.GELU(approximate="tanh")
        mask = torch.full((CONTEXT, CONTEXT), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def attend(self, x):
        b, n, _ = x.shape
        q, k, v = self.c_attn(x).split(WIDTH, dim=2)
        q, k, v = (t.view(b, n, HEADS, WIDTH // HEADS).transpose(1, 2) for t in (q, k, v))
        if self.written:
            scores = q @ k.transpose(2, 3) * (WIDTH // HEADS) ** -0.5
            y = (scores + self.mask[:n, :n]).softmax(-1) @ v
        else:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(b, n, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.mlp_proj(self.gelu(self.c_fc(self.ln_2(x))))


class MiniGPT(nn.Module):
    def __init__(self, written):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, WIDTH)
        self.wpe = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block(written) for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0.0, 0.02 / (2 * LAYERS) ** 0.5 if "proj" in name else 0.02)
        self.register_buffer("positions", torch.arange(CONTEXT), persistent=False)

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe(self.positions)
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.ln_f(x), self.wte.weight)
        return functional.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


class MiniLlama(nn.Module):
    """transformers' Llama, with the shape of docs/MODELS.md."""

    def __init__(self, written):
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM
        self.model = LlamaForCausalLM(LlamaConfig(
            vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=344, num_hidden_layers=LAYERS,
            num_attention_heads=HEADS, num_key_value_heads=HEADS // 2, rms_norm_eps=1e-5,
            max_position_embeddings=CONTEXT, tie_word_embeddings=True,
            attn_implementation="eager" if written else "sdpa"))

    def forward(self, ids, targets):
        logits = self.model(input_ids=ids, use_cache=False).logits
        return functional.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


MODELS = {"minigpt": (MiniGPT, 470528), "llama": (MiniLlama, 428672)}


def train(rank, args, port, results):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    torch.manual_seed(35000)
    make, expected = MODELS[args.model]
    model = make(args.variant == "written")
    parameters = sum(p.numel() for p in model.parameters())
    assert parameters == expected, parameters
    if args.processes > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=rank, world_size=args.processes)
        model = nn.parallel.DistributedDataParallel(model)
    step_model = torch.compile(model) if args.variant == "compile" else model
    adamw = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01,
                              fused=args.variant != "written")
    generator = torch.Generator().manual_seed(35000 + rank)
    times, cpu_times = [], []
    for step in range(args.warm_up + args.steps):
        ids = torch.randint(0, VOCAB, (BATCH, CONTEXT + 1), generator=generator)
        begin, cpu_begin = time.perf_counter(), time.process_time()
        loss = step_model(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        loss.backward()
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        if step >= args.warm_up:
            times.append(time.perf_counter() - begin)
            cpu_times.append(time.process_time() - cpu_begin)
    if rank == 0:
        results.put((statistics.median(times), statistics.median(cpu_times)))
    if args.processes > 1:
        dist.barrier()
        os._exit(0)  # gloo's threads now and then abort a process that ends in order


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", choices=("written", "sdpa", "compile"), default="sdpa")
    parser.add_argument("--model", choices=MODELS, default="minigpt")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=10)
    args = parser.parse_args()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    results = mp.get_context("spawn").SimpleQueue()
    mp.spawn(train, args=(args, port, results), nprocs=args.processes)
    seconds, cpu_seconds = results.get()
    tokens = args.processes * BATCH * CONTEXT
    print(json.dumps({"variant": args.variant, "processes": args.processes,
                      "tokens_per_sec": round(tokens / seconds, 1),
                      "step_ms_p50": round(seconds * 1e3, 3),
                      "step_cpu_ms_p50": round(cpu_seconds * 1e3, 3)}))


if __name__ == "__main__":
    main()
