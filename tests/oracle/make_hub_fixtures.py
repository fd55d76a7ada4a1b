#!/usr/bin/env python3
"""Makes hub_KIND.json and hub_KIND_ids.jsonl: small tokenizers of the kinds that GPT-2, Llama 3, Qwen2,
SmolLM2 and GPT-4o (Phi-4-mini) have, and of SentencePiece's kinds that Llama 2, Mistral and Gemma have, and what the tokenizers
library makes of texts with them, for tests/rank/data/test_hub.c. Needs tokenizers.

    python make_hub_fixtures.py
"""
import json
import pathlib
import unicodedata

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

import rows
from make_tokenizer_fixtures import TEXTS

HERE = pathlib.Path(__file__).parent
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
ENDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT4O = "|".join([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + ENDS,
                  r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + ENDS,
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
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
# What normal form C changes: marks alone, in a wrong order, of equal classes, across what is normal already;
# what it never joins; Hangul; characters that it replaces; special tokens with a mark behind them.
MARKS = [
    "e\u0301 e\u0323\u0302 e\u0302\u0323 \u00ea\u0323 q\u0307\u0323 \u0301",
    "a\u0308\u0301\u0323\u0327\u0334b \u0344 \u0340\u0341\u0343 \u1e9b\u0323",
    "\u1100\u1161\u11a8 \u1112\u1161\u11ab\u1100\u1173\u11af \uac00\u11a8 \u1100\u1161\u11a7",
    "\u212b \u2126 \u212a \u00c5 \u037e \u0387 \u2000\u2001 \uf900\ufa10 \U0002f800",
    "\u0958 \u0915\u093c \ufb1d \ufb2c \u05e9\u05bc\u05c1 \u0f43 \U0001d160 \u2adc",
    "\u09c7\u09be \u0bc6\u0bbe \u0dd9\u0dcf\u0dca \u0cc6\u0cc2\u0cd5 \U00011131\U00011127",
    "\ufb01 \uff21 \u00bd \u2460 \u3392 \u0132",
    "Vie\u0323\u0302t Na\u0306m: tie\u0302\u0301ng, nu\u031bo\u031b\u0301c, \u0110o\u0302\u0300ng",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0930\u093c \u3046\u3099 \u30cf\u309a \u0648\u0654",
    "<|endoftext|>\u0338 <|im_start|>e\u0301<|im_end|>\u0301 <\u0338|im_end|>",
    "<e\u0301t\u00e9> <\u00e9te\u0301>\u0338 <\u00e9t\u00e9>",
    "x" + "\u0323\u0301\u0327" * 40 + "y",
]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


KINDS = {
    "gpt2": (byte_level(True), False),
    "smollm2": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                         byte_level(True)]), False),
    "qwen2": (pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), byte_level(False)]), False),
    "llama3": (pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                        byte_level(False)]), True),
    "gpt4o": (pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(GPT4O), "removed", invert=True),
                                       byte_level(False)]), False),
    # one that drops what is neither a letter nor a space, and single letters
    "drops": (pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r" ?\p{L}\p{L}+|\s+"), "removed", invert=True),
                                       byte_level(False)]), False),
}

# Of SentencePiece's kinds: spaces of all sorts, the mark itself, tokens for bytes by their letters, special tokens
# with and without a space beside them.
SPACES = [
    " ", "  ", "a", " a", "a ", "\u2581", "\u2581a", "a\u2581b \u2581 c", "   three before", "tab\tand\nline \n\n end",
    "<0x0A> is text here", "<s>[INST] What is a ring? [/INST]", "a<s>b </s> c<s>", "<s> <s>\u2581x</s>",
    "x <late>y<late> <late>", "\U0001f600 \u4e2d\u6587 x", "the the  the   the\u2581\u2581the",
]
MARK = "\u2581"
NORMALIZER = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
# normalizer, pre-tokenizer, and whether words are merged alone
SPACED = {
    "llama2": (NORMALIZER, None, True),
    "mistral": (None, pre_tokenizers.Metaspace(MARK, "first", split=False), True),
    "metaspace": (None, pre_tokenizers.Metaspace(MARK, "always", split=True), True),
    "gemma": (normalizers.Replace(" ", MARK), pre_tokenizers.Split(" ", "merged_with_previous"), False),
}


