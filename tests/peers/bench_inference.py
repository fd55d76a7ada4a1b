"""Decodes the same Llama in llama.cpp and here, in turns, and prints the ratios.

The model has the shape of GPT-2 with 124 M parameters as a Llama: width 768, 12 layers, 32 000 tokens,
random weights, in float32, in bfloat16, and rounded to 8 and 4 bits: int8 beside Q8_0, int4 beside Q4_0
(embedding and output matrix in 8 bits on both sides). A prompt of PROMPT tokens is prefilled and DECODED tokens are decoded
greedily, in llama.cpp on N threads and here on N ranks of one thread each. Both read the same weights (a
GGUF file written from our checkpoint). First both say what follows each of CHECKED other prompts, and must
agree: what is timed is then the same work. Where each rounds the weights in its own way, both are held
against llama.cpp in bfloat16, and their shares of equal tokens are printed. Each side does it twice in one process, and the second time counts. A token's time is
the median of that run. The ratio of a round is llama.cpp's time over ours, and what counts is the median
of the rounds. llama.cpp has its defaults but for the threads, and runs with its flash attention, which is one
of them, and without: of each figure the better one counts (prefill is faster with it, a token without). Its
cache has 16-bit floats, ours float32.

  python bench_inference.py --programs build/release/bin --tokenizer tokenizer.json [--rounds 5]

Run by `./dev bench --peers inference`.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

import gguf
import numpy

PROMPT, DECODED, CHECKED = 512, 64, 16
AUTO, OFF = -1, 0  # llama.h's words for flash attention
ROUNDED = ("int8", "int4")
LETTERS = "#@%&*+=<>~^|"  # our tokenizer never merges these
SHAPE = {"model_type": "llama", "vocab_size": 32000, "hidden_size": 768, "intermediate_size": 2048,
         "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 12,
         "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "hidden_act": "silu",
         "tie_word_embeddings": False}
LAYER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def read_tensors(path):
    """Name and float32 array of each tensor; bfloat16 is widened, which loses nothing."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        begin = 8 + size
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            first, end = entry["data_offsets"]
            file.seek(begin + first)
            data = file.read(end - first)
            if entry["dtype"] == "BF16":
                values = (numpy.frombuffer(data, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
            else:
                values = numpy.frombuffer(data, numpy.float32)
            yield name, values.reshape(entry["shape"])


def name_in_gguf(name):
    stem = name.removesuffix(".weight")
    if stem in OUTER:
        return OUTER[stem] + ".weight"
    layer, _, part = stem.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{LAYER[part]}.weight"


def type_in_gguf(kind, name):
    """None: as it is. In 4 bits the embedding and the output matrix have 8, as ours have."""
    types = gguf.GGMLQuantizationType
    if kind == "int4" and name.removesuffix(".weight") in OUTER:
        return types.Q8_0
    return {"float32": None, "bfloat16": types.BF16, "int8": types.Q8_0, "int4": types.Q4_0}[kind]


def write_gguf(checkpoint, kind, path):
    """llama.cpp turns neighbours where Hugging Face turns halves, so rows of query and key change places."""
    heads = SHAPE["num_attention_heads"]
    file = gguf.GGUFWriter(path, "llama")
    file.add_context_length(SHAPE["max_position_embeddings"])
    file.add_embedding_length(SHAPE["hidden_size"])
    file.add_block_count(SHAPE["num_hidden_layers"])
    file.add_feed_forward_length(SHAPE["intermediate_size"])
    file.add_head_count(heads)
    file.add_head_count_kv(SHAPE["num_key_value_heads"])
    file.add_layer_norm_rms_eps(SHAPE["rms_norm_eps"])
    file.add_rope_dimension_count(SHAPE["hidden_size"] // heads)
    file.add_rope_freq_base(10000.0)
    file.add_vocab_size(SHAPE["vocab_size"])
    file.add_tokenizer_model("no_vocab")
    for name, values in read_tensors(os.path.join(checkpoint, "model.safetensors")):
        if ".q_proj." in name or ".k_proj." in name:
            rows, columns = values.shape
            values = values.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
        of = type_in_gguf(kind, name) if values.ndim == 2 else None
        if of is not None:
            file.add_tensor(name_in_gguf(name), gguf.quants.quantize(values, of), raw_dtype=of)
        else:
            file.add_tensor(name_in_gguf(name), numpy.ascontiguousarray(values))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def write_model(args, kind, directory):
    """The checkpoint's directory, and the GGUF file of the same weights."""
    shape, model = os.path.join(directory, "shape"), os.path.join(directory, kind)
    os.makedirs(shape, exist_ok=True)
    os.mkdir(model)
    with open(os.path.join(shape, "config.json"), "w", encoding="utf-8") as file:
        json.dump(SHAPE, file)
    command = [os.path.join(args.programs, "random-checkpoint"), model, args.tokenizer, "--like", shape]
    subprocess.run(command + (["--bfloat16"] if kind != "float32" else []), check=True,
                   stdout=subprocess.DEVNULL)
    path = os.path.join(directory, kind + ".gguf")
    write_gguf(model, kind, path)
    return model, path


def launch(args, kind, model, directory, ranks, prompts, new_tokens):
    """Runs our job over the file of prompts; the directory of its record."""
    out = os.path.join(directory, "out")
    command = [os.path.join(args.programs, "launcher"), "--ranks", str(ranks), "--mode", "tp-cpu"]
    command += ["--checkpoint", model, "--prompts", os.path.join(directory, prompts), "--max-num-seqs", "1"]
    command += ["--max-new-tokens", str(new_tokens), "--ignore-eos", "--out", out, "--overwrite", "--quiet"]
    command += ["--weights", kind] if kind in ROUNDED else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out


def read_prompts(out):
    with open(os.path.join(out, "results.json"), encoding="utf-8") as file:
        return json.load(file)["prompts"]


def run_ours(args, kind, model, directory, ranks):
    """ms of the prefill and of a token."""
    out = launch(args, kind, model, directory, ranks, "timed.txt", DECODED)
    with open(os.path.join(out, "timings.jsonl"), encoding="utf-8") as file:
        steps = [json.loads(line) for line in file]
    steps = steps[len(steps) // 2:]
    prefill = [step for step in steps if step["tokens_computed"] > 1]
    decode = [step for step in steps if step["tokens_computed"] == 1]
    if sum(step["tokens_computed"] for step in prefill) != PROMPT or len(decode) != DECODED - 1:
        sys.exit("ours did other work than was asked for")
    return sum(step["step_us"] for step in prefill) / 1e3, statistics.median(step["step_us"] for step in decode) / 1e3


class LlamaCpp:
    """A model and its cache."""

    def __init__(self, path, threads, flash_attention):
        import llama_cpp
        self.lib = llama_cpp
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, None)
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = SHAPE["max_position_embeddings"]
        params.n_batch = params.n_ubatch = PROMPT
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = flash_attention
        self.context = llama_cpp.llama_init_from_model(self.model, params)

    def forget(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)

    def feed(self, tokens):
        """The likeliest next token, and the ms that it took."""
        array = (self.lib.llama_token * len(tokens))(*tokens)
        begin = time.perf_counter()
        if self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(array, len(tokens))) != 0:
            sys.exit("llama_decode failed")
        logits = self.lib.llama_get_logits_ith(self.context, -1)
        best = int(numpy.ctypeslib.as_array(logits, (SHAPE["vocab_size"],)).argmax())
        return best, (time.perf_counter() - begin) * 1e3


def be_llama_cpp(path, threads, flash_attention, prompts):
    """In a process of its own. Prints what follows each prompt, and the ms of the last one."""
    theirs = LlamaCpp(path, threads, flash_attention)
    follows = []
    for prompt in prompts:
        theirs.forget()
        token, prefill_ms = theirs.feed(prompt)
        follows.append(token)
        times = []
        while len(prompt) == PROMPT and len(times) < DECODED - 1:
            token, ms = theirs.feed([token])
            times.append(ms)
    print(json.dumps({"follows": follows, "prefill_ms": prefill_ms,
                      "token_ms": statistics.median(times) if times else None}))


def run_llama_cpp(path, threads, prompts, flash_attention):
    done = subprocess.run([sys.executable, __file__, "--one", path, str(threads), str(flash_attention)],
                          input=json.dumps(prompts), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def check(args, kind, directory, model, path, exact):
    """The tokens of the prompt that is timed, and what llama.cpp lets follow; ends where both do not
    compute the same. `exact`: what it lets follow in bfloat16."""
    ours = read_prompts(launch(args, kind, model, directory, 1, "checked.txt", 1))
    follows = run_llama_cpp(path, 1, [prompt["prompt_token_ids"] for prompt in ours], AUTO)["follows"]
    drawn = [prompt["token_ids"][0] for prompt in ours]
    if kind in ROUNDED:
        here, there = (sum(a == b for a, b in zip(tokens, exact)) for tokens in (drawn, follows))
        print(f"{kind}: of {len(exact)} tokens {here} are those of bfloat16 here, {there} in llama.cpp")
        if min(here, there) < 2:  # of 32 000 tokens
            sys.exit("not the same model")
    elif drawn != follows:
        sys.exit(f"{kind}: not the same model: {drawn} here, {follows} in llama.cpp")
    else:
        print(f"{kind}: both continue {len(drawn)} prompts with the same token, {len(set(drawn))} different ones")
    return max((prompt["prompt_token_ids"] for prompt in ours), key=len), follows


def spread(values):
    return f"{statistics.median(values):8.2f} ({min(values):.2f} to {max(values):.2f})"


def compare(args, kind, ranks, directory, model, path, prompt):
    ours, theirs = {"prefill": [], "token": []}, {"prefill": [], "token": []}
    for _ in range(args.rounds):
        prefill_ms, token_ms = run_ours(args, kind, model, directory, ranks)
        ours["prefill"].append(prefill_ms)
        ours["token"].append(token_ms)
        told = [run_llama_cpp(path, ranks, [prompt, prompt], flash) for flash in (AUTO, OFF)]
        theirs["prefill"].append(min(run["prefill_ms"] for run in told))
        theirs["token"].append(min(run["token_ms"] for run in told))
    print(f"{kind}, {ranks} rank(s) or thread(s)")
    for what, title in (("token", "a token, ms"), ("prefill", f"prefill of {PROMPT}, ms")):
        ratios = [b / a for a, b in zip(ours[what], theirs[what])]
        print(f"  {title:20} Ringfence {spread(ours[what])}   llama.cpp {spread(theirs[what])}   "
              f"times as fast: {spread(ratios)}", flush=True)


def write_prompts(directory):
    """One prompt twice for the clock, and many of other lengths, the longest of which is that one."""
    draw = random.Random(35000)
    timed = "".join(draw.choice(LETTERS) for _ in range(PROMPT))
    checked = ["".join(draw.choice(LETTERS) for _ in range(draw.randrange(1, 64))) for _ in range(CHECKED - 1)]
    for name, lines in (("timed.txt", [timed, timed]), ("checked.txt", checked + [timed])):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)


def main():
    if sys.argv[1:2] == ["--one"]:
        be_llama_cpp(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), json.load(sys.stdin))
        return
    parser = argparse.ArgumentParser(description="our decoding against llama.cpp's, in turns")
    parser.add_argument("--programs", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="float32,bfloat16,int8,int4", help="the rounded ones after bfloat16")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        write_prompts(directory)
        exact = None
        for kind in args.kinds.split(","):
            model, path = write_model(args, kind, directory)
            prompt, follows = check(args, kind, directory, model, path, exact)
            exact = follows if kind == "bfloat16" else exact
            for ranks in (1, 2):
                compare(args, kind, ranks, directory, model, path, prompt)


if __name__ == "__main__":
    main()
