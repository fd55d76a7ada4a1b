"""Trains the same shape in PyTorch DDP over gloo and here, in turns, and prints the ratio.

Two processes, one thread each, one core each; 470 528 parameters (vocabulary 512, width 128, 2 layers,
4 heads), 16 rows of 64 tokens per process and step, every token with a loss. Each round runs every PyTorch
variant once and ours once; the ratio of a round is ours over the best variant of that round. What
counts is the median of the ratios: the machine's mood is the same on both sides of one round. Tokens per
second are, on both sides, a step's tokens by the median step.

  python bench_training.py --launcher build/release/bin/launcher [--rounds 5] [--steps 60]

Run by `./dev bench --peers`.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

VARIANTS = ("written", "sdpa", "compile")
ROWS, CONTEXT, RANKS = 16, 64, 2
TRIES = 3
HERE = os.path.dirname(os.path.abspath(__file__))


def write_full_rows(path, lines):
    """Sentences of CONTEXT tokens, made of characters that our tokenizer never merges.

    Each is fed whole, and the end token is its last target: so a step here is 16 × 64 tokens in
    segments of 64, as in PyTorch's script."""
    draw = random.Random(35000)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(lines):
            text = "".join(draw.choice("#@%&*+=<>~^|") for _ in range(CONTEXT))
            file.write(json.dumps({"text": text}) + "\n")


def run_ours(launcher, data, out, steps):
    command = [launcher, "--ranks", str(RANKS), "--mode", "ddp-cpu", "--steps", str(steps)]
    command += ["--batch", str(ROWS), "--context", str(CONTEXT), "--data", data, "--out", out]
    command += ["--overwrite", "--no-scaling", "--no-plots", "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    tokens_per_step = manifest["tokens"] / manifest["steps"]
    if tokens_per_step < 0.99 * RANKS * ROWS * CONTEXT:
        sys.exit(f"ours had {tokens_per_step} tokens a step: not the same work")
    return tokens_per_step / manifest["step_ms"]["median"] * 1e3


def run_torch(variant, steps):
    command = [sys.executable, os.path.join(HERE, "train_torch.py"), "--variant", variant]
    command += ["--processes", str(RANKS), "--steps", str(steps)]
    for _ in range(TRIES):  # gloo's teardown aborts now and then
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode == 0:
            return json.loads(done.stdout.strip().splitlines()[-1])["tokens_per_sec"]
    sys.exit(f"PyTorch failed {TRIES} times: {' '.join(command)}")


def spread(values):
    return f"{statistics.median(values):10.0f}  ({min(values):.0f} to {max(values):.0f})"


def main():
    parser = argparse.ArgumentParser(description="our training against PyTorch's, in turns")
    parser.add_argument("--launcher", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    ours, torch, ratios = [], {variant: [] for variant in VARIANTS}, []
    with tempfile.TemporaryDirectory() as directory:
        data = os.path.join(directory, "full-rows.jsonl")
        write_full_rows(data, RANKS * ROWS * (args.steps + 8))
        for round_number in range(1, args.rounds + 1):
            for variant in VARIANTS:
                torch[variant].append(run_torch(variant, args.steps))
            ours.append(run_ours(args.launcher, data, os.path.join(directory, "out"), args.steps))
            best = max(VARIANTS, key=lambda name: torch[name][-1])
            ratios.append(ours[-1] / torch[best][-1])
            print(f"round {round_number}: ours {ours[-1]:.0f} tokens/s, best of PyTorch "
                  f"{torch[best][-1]:.0f} ({best}), ratio {ratios[-1]:.2f}", flush=True)

    print("\ntokens/s on 2 processes, median (least to most)")
    for variant in VARIANTS:
        print(f"  PyTorch, {variant:8} {spread(torch[variant])}")
    print(f"  Ringfence         {spread(ours)}")
    print(f"ratio to the best PyTorch of each round: median {statistics.median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f}), {args.rounds} rounds")


if __name__ == "__main__":
    main()
