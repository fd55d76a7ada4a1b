#!/usr/bin/env python3
"""Makes the fixtures of tests/rank/data: what the tokenizers library makes of texts with a small
tokenizer.json of our kind, and a slot's order by an independent SplitMix64.

    python make_tokenizer_fixtures.py TOKENIZER.json

TOKENIZER.json is build/<preset>/share/ringfence/tokenizer.json; it is copied next to the ids, so
that the fixtures stay true when the corpus changes. Needs tokenizers and transformers.
"""
import json
import pathlib
import random
import shutil
import sys

HERE = pathlib.Path(__file__).parent

TEXTS = [
    "he goed to school → he went to school",
    "i has eat → i have eaten",
    "she dont like apples → she doesn't like apples",
    "did the boy consider the costs on monday?",
    "He WENT to School!",
    " leading",
    "trailing ",
    "two  spaces",
    "three   spaces   here",
    " ",
    "  ",
    "          ",
    "a",
    "→",
    " →",
    " → ",
    "a→b",
    "a →b",
    "tab\there",
    "line\nbreak",
    "\n",
    "\n\n \n",
    " \n ",
    "carriage\r\nreturn",
    "no\u00a0break space",
    "ideographic\u3000space",
    "café naïve",
    "cafe\u0301",
    "größe straße",
    "привет мир",
    "日本語 テスト",
    "مرحبا",
    "👩‍👩‍👧 family",
    "\u200b\ufeff",
    "\x01\x02\x7f",
    "\U0010ffff",
    "0123456789 3.14",
    "don't won't it's they're",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "thethethethethe the thethe",
    "hehehehe hehe",
    "!!!??? ... --- ___",
    '{"json": [1, 2]}',
    "<|endoftext",
    "x" * 200,
    "every day " * 20,
]


def random_texts(count):
    rng = random.Random(35000)
    alphabet = "abcdehinorstuvwy  \n\t'→é日👍." + "the ing "
    return ["".join(rng.choice(alphabet) for _ in range(rng.randint(1, 60))) for _ in range(count)]


def slot_order(seed, slot, epoch, count):
    """SplitMix64 and Lemire's rejection, as rank/data/slot.h says."""
    mask = (1 << 64) - 1

    def draws(state):
        while True:
            state = (state + 0x9E3779B97F4A7C15) & mask
            z = state
            z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
            z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
            yield z ^ z >> 31

    stream = draws((next(draws(seed + slot)) + epoch) & mask)
    order = list(range(count))
    for i in range(count, 1, -1):
        while True:
            product = (next(stream) >> 32) * i
            if product % 2**32 >= (2**32 - i) % i:
                break
        other = product >> 32
        order[i - 1], order[other] = order[other], order[i - 1]
    return order


def main():
    from tokenizers import Tokenizer  # not above: others want slot_order alone
    from transformers import PreTrainedTokenizerFast
    source = pathlib.Path(sys.argv[1])
    target = HERE / "tokenizer.json"
    if source.resolve() != target.resolve():
        shutil.copyfile(source, target)
    ours = Tokenizer.from_file(str(target))
    fast = PreTrainedTokenizerFast(tokenizer_file=str(target))
    lines = []
    for text in TEXTS + random_texts(200):
        ids = ours.encode(text).ids
        assert fast(text)["input_ids"] == ids, text
        assert ours.decode(ids) == text, text
        lines.append(json.dumps({"text": text, "ids": ids}))
    (HERE / "tokenizer_ids.jsonl").write_text("\n".join(lines) + "\n")
    order = slot_order(35000, 1, 0, 50)
    (HERE / "slot_order.inc").write_text(", ".join(map(str, order)) + ",\n")


if __name__ == "__main__":
    main()
