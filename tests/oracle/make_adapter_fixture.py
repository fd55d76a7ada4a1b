#!/usr/bin/env python3
"""Makes adapters.fixture and the directories adapter_*: what Hugging Face's PEFT computes and saves for
tests/rank/checkpoint/test_adapter.c. Tiny models, those of llama.fixture and gemma3.fixture and a GPT-2, get adapters of
random numbers: the logits and the loss, and the gradient of every A and B. Needs numpy, torch, transformers and peft.

    python make_adapter_fixture.py [directory]

The format is that of make_model_fixtures.py. The models run in float64; results are rounded.
"""
import os
import struct
import sys

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM
from transformers import Qwen3Config, Qwen3ForCausalLM

from make_gemma3_fixture import MODELS as GEMMA3_MODELS, names as gemma3_names
from make_llama_fixture import MODELS, QWEN2_MODELS, QWEN3_MODELS, SHAPE, names_of
from make_model_fixtures import put, tensors

GPT2 = dict(vocab=37, width=20, layers=2, heads=2, context=24)
LAYERS = ["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj",  # in the order of parameters
          "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
          "mlp.up_proj", "mlp.down_proj"]
ADAPTERS = {
    "gpt2": dict(r=3, lora_alpha=4, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True),
    "tied": dict(r=2, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
    "qwen2": dict(r=4, lora_alpha=3, target_modules="all-linear", use_rslora=True),
    "qwen3": dict(r=2, lora_alpha=2, target_modules=["k_proj", "o_proj", "down_proj"]),
    "gemma3": dict(r=2, lora_alpha=3, target_modules=["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]),
}


def read(path):
    """The records of a fixture."""
    found, at = {}, 0
    with open(path, "rb") as file:
        data = file.read()
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        name = data[at + 4:at + 4 + length].decode()
        (count,) = struct.unpack_from("<I", data, at + 4 + length)
        found[name] = np.frombuffer(data, "<f4", count, at + 8 + length)
        at += 8 + length + 4 * count
    return found


def make_gpt2(rng):
    model = GPT2LMHeadModel(GPT2Config(vocab_size=GPT2["vocab"], n_embd=GPT2["width"], n_layer=GPT2["layers"],
                                       n_head=GPT2["heads"], n_positions=GPT2["context"]))
    flat = []
    for name, shape in tensors(GPT2):
        values = rng.normal(0, 0.25, shape)
        values += "ln_" in name and name.endswith("weight")
        values = values.astype(np.float32)
        model.state_dict()["transformer." + name].copy_(torch.tensor(values))
        flat.append(values.reshape(-1))
    return model, np.concatenate(flat)


def make_llama(which, params):
    model = {"tied": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, **MODELS["tied"])),
             "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**QWEN2_MODELS["qwen2"])),
             "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**QWEN3_MODELS["qwen3"])),
             "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**GEMMA3_MODELS["gemma3"][1]))}[which]()
    state, at = model.state_dict(), 0
    names = gemma3_names(model.config.num_hidden_layers) if which == "gemma3" else names_of(model)
    for name in names:
        count = state[name].numel()
        state[name].copy_(torch.tensor(params[at:at + count].reshape(state[name].shape)))
        at += count
    assert at == params.size
    return model


def in_order(model):
    """A and B of each layer, in the order of the adapters' parameters."""
    found = {name.replace(".default", ""): value for name, value in model.named_parameters() if "lora_" in name}
    keys = [(layer, LAYERS.index(part), side, name) for name in found
            for layer in range(model.config.num_hidden_layers) if ".%d." % layer in name
            for part in LAYERS if part in name for side in "AB" if "lora_" + side in name]
    assert len(keys) == len(found)
    return [found[name] for _, _, _, name in sorted(keys)]


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    rng = np.random.default_rng(29)
    params_of = read(os.path.join(directory, "llama.fixture")) | read(os.path.join(directory, "gemma3.fixture"))
    with open(os.path.join(directory, "adapters.fixture"), "wb") as file:
        for which, settings in ADAPTERS.items():
            if which == "gpt2":
                model, params = make_gpt2(rng)
                put(file, which + ".params", params)
            else:
                model = make_llama(which, params_of[which + ".params"])
            model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
            with torch.no_grad():
                for value in in_order(model):
                    value.copy_(torch.tensor(rng.normal(0, 0.25, value.shape).astype(np.float32)))
            there = os.path.join(directory, "adapter_" + which)
            model.save_pretrained(there)
            os.remove(os.path.join(there, "README.md"))
            model = model.double()
            ids = [int(i) for i in rng.integers(0, GPT2["vocab"], 23)]
            targets = [-1 if i % 4 == 3 else int((id * 5 + 3) % GPT2["vocab"]) for i, id in enumerate(ids)]
            logits = model(input_ids=torch.tensor([ids])).logits[0]
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor(targets), ignore_index=-1, reduction="sum")
            loss.backward()
            put(file, which + ".ids", ids)
            put(file, which + ".targets", targets)
            put(file, which + ".logits", logits.detach().numpy())
            put(file, which + ".loss", [loss.item()])
            put(file, which + ".grads", np.concatenate([value.grad.numpy().reshape(-1) for value in in_order(model)]))


if __name__ == "__main__":
    main()
