#!/usr/bin/env python3
"""Makes experts.fixture: what transformers computes for tests/rank/model/test_experts.c. A tiny random Mixtral and two
Qwen3-MoEs decode incrementally, and are trained on the same tokens: the loss, the router's loss, and the gradient of
every parameter, of both losses together. Needs numpy, torch and transformers.

    python make_experts_fixture.py [directory]

The format is that of make_model_fixtures.py. The models run in float64; results are rounded. In the last layer the
router's loss is over the rows with a target, since no other row is routed there.
"""
import os
import sys

import numpy as np
import torch
from transformers import MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

from make_decode_fixture import decode
from make_model_fixtures import put

SHAPE = dict(vocab_size=37, hidden_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=6, rms_norm_eps=1e-6, max_position_embeddings=24, router_aux_loss_coef=0.05,
             rope_parameters=dict(rope_type="default", rope_theta=10000.0), experts_implementation="eager")
LENGTH = 23
MODELS = {
    "mixtral": MixtralForCausalLM(MixtralConfig(
        **SHAPE, intermediate_size=16, num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=False)),
    "qwen3-moe": Qwen3MoeForCausalLM(Qwen3MoeConfig(
        **SHAPE, moe_intermediate_size=16, num_experts=5, num_experts_per_tok=3, norm_topk_prob=True,
        tie_word_embeddings=True)),
    "qwen3-moe-raw": Qwen3MoeForCausalLM(Qwen3MoeConfig(
        **SHAPE, moe_intermediate_size=16, num_experts=4, num_experts_per_tok=2, norm_topk_prob=False,
        tie_word_embeddings=False)),
}


def names(which, model):
    parts = ["input_layernorm.weight"]
    parts += ["self_attn.%s_proj.weight" % part for part in "qkvo"]
    # an expert's gate and up stand one behind the other in the first of these
    parts += ["post_attention_layernorm.weight", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
    parts += [] if which == "mixtral" else ["self_attn.q_norm.weight", "self_attn.k_norm.weight"]
    parts += ["mlp.gate.weight"]
    found = ["model.embed_tokens.weight"]
    for layer in range(SHAPE["num_hidden_layers"]):
        found += ["model.layers.%d.%s" % (layer, part) for part in parts]
    return found + ["model.norm.weight"] + ([] if model.config.tie_word_embeddings else ["lm_head.weight"])


def gradients(which, model, ids, targets):
    """The sum of the losses where there is a target, the router's loss as often, and the gradients of both."""
    model.zero_grad()
    out = model(torch.tensor([ids]), output_router_logits=True)
    loss = torch.nn.functional.cross_entropy(out.logits[0], torch.tensor(targets), ignore_index=-1, reduction="sum")
    with_target = [i for i, target in enumerate(targets) if target >= 0]
    routed = out.router_logits[:-1] + (out.router_logits[-1][with_target],)
    experts = model.config.num_local_experts
    router = len(with_target) * load_balancing_loss_func(routed, experts, model.config.num_experts_per_tok)
    (loss + model.config.router_aux_loss_coef * router).backward()
    found = dict(model.named_parameters())
    grads = [found[name].grad.numpy().reshape(-1) for name in names(which, model)]
    return loss.item(), router.item(), np.concatenate(grads)


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    rng = np.random.default_rng(23)
    with open(os.path.join(directory, "experts.fixture"), "wb") as file:
        for which, model in MODELS.items():
            model = model.double().eval()
            state = model.state_dict()
            flat = []
            for name in names(which, model):
                values = rng.normal(0, 0.25, state[name].shape)
                values = (values + ("norm" in name)).astype(np.float32)
                state[name].copy_(torch.tensor(values, dtype=torch.float64))
                flat.append(values.reshape(-1))
            ids = [int(i) for i in rng.integers(0, SHAPE["vocab_size"], LENGTH)]
            put(file, which + ".params", np.concatenate(flat))
            put(file, which + ".ids", ids)
            put(file, which + ".logits", decode(model, ids))
            targets = [-1 if i % 4 == 3 else int((id * 5 + 3) % SHAPE["vocab_size"]) for i, id in enumerate(ids)]
            loss, router, grads = gradients(which, model, ids, targets)
            put(file, which + ".targets", targets)
            put(file, which + ".loss", np.array([loss, router]))
            put(file, which + ".grads", grads)


if __name__ == "__main__":
    main()
