"""GPT-2 in PyTorch, for torch_peer.py: training as most programs write it, decoding with a cache that
grows by concatenation, as Hugging Face's eager model does it, and the weights of a checkpoint.
"""
import json
import os

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.mlp_proj = nn.Linear(4 * width, width)

    def attend(self, x, cache):
        """Over all tokens of x; with a cache also over those before, to which x's are added."""
        b, n, width = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.c_attn(x).split(width, dim=2))
        if cache is not None:
            k, v = (torch.cat((old, new), dim=2) for old, new in zip(cache, (k, v))) if cache else (k, v)
            cache[:] = [k, v]
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
        return self.c_proj(y.transpose(1, 2).reshape(b, n, width))

    def forward(self, x, cache=None):
        x = x + self.attend(self.ln_1(x), cache)
        return x + self.mlp_proj(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocab, width, layers, heads, context):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0.0, 0.02 / (2 * layers) ** 0.5 if "proj" in name else 0.02)

    def logits(self, ids, first=0, caches=None):
        positions = torch.arange(first, first + ids.shape[1], device=ids.device)
        x = self.wte(ids) + self.wpe(positions)
        for i, block in enumerate(self.h):
            x = block(x, None if caches is None else caches[i])
        return functional.linear(self.ln_f(x), self.wte.weight)

    def forward(self, ids, targets):
        return functional.cross_entropy(self.logits(ids).flatten(0, 1).float(), targets.flatten())

    @torch.no_grad()
    def decode(self, prompt, tokens):
        caches = [[] for _ in self.h]
        ids, first = prompt, 0
        for _ in range(tokens):
            drawn = self.logits(ids, first, caches)[:, -1].argmax(-1, keepdim=True)
            first += ids.shape[1]
            ids = drawn
            drawn.item()  # as whoever prints or compares a token waits for it


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        begin = file.tell()
        for name, about in header.items():
            if name == "__metadata__":
                continue
            assert about["dtype"] == "F32", about["dtype"]
            first, last = about["data_offsets"]
            file.seek(begin + first)
            yield name, torch.frombuffer(bytearray(file.read(last - first)), dtype=torch.float32).view(about["shape"])


def from_checkpoint(directory):
    """The directory's model. Checkpoints have the transposes of nn.Linear's weights."""
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    model = Gpt2(config["vocab_size"], config["n_embd"], config["n_layer"], config["n_head"], config["n_positions"])
    state = {}
    for name, tensor in read_safetensors(os.path.join(directory, "model.safetensors")):
        name = name.removeprefix("transformer.").replace("mlp.c_proj", "mlp_proj")
        name = name.replace("attn.c_", "c_", 1).replace("mlp.", "")
        linear = name.split(".")[-2] in ("c_attn", "c_proj", "c_fc", "mlp_proj")
        state[name] = tensor.T if linear and tensor.dim() == 2 else tensor
    model.load_state_dict(state)
    return model
