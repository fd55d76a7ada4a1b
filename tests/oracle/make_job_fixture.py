#!/usr/bin/env python3
"""Makes job.jsonl and job.fixture: what PyTorch makes of the job of
tests/integration/test_training_oracle.c, with 1 to 5 steps. Needs numpy and torch.

    python make_job_fixture.py [directory]

Nothing of ours runs here: tokens, slots, batches, gradients, clipping, schedule and AdamW are those
of data.h, ddp.h and optim.h, said again with PyTorch's own functions, in float64.
"""
import json
import os
import re
import sys

import numpy as np
import torch

from make_model_fixtures import forward, initial, put, tensors
from make_tokenizer_fixtures import slot_order

MODEL = dict(vocab=512, width=16, layers=2, heads=2, context=24)
SEED, BATCH, RANKS, MICRO_BATCHES = 11, 2, 2, 2
LR, LR_MIN, WARMUP, DECAY, CLIP = 1e-2, 1e-3, 2, 0.3, 1.0
BETAS, EPSILON = (0.8, 0.97), 1e-3
STEPS = 5
STRIDE = 7  # of the parameters that are kept; all of them after the longest job

PAIRS = """he goed home|he went home
i has eat|i have eaten
she dont go|she doesn't go
they was late on the first day of school|they were late
we is here|we are here
did he went?|did he go?
the dog barked|the dog barked
you has a red car and a very old house by the sea|you have a red car
he swimmed|he swam
i am go now|i am going now
she have two cats|she has two cats
who eated it?|who ate it?
it rain a lot|it rains a lot
the boys runs|the boys run
she sing well|she sings well
he can sang|he can sing
does she knows?|does she know?
i brang milk|i brought milk
we thinked so|we thought so
they has won|they have won
the sun rise|the sun rises
he teached us|he taught us
she not here|she is not here
you was right|you were right
i seen him|i saw him
it breaked|it broke
he don't care|he doesn't care"""


class Tokenizer:
    """The byte-level BPE of a tokenizer.json."""

    def __init__(self, path):
        model = json.load(open(path))["model"]
        self.vocab = model["vocab"]
        self.rank = {tuple(m.split(" ") if isinstance(m, str) else m): i
                     for i, m in enumerate(model["merges"])}
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [b for b in range(256) if b not in plain]
        self.glyph = {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}
        self.end = self.vocab["<|endoftext|>"]

    def encode(self, text):
        ids = []
        for piece in re.findall(" ?[^ ]+| +", text):
            parts = [self.glyph[b] for b in piece.encode()]
            while True:
                ranks = [self.rank.get(pair, 1 << 30) for pair in zip(parts, parts[1:])]
                if not ranks or min(ranks) == 1 << 30:
                    break
                i = ranks.index(min(ranks))
                parts[i:i + 2] = [parts[i] + parts[i + 1]]
            ids += [self.vocab[part] for part in parts]
        return ids


def sentences(tokenizer):
    """(ids, targets) of each sentence: the loss counts behind the arrow."""
    out = []
    for line in PAIRS.splitlines():
        wrong, right = line.split("|")
        ids = tokenizer.encode(f"{wrong} \u2192 {right}")
        masked = len(tokenizer.encode(f"{wrong} \u2192"))
        targets = [-1] * (masked - 1) + ids[masked:] + [tokenizer.end]
        assert len(targets) == len(ids)
        out.append((ids, targets))
    return out


class Slot:
    """The sentences with index % slots == slot, shuffled anew each epoch, packed into batches."""

    def __init__(self, all_sentences, slots, slot):
        self.slot, self.mine = slot, all_sentences[slot::slots]
        self.begin(0)

    def begin(self, epoch):
        order = slot_order(SEED, self.slot, epoch, len(self.mine))
        self.queue = [s for s in (self.mine[i] for i in order) if len(s[0]) <= MODEL["context"]]

    def batch(self):
        ids, targets, segments = [], [], [0]
        while self.queue and len(ids) + len(self.queue[0][0]) <= BATCH * MODEL["context"]:
            more_ids, more_targets = self.queue.pop(0)
            ids, targets = ids + more_ids, targets + more_targets
            segments.append(len(ids))
        return ids, targets, segments


