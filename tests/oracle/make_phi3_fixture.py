#!/usr/bin/env python3
"""Makes the directory phi3, for tests/integration/phi3.sh: a tiny random Phi-3 as transformers writes it, in bfloat16,
and the tokens that it draws behind texts, in tokens.json. It runs in float64. Needs torch, transformers and tokenizers.

    python make_phi3_fixture.py [directory]
"""
import json
import os
import sys

import torch
from tokenizers import Tokenizer
from transformers import Phi3Config, Phi3ForCausalLM

PROMPTS = ["The quick brown fox", "int main(void) { return 42; }"]


def main():
    here = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    directory = os.path.join(here, "phi3")
    tokenizer = Tokenizer.from_file(os.path.join(here, "hub_llama2.json"))
    torch.manual_seed(29)
    config = Phi3Config(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=24, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, sliding_window=100, max_position_embeddings=128,
        original_max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    model = Phi3ForCausalLM(config)
    with torch.no_grad():
        for name, values in model.named_parameters():
            values.normal_(1 if "norm" in name else 0, 0.25)
    model = model.to(torch.bfloat16).eval()
    model.save_pretrained(directory)
    os.remove(os.path.join(directory, "generation_config.json"))
    model = model.double()
    with open(os.path.join(directory, "tokens.json"), "w") as file:
        for prompt in PROMPTS:
            ids = tokenizer.encode(prompt).ids
            out = model.generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False, eos_token_id=None)
            print(json.dumps({"prompt": prompt, "prompt_token_ids": ids, "token_ids": out[0, len(ids):].tolist()}),
                  file=file)


if __name__ == "__main__":
    main()
