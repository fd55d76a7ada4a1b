"""Trains the same shape in PyTorch DDP over gloo and here, in turns, and prints the ratio.

Two processes, one thread each, one core each; 470 528 parameters (vocabulary 512, width 128, 2 layers,
4 heads), 16 rows of 64 tokens per process and step, every token with a loss. With --model llama the model
is a Llama of that shape; there it is of transformers. Each round runs every PyTorch
variant once and ours once; the ratio of a round is ours over the best variant of that round. What
counts is the median of the ratios: the machine's mood is the same on both sides of one round. Tokens per
second are, on both sides, a step's tokens by the median step. With --processor-time, for one rank on a
machine that has other work, a step's time is the processor time of the thread that trains.

  python bench_training.py --launcher build/release/bin/launcher [--rounds 5] [--steps 60] [--model llama]
         [--ranks 1 --processor-time]

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
ROWS, CONTEXT = 16, 64
TRIES = 3
HERE = os.path.dirname(os.path.abspath(__file__))
LLAMA = {"model_type": "llama", "vocab_size": 512, "hidden_size": 128, "intermediate_size": 344,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "hidden_act": "silu",
         "tie_word_embeddings": True}


def write_full_rows(path, lines):
    """Sentences of CONTEXT tokens, made of characters that our tokenizer never merges.

    Each is fed whole, and the end token is its last target: so a step here is 16 × 64 tokens in
    segments of 64, as in PyTorch's script."""
    draw = random.Random(35000)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(lines):
            text = "".join(draw.choice("#@%&*+=<>~^|") for _ in range(CONTEXT))
            file.write(json.dumps({"text": text}) + "\n")


def write_model(args, directory):
    """The flags that name the model."""
    if args.model == "minigpt":
        return []
    shape, model = os.path.join(directory, "shape"), os.path.join(directory, "model")
    programs = os.path.dirname(args.launcher)
    tokenizer = os.path.join(programs, "..", "share", "ringfence", "tokenizer.json")
    os.mkdir(shape)
    os.mkdir(model)
    with open(os.path.join(shape, "config.json"), "w", encoding="utf-8") as file:
        json.dump(LLAMA, file)
    subprocess.run([os.path.join(programs, "random-checkpoint"), model, tokenizer, "--like", shape],
                   check=True, stdout=subprocess.DEVNULL)
    return ["--checkpoint", model]


def run_ours(args, model, data, out):
    command = [args.launcher, "--ranks", str(args.ranks), "--mode", "ddp-cpu", "--steps", str(args.steps)]
    command += ["--batch", str(ROWS), "--context", str(CONTEXT), "--data", data, "--out", out] + model
    command += ["--overwrite", "--no-scaling", "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    tokens_per_step = manifest["tokens"] / manifest["steps"]
    if tokens_per_step < 0.99 * args.ranks * ROWS * CONTEXT:
        sys.exit(f"ours had {tokens_per_step} tokens a step: not the same work")
    if args.processor_time:
        with open(os.path.join(out, "timings.jsonl"), encoding="utf-8") as file:
            steps = [json.loads(line) for line in file][args.steps // 2:]
        ms = statistics.median(step["compute_cpu_ms"] + step["optimizer_ms"] for step in steps)
        return tokens_per_step / ms * 1e3
    return tokens_per_step / manifest["step_ms"]["median"] * 1e3


def run_torch(args, variant):
    command = [sys.executable, os.path.join(HERE, "train_torch.py"), "--variant", variant]
    command += ["--processes", str(args.ranks), "--steps", str(args.steps), "--model", args.model]
    for _ in range(TRIES):  # gloo's teardown aborts now and then
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode == 0:
            told = json.loads(done.stdout.strip().splitlines()[-1])
            if args.processor_time:
                return ROWS * CONTEXT / told["step_cpu_ms_p50"] * 1e3
            return told["tokens_per_sec"]
    sys.exit(f"PyTorch failed {TRIES} times: {' '.join(command)}")


def spread(values):
    return f"{statistics.median(values):10.0f}  ({min(values):.0f} to {max(values):.0f})"


def main():
    parser = argparse.ArgumentParser(description="our training against PyTorch's, in turns")
    parser.add_argument("--launcher", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--model", choices=("minigpt", "llama"), default="minigpt")
    parser.add_argument("--processor-time", action="store_true")
    args = parser.parse_args()
    if args.processor_time and args.ranks != 1:
        parser.error("--processor-time is for --ranks 1: it has no waiting for others in it")

    ours, torch, ratios = [], {variant: [] for variant in VARIANTS}, []
    with tempfile.TemporaryDirectory() as directory:
        data = os.path.join(directory, "full-rows.jsonl")
        write_full_rows(data, args.ranks * ROWS * (args.steps + 8))
        model = write_model(args, directory)
        for round_number in range(1, args.rounds + 1):
            for variant in VARIANTS:
                torch[variant].append(run_torch(args, variant))
            ours.append(run_ours(args, model, data, os.path.join(directory, "out")))
            best = max(VARIANTS, key=lambda name: torch[name][-1])
            ratios.append(ours[-1] / torch[best][-1])
            print(f"round {round_number}: ours {ours[-1]:.0f} tokens/s, best of PyTorch "
                  f"{torch[best][-1]:.0f} ({best}), ratio {ratios[-1]:.2f}", flush=True)

    print(f"\ntokens/s on {args.ranks} processes, median (least to most)")
    for variant in VARIANTS:
        print(f"  PyTorch, {variant:8} {spread(torch[variant])}")
    print(f"  Ringfence         {spread(ours)}")
    print(f"ratio to the best PyTorch of each round: median {statistics.median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f}), {args.rounds} rounds")


if __name__ == "__main__":
    main()