def schedule_of(adamw, steps):
    """PyTorch's own: linear warm-up, then a cosine that ends with the last step."""
    lr = torch.optim.lr_scheduler
    warmup = lr.LinearLR(adamw, 1 / WARMUP, 1, WARMUP - 1)
    left = steps - 1 - WARMUP
    rest = lr.CosineAnnealingLR(adamw, left, LR_MIN) if left > 0 else lr.ConstantLR(adamw, 1, 0)
    return lr.SequentialLR(adamw, [warmup, rest], [WARMUP])


def slots_loss(params, slots):
    """Loss sums, target counts and token counts of each slot; gradients add up in params."""
    losses, targets, tokens = [], [], []
    for slot in slots:
        ids, wanted, segments = slot.batch()
        loss = torch.zeros((), dtype=torch.float64)
        if ids:
            _, loss = forward(MODEL, params, torch.tensor(ids), torch.tensor(wanted), segments)
            loss.backward()
        losses.append(loss.item())
        targets.append(sum(t != -1 for t in wanted))
        tokens.append(len(ids))
    return np.array(losses), np.array(targets), np.array(tokens)


def flat(params):
    return np.concatenate([params[t].detach().numpy().reshape(-1) for t, _ in tensors(MODEL)])


def run_job(file, all_sentences, steps):
    params = {n: torch.tensor(v, dtype=torch.float64, requires_grad=True)
              for n, v in initial(MODEL, SEED).items()}
    matrices = [p for p in params.values() if p.dim() > 1]
    others = [p for p in params.values() if p.dim() == 1]
    adamw = torch.optim.AdamW([dict(params=matrices, weight_decay=DECAY),
                               dict(params=others, weight_decay=0.0)],
                              lr=LR, betas=BETAS, eps=EPSILON)
    schedule = schedule_of(adamw, steps)
    slots = [Slot(all_sentences, RANKS * MICRO_BATCHES, s) for s in range(RANKS * MICRO_BATCHES)]
    epoch = 0
    for step in range(steps):
        if not any(slot.queue for slot in slots):
            epoch += 1
            for slot in slots:
                slot.begin(epoch)
        adamw.zero_grad(set_to_none=False)
        losses, targets, tokens = slots_loss(params, slots)
        for p in params.values():
            p.grad /= targets.sum()
        norm = torch.nn.utils.clip_grad_norm_(params.values(), CLIP).item()
        at = f"{steps}.{step}"
        of_rank = [slice(r * MICRO_BATCHES, (r + 1) * MICRO_BATCHES) for r in range(RANKS)]
        put(file, f"{at}.loss", [losses[r].sum() / max(targets[r].sum(), 1) for r in of_rank])
        put(file, f"{at}.tokens", [tokens[r].sum() for r in of_rank])
        put(file, f"{at}.global", [losses.sum() / targets.sum(), norm,
                                   adamw.param_groups[0]["lr"], epoch])
        print(f"{at}: loss {losses.sum() / targets.sum():.6f} norm {norm:.4f} lr "
              f"{adamw.param_groups[0]['lr']:.6f} epoch {epoch} tokens {tokens} targets {targets}")
        adamw.step()
        schedule.step()
    put(file, f"{steps}.params", flat(params)[::1 if steps == STEPS else STRIDE])


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    directory = sys.argv[1] if len(sys.argv) > 1 else here
    with open(os.path.join(directory, "job.jsonl"), "w") as file:
        for line in PAIRS.splitlines():
            wrong, right = line.split("|")
            file.write(json.dumps(dict(wrong=wrong, right=right)) + "\n")
    all_sentences = sentences(Tokenizer(os.path.join(here, "tokenizer.json")))
    with open(os.path.join(directory, "job.fixture"), "wb") as file:
        for steps in range(1, STEPS + 1):
            run_job(file, all_sentences, steps)


if __name__ == "__main__":
    main()
