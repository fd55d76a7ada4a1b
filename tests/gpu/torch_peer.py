"""PyTorch's figures on this machine's GPU, for the shapes of tests/gpu/run.sh.

    python3 torch_peer.py minigpt-eager --model tests/peers/train_torch.py
    python3 torch_peer.py gpt2-eager|gpt2-compiled|gpt2-decode|xl-decode
    python3 torch_peer.py logits --checkpoint DIR --tokens N --ours FILE

Prints "NAME NUMBER" lines. Speeds are of the median block of ten steps. --tiny has small shapes and few steps, and
with --device cpu it runs anywhere: its figures mean nothing. It exists to be compared with.
"""
import argparse
import array
import importlib.util
import statistics
import sys
import time

import torch

import torch_gpt2

GPT2 = {"vocab": 50257, "width": 768, "layers": 12, "heads": 12, "context": 1024}
XL = {**GPT2, "width": 1600, "layers": 48, "heads": 25}
TINY = {"vocab": 512, "width": 32, "layers": 2, "heads": 2, "context": 64}


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def print_figure(name, value):
    print(f"{name} {value:.6g}", flush=True)


def median_seconds(step, given, warm_up, steps):
    """Of a step, in blocks of ten: within a block the host does not wait, as a loop that reads no loss."""
    block = 10
    if given.tiny:
        warm_up, steps, block = 1, 2, 1
    for _ in range(warm_up):
        step()
    times = []
    for _ in range(steps // block):
        wait(given.device)
        begun = time.perf_counter()
        for _ in range(block):
            step()
        wait(given.device)
        times.append((time.perf_counter() - begun) / block)
    return statistics.median(times)


def train_minigpt(given, compiled_too):
    spec = importlib.util.spec_from_file_location("train_torch", given.model)
    peer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peer)
    eager = (("eager", False, False), ("eager_fused", False, True))
    for name, compiled, fused in (("compiled", True, True),) if compiled_too else eager:
        torch.manual_seed(35000)
        model = peer.MiniGPT(False).to(given.device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01, fused=fused)
        forward = torch.compile(model, mode="reduce-overhead") if compiled else model
        ids = torch.randint(peer.VOCAB, (peer.BATCH, peer.CONTEXT + 1), device=given.device)
        inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

        def step():
            forward(inputs, targets).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        seconds = median_seconds(step, given, 20, 200)
        print_figure(f"minigpt_{name}_tokens_per_sec", peer.BATCH * peer.CONTEXT / seconds)


def train_gpt2(given, compiled):
    """bfloat16 by autocast over float32 parameters, fused AdamW, clipping, 16 rows of 1024 tokens."""
    torch.manual_seed(35000)
    torch.set_float32_matmul_precision("high")
    shape = TINY if given.tiny else GPT2
    rows = 2 if given.tiny else 16
    model = torch_gpt2.Gpt2(**shape).to(given.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01, fused=True)
    forward = torch.compile(model) if compiled else model
    ids = torch.randint(shape["vocab"], (rows, shape["context"] + 1), device=given.device)
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def step():
        with torch.autocast(given.device, dtype=torch.bfloat16):
            loss = forward(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    seconds = median_seconds(step, given, 5, 30)
    name = "compiled" if compiled else "eager"
    print_figure(f"gpt2_bf16_{name}_tokens_per_sec", rows * shape["context"] / seconds)


def hugging_face(shape, given, dtype):
    """A function that decodes so many tokens with transformers."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=shape["vocab"], n_embd=shape["width"], n_layer=shape["layers"],
                        n_head=shape["heads"], n_positions=shape["context"], bos_token_id=None, eos_token_id=None)
    with torch.device(given.device):
        model = GPT2LMHeadModel(config).to(dtype).eval()
    prompt = torch.zeros((1, 2), dtype=torch.long, device=given.device)
    return lambda tokens: model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
                                         min_new_tokens=tokens, max_new_tokens=tokens, pad_token_id=0)


def own_module(shape, given, dtype):
    with torch.device(given.device):
        model = torch_gpt2.Gpt2(**shape).to(dtype).eval()
    prompt = torch.zeros((1, 2), dtype=torch.long, device=given.device)
    return lambda tokens: model.decode(prompt, tokens)


def decode(given, name, shape, dtypes):
    """Time of a token after the first few, one text at a time: of transformers where it decodes, else of the
    module of torch_gpt2.py. Both are printed."""
    shape = TINY if given.tiny else shape
    few, many = (4, 8) if given.tiny else (8, 136)
    for short, dtype in dtypes:
        best = None
        for make in (hugging_face, own_module):
            try:
                run = make(shape, given, dtype)
                run(few)
            except Exception as error:  # of another version of transformers, or without it
                if make is own_module:
                    raise
                print(f"transformers does not decode here: {error!r}")
                continue
            seconds = []
            for tokens in (few, many):
                wait(given.device)
                begun = time.perf_counter()
                run(tokens)
                wait(given.device)
                seconds.append(time.perf_counter() - begun)
            us = (seconds[1] - seconds[0]) / (many - few) * 1e6
            print(f"{make.__name__}: {us:.1f} us a token in {short}")
            # Hugging Face's time is the peer's where it is installed.
            best = us if best is None else best
        print_figure(f"{name}_{short}_decode_us", best)


def compare_logits(given):
    """Largest difference from float64's logits, over the largest of these: ours, and float32's."""
    torch.backends.cuda.matmul.allow_tf32 = False
    model = torch_gpt2.from_checkpoint(given.checkpoint).to(given.device).eval()
    vocab = model.wte.num_embeddings
    ids = torch.tensor([[(7919 * i + 13) % vocab for i in range(given.tokens)]], device=given.device)
    ours = array.array("f")
    with open(given.ours, "rb") as file:
        ours.frombytes(file.read())
    ours = torch.tensor(ours, dtype=torch.float64).view(given.tokens, vocab).to(given.device)
    with torch.no_grad():
        theirs = model.logits(ids)[0].double()
        exact = model.double().logits(ids)[0]
    largest = exact.abs().max()
    print_figure("logits_difference", ((ours - exact).abs().max() / largest).item())
    print_figure("torch_float32_logits_difference", ((theirs - exact).abs().max() / largest).item())


def main():
    floats = (("bf16", torch.bfloat16), ("f32", torch.float32))
    whats = {
        "minigpt-eager": lambda given: train_minigpt(given, False),
        "minigpt-compiled": lambda given: train_minigpt(given, True),
        "gpt2-eager": lambda given: train_gpt2(given, False),
        "gpt2-compiled": lambda given: train_gpt2(given, True),
        "gpt2-decode": lambda given: decode(given, "gpt2", GPT2, floats),
        "xl-decode": lambda given: decode(given, "xl", XL, floats[:1]),
        "logits": compare_logits,
    }
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=whats)
    parser.add_argument("--model", help="tests/peers/train_torch.py")
    parser.add_argument("--checkpoint")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--ours", help="raw float32 logits of gpu-measure")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch sees no GPU")
    whats[given.what](given)


if __name__ == "__main__":
    main()
