#!/usr/bin/env python3
"""Makes hub_KIND.json and hub_KIND_ids.jsonl: small tokenizers of the kinds that GPT-2, Llama 3 and
SmolLM2 have, and what the tokenizers library makes of texts with them, for tests/rank/data/test_hub.c.
Needs tokenizers.

    python make_hub_fixtures.py
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from make_tokenizer_fixtures import TEXTS

HERE = pathlib.Path(__file__).parent
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
MORE = [
    "The quick brown fox jumps over 1234567 lazy dogs, doesn't it? IT'S so. We'LL see.",
    "int main(void)\n{\n    return  0;\t/* done */\n}\n\n\n",
    "x = 3.14159e-10; y=٣٤٥; z=½; Ⅷ",
    "  two leading,   three inside, trailing   ",
    "a\u0301 e\u0308 n\u0303 — “quotes” … naïve coöperate",
    "中文字符和日本語テキスト、한국어 텍스트",
    "👩‍👩‍👧‍👦🏳️‍🌈 emoji 🇩🇪",
    "<|endoftext|> is text here, and so is <|im_start|>user",
    "\r\n\r\n \r\n mixed \n\r ends",
    "ẞtraße ǅ ﬁ ＡＢＣ １２３",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "",
]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


KINDS = {
    "gpt2": (byte_level(True), False),
    "smollm2": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                         byte_level(True)]), False),
    "llama3": (pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                        byte_level(False)]), True),
}


def main():
    texts = TEXTS + MORE
    for kind, (split, ignore_merges) in KINDS.items():
        tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
        tokenizer.pre_tokenizer = split
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=512, show_progress=False, special_tokens=SPECIAL,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        tokenizer.train_from_iterator(texts * 3, trainer)
        if kind == "llama3":
            begin = tokenizer.token_to_id("<|im_start|>")
            tokenizer.post_processor = processors.Sequence([
                processors.ByteLevel(trim_offsets=False),
                processors.TemplateProcessing(single="<|im_start|> $A",
                                              special_tokens=[("<|im_start|>", begin)])])
            # a word that merges do not make, since its pair has none
            content = json.loads(tokenizer.to_str())
            content["model"]["vocab"]["zqzq"] = 512
            tokenizer = Tokenizer.from_str(json.dumps(content))
            texts = texts + ["zqzq", " zqzq zqzqzq"]
        tokenizer.save(str(HERE / f"hub_{kind}.json"))
        with open(HERE / f"hub_{kind}_ids.jsonl", "w") as file:
            for text in texts:
                tokenizer.encode_special_tokens = True
                plain = tokenizer.encode(text, add_special_tokens=False).ids
                tokenizer.encode_special_tokens = False
                special = tokenizer.encode(text, add_special_tokens=False).ids
                print(json.dumps({"text": text, "ids": plain, "special": special}), file=file)


if __name__ == "__main__":
    main()
