#!/usr/bin/env bash
# gpu-measure over the CPU's backend and the emulated plugin: what it prints and writes, and what it
# finds wrong. Its times mean nothing here.
#   measure.sh BIN SHARE PLUGIN
set -euo pipefail

bin=$(cd "$1" && pwd)
share=$(cd "$2" && pwd)
plugin=$(realpath "$3")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export TMPDIR=$scratch

fail() {
    printf 'FAILED: %s\n-- out\n%s\n' "$*" "$(cat out 2>&1)" >&2
    exit 1
}
out_has() { for what; do grep -qE -- "$what" out || fail "out has no $what"; done; }
number='[0-9.e+-]+$'

echo "== what all else depends on"
: >out
for what in kernels graph signals collective; do
    "$bin/gpu-measure" contact "$plugin" $what >>out 2>&1 || fail "contact $what"
done
"$bin/gpu-measure" contact "$plugin" overlap 64 2 >>out 2>&1 || fail "contact overlap"
out_has "^contact_overlap_runs 6\$" "^contact_driver_cuda $number" "^contact_nccl $number" "^contact_graph_us $number"

echo "== copies and all-reduces"
"$bin/gpu-measure" copy "$plugin" 3 >out
out_has "^copy_bytes_per_s $number"
"$bin/gpu-measure" all-reduce "$plugin" >out
out_has "^nccl_host_us $number" "^coll_host_us $number" "^coll_calling_host_us $number" "^nccl_host_us_in_graph $number" "^coll_host_us_in_graph $number" "^coll_calling_host_us_in_graph $number"
got=0
"$bin/gpu-measure" copy ./none.so 1 >out 2>&1 || got=$?
[ "$got" -eq 77 ] || fail "without a plugin it ends with $got"

echo "== a word of the data is a token, and the tokenizer is one of ours"
mkdir data model
"$bin/gpu-measure" data "$share/tokenizer.json" data 64
[ "$(wc -l <data/train.jsonl)" -eq 512 ] || fail "not 512 sentences"
"$bin/random-checkpoint" model data/tokenizer.json --vocab-size 30000 --width 32 --layers 1 --heads 2 --context 64 >out
"$bin/launcher" --no-bind --ranks 1 --mode ddp-cpu --checkpoint model --tokenizer data/tokenizer.json --data data/train.jsonl \
    --loss-on all --batch 2 --steps 1 --no-scaling --quiet --out trained >out 2>&1 || fail "training"
grep -q '"tokens": 128,' trained/timings.jsonl || fail "two sentences of 64 words are not 128 tokens"

echo "== logits: the emulated plugin's are the CPU's"
"$bin/gpu-measure" logits - cpu model 20 cpu.logits
"$bin/gpu-measure" logits "$plugin" cuda-exact model 20 gpu.logits
cmp cpu.logits gpu.logits || fail "logits differ"
[ "$(stat -c %s cpu.logits)" -eq $((20 * 30000 * 4)) ] || fail "not 20 rows of logits"

echo "== answers: equal ones, one that parts from what was expected, one to another prompt"
answer() { # OUT PROMPT
    "$bin/launcher" --no-bind --ranks 1 --mode tp-cpu --checkpoint model --prompt "$2" --prompt boCS --ignore-eos --max-new-tokens 4 \
        --quiet --out "$1" >out 2>&1 || fail "answers"
}
answer first anAN
"$bin/gpu-measure" answers model first/results.json first/results.json >out
out_has '^answers 2$' '^answers_different 0$' '^answers_logit_gap 0$'
mkdir second
awk '/"token_ids"/ && !seen++ { at = NR + 2 } NR == at { sub(/[0-9]+/, "7") } { print }' first/results.json >second/results.json
cmp -s first/results.json second/results.json && fail "no answer was changed"
"$bin/gpu-measure" answers model first/results.json second/results.json >out
out_has '^answers_different 1$' '^answers_logit_gap 0*\.?[0-9]*[1-9]'
answer third amAM
got=0
"$bin/gpu-measure" answers model first/results.json third/results.json >out 2>&1 || got=$?
[ "$got" -eq 1 ] || fail "another prompt is taken for the same"
out_has 'answer 1 is to another prompt'