def ids(tokenizer, text):
    tokenizer.encode_special_tokens = True
    plain = tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = False
    return plain, tokenizer.encode(text, add_special_tokens=False).ids


def make_spaced(kind, normalizer, split, by_words, texts):
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", MARK)
    if by_words:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(MARK, "always", split=True)
    trainer = trainers.BpeTrainer(
        vocab_size=600, show_progress=False, limit_alphabet=72, max_token_length=12,
        special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)])
    tokenizer.train_from_iterator(texts * 3, trainer)
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [{**token, "normalized": False} for token in content["added_tokens"]
                               if token["id"] < 3]
    content["added_tokens"].append({**content["added_tokens"][0], "id": len(content["model"]["vocab"]),
                                    "content": "<late>", "normalized": True})
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    rows.write(json.loads(tokenizer.to_str()), HERE / f"hub_{kind}.json")
    with open(HERE / f"hub_{kind}_ids.jsonl", "w") as file:
        for text in texts + SPACES:
            plain, special = ids(tokenizer, text)
            pieces = [tokenizer.id_to_token(token) for token in plain]
            normal = b"".join(bytes([int(piece[3:5], 16)]) if len(piece) == 6 and piece[:3] == "<0x" else
                              piece.replace(MARK, " ").encode() for piece in pieces).decode()
            print(json.dumps({"text": text, **({"normal": normal} if normal != text else {}), "ids": plain,
                              "special": special}), file=file)


def make_strips(kind):
    """What the tokenizer of that kind makes of texts if its second special token takes white space behind it, and its
    third one on both sides, as those of Phi-3 do. White space may be a token, too."""
    content = json.loads((HERE / f"hub_{kind}.json").read_text())
    for token, (left, right) in zip(content["added_tokens"], [(False, False), (False, True), (True, True)]):
        token["lstrip"], token["rstrip"] = left, right
    largest = max([token["id"] for token in content["added_tokens"]] + list(content["model"]["vocab"].values()))
    content["added_tokens"].append({"id": largest + 1, "content": "\n\t", "single_word": False, "lstrip": False,
                                    "rstrip": False, "normalized": False, "special": False})
    tokenizer = Tokenizer.from_str(json.dumps(content))
    names = [token["content"] for token in content["added_tokens"][:3]]
    more = ["a {2} b", "{1}\n\n{1} \t{2}  {0} x {0}", "  {1} a{1}b \n{2}", "\u3000{2}\u00a0\u2003{1}\u0085\u200bx", "{1} ", " {2}", "{2}{2} {2}",
            "\u2028 a\u1680{2}\u205f\u202f\u2029b\x0b\x0c\x1c{2}\x1f", "é {2} é{1} é",
            "a{1} \n\t \n x \n\t {2} \n\t{2}\n\t"]
    with open(HERE / f"hub_{kind}_strips_ids.jsonl", "w") as file:
        for text in [one.format(*names) for one in more]:
            print(json.dumps({"text": text, "special": ids(tokenizer, text)[1]}), file=file)


def main():
    texts = TEXTS + MORE
    for kind, (normalizer, split, by_words) in SPACED.items():
        make_spaced(kind, normalizer, split, by_words, texts)
    for kind, (split, ignore_merges) in KINDS.items():
        tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
        tokenizer.pre_tokenizer = split
        if kind == "qwen2":
            tokenizer.normalizer = normalizers.NFC()
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
        if kind == "qwen2":
            # one that is looked for in the text's normal form
            tokenizer.add_tokens([AddedToken("<\u00e9t\u00e9>", special=True, normalized=True)])
        rows.write(json.loads(tokenizer.to_str()), HERE / f"hub_{kind}.json")
        with open(HERE / f"hub_{kind}_ids.jsonl", "w") as file:
            for text in texts + (MARKS if kind == "qwen2" else []):
                plain, special = ids(tokenizer, text)
                normal = unicodedata.normalize("NFC", text) if kind == "qwen2" else text
                normal = tokenizer.decode(plain, skip_special_tokens=False) if kind == "drops" else normal
                print(json.dumps({"text": text, **({"normal": normal} if normal != text else {}), "ids": plain,
                                  "special": special}), file=file)
    for kind in ("llama2", "gpt2"):
        make_strips(kind)


if __name__ == "__main__":
    main()
