#!/usr/bin/env python3
"""Checks a checkpoint directory against transformers: its model gives our logits within 1e-4, its
tokenizer our ids, and every safetensors file in it opens with the safetensors library.

    build/dev/tests/bin/sample-checkpoint OUT tests/oracle/tokenizer.json [MODEL_DIRECTORY]
    python check_hf_directory.py OUT

OUT/logits.jsonl, from sample-checkpoint, holds our side. Needs torch, transformers, safetensors.
"""
import json
import pathlib
import sys

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2LMHeadModel, PreTrainedTokenizerFast

TOLERANCE = 1e-4


def check_logits(out, model, tokenizer):
    worst = 0.0
    for line in (out / "logits.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        ids = tokenizer(case["text"])["input_ids"]
        assert ids == case["ids"], f"{case['text']!r}: their ids {ids}, ours {case['ids']}"
        with torch.no_grad():
            theirs = model(torch.tensor([ids])).logits[0]
        ours = torch.tensor(case["logits"]).reshape(theirs.shape)
        assert theirs.abs().max() > 0.1, "these logits prove nothing"
        worst = max(worst, (theirs - ours).abs().max().item())
    print(f"logits: largest difference {worst:.2e}, allowed {TOLERANCE:.0e}")
    assert worst <= TOLERANCE


def check_files(out):
    for path in sorted(out.glob("*.safetensors")):
        with safe_open(path, framework="pt") as tensors:
            values = sum(tensors.get_tensor(name).numel() for name in tensors.keys())
            print(f"{path.name}: {len(tensors.keys())} tensors, {values} values, {tensors.metadata()}")


def main():
    out = pathlib.Path(sys.argv[1])
    model, report = GPT2LMHeadModel.from_pretrained(out, output_loading_info=True)
    missing = set(report["missing_keys"]) - {"lm_head.weight"}
    assert not missing and not report["unexpected_keys"], report
    assert model.lm_head.weight is model.transformer.wte.weight, "the embedding is not tied"
    assert isinstance(AutoModelForCausalLM.from_pretrained(out), GPT2LMHeadModel)
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert isinstance(tokenizer, PreTrainedTokenizerFast), type(tokenizer)
    end = len(tokenizer) - 1
    assert tokenizer.eos_token_id == tokenizer.bos_token_id == end == model.config.eos_token_id
    assert model.generation_config.eos_token_id == end
    assert tokenizer.convert_ids_to_tokens(end) == "<|endoftext|>"
    assert tokenizer.model_max_length == model.config.n_positions
    check_logits(out, model.eval(), tokenizer)
    check_files(out)
    print("the directory is what transformers expects")


if __name__ == "__main__":
    main()
