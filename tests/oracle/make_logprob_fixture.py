#!/usr/bin/env python3
"""Makes logprob.fixture: torch's log_softmax and topk for tests/rank/generate/test_logprob.c. Needs
numpy and torch.

    python make_logprob_fixture.py [directory]

The format is that of make_model_fixtures.py. Logits are float32, log_softmax runs in float64, and its
results are rounded.
"""
import os
import sys

import numpy as np
import torch

from make_model_fixtures import put

SPREADS = (0.1, 1, 4, 30)
VOCAB = 613
BEST = 20


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    rng = np.random.default_rng(17)
    logits = np.stack([rng.normal(0, spread, VOCAB) for spread in SPREADS]).astype(np.float32)
    values = torch.log_softmax(torch.tensor(logits, dtype=torch.float64), -1)
    best = torch.topk(values, BEST)
    with open(os.path.join(directory, "logprob.fixture"), "wb") as file:
        put(file, "logits", logits.reshape(-1))
        put(file, "values", values.numpy().reshape(-1))
        put(file, "best", best.indices.numpy().reshape(-1))


if __name__ == "__main__":
    main()
