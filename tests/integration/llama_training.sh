#!/usr/bin/env bash
# A Llama is trained through the launcher: data-parallel, as a pipeline, and going on from a checkpoint; and
# the directory that comes out is a model like the one that went in.
#   llama_training.sh BIN TOKENIZER SCRATCH
tokenizer=$2
# shellcheck source=tests/integration/models.sh
. "${0%/*}/models.sh" "$1" "$3"

# Heads that share keys and values, and are together wider than the stream; an output of its own.
cat >shape/config.json <<'END'
{"model_type": "llama", "vocab_size": 512, "hidden_size": 48, "intermediate_size": 128, "num_hidden_layers": 4,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
 "max_position_embeddings": 256, "hidden_act": "silu", "tie_word_embeddings": false}
END
random-checkpoint model "$tokenizer" --like shape

train() { # DIRECTORY ARGUMENTS...
    launcher --checkpoint "${from:-model}" --context 64 --quiet --no-bind --no-scaling --out "$@" 2>err || fail "$*: $(cat err)"
}
same() { cmp "$1/model.safetensors" "$2/model.safetensors" || fail "$1 and $2 have other parameters"; }
loss() { grep -o "\"loss_$2\": [0-9.]*" "$1/manifest.json" | head -1 | cut -d' ' -f2; }

train two --ranks 2 --steps 60 --lr 3e-3
awk "BEGIN { exit !($(loss two last) < $(loss two first) - 0.8) }" || fail "the loss goes from $(loss two first) to $(loss two last)"
train few --ranks 2 --steps 12 --lr 3e-3
train one --ranks 1 --micro-batches 2 --steps 12 --lr 3e-3
same one few
for stage in 1 2 3; do
    train sharded --ranks 2 --steps 12 --lr 3e-3 --zero "$stage" --bucket-bytes 16384
    same sharded few
done
for stages in 1 3; do
    train "pipeline-$stages" --mode pp-cpu --ranks "$stages" --micro-batches 4 --steps 4
done
same pipeline-1 pipeline-3
train chunks --mode pp-cpu --ranks 4 --stages 2 --tensor 2 --micro-batches 4 --steps 4 --pipeline interleaved
same chunks pipeline-1
train split --mode pp-cpu --ranks 3 --micro-batches 4 --steps 4 --pipeline zb-h1
same split pipeline-1
train split-parts --mode pp-cpu --ranks 4 --stages 2 --tensor 2 --micro-batches 4 --steps 4 --pipeline zb-h1
same split-parts pipeline-1
mkdir -p tied/shape tied/model
sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' shape/config.json >tied/shape/config.json
random-checkpoint tied/model "$tokenizer" --like tied/shape
from=tied/model train tied-one --ranks 1 --micro-batches 4 --steps 4
from=tied/model train tied-chunks --mode pp-cpu --ranks 4 --stages 2 --micro-batches 2 --steps 4 --pipeline interleaved
same tied-one tied-chunks
grep -q '"architecture": "llama, .*, an output of its own"' pipeline-3/manifest.json || fail "the record says $(grep architecture pipeline-3/manifest.json)"
grep -q '"byte_equivalent": null' pipeline-3/manifest.json || fail "stages without a tied matrix compare it"
launcher --checkpoint model --context 64 --mode pp-cpu --ranks 2 --micro-batches 2 --steps 1 --no-bind --no-scaling --out printed >lines
! grep -q "tied matrix" lines || fail "says: $(grep "tied matrix" lines)"

# Ranks that share batches exchange a head of keys and values once where each has whole groups of heads, and else once
# for each head of queries: as planned, to the byte.
for i in $(seq 400); do echo "$i words make a text of which every window is full"; done >text.txt
for ranks in 2 4; do
    train "shared-$ranks" --ranks $ranks --context-ranks $ranks --data text.txt --steps 2 --batch 4
    exchanged=$(tr -d ' \n' <"shared-$ranks/manifest.json" | grep -oE '"kind":"alltoall","calls":[0-9.]*,"bytes":[0-9]*' | head -1 | grep -oE '[0-9]*$')
    launcher plan --checkpoint model --ranks $ranks --data 1 --context-ranks $ranks --context 64 --batch 4 --global-batch 4 --json >plan.json 2>err
    planned=$(tr -d ' \n' <plan.json | grep -oE '"operation":"all_to_all"[^}]*' |
        awk -F'[:,]' '{ sum += $8 * $10 } END { printf "%.0f", sum }')
    [ -n "$exchanged" ] && [ "$exchanged" = "$planned" ] || fail "$ranks ranks exchange $exchanged bytes, and planned are $planned"
done
# 4 layers, forward and backward, 4 × 64 tokens: 64 columns of queries and of attention's output, and of keys and of
# values 32 or 64
grep -q "\"bytes\": $((8 * 128 * (128 + 64) * 4))\.0" shared-2/manifest.json || fail "$(grep -A2 alltoall shared-2/manifest.json)"
grep -q "\"bytes\": $((8 * 64 * (128 + 128) * 4))\.0" shared-4/manifest.json || fail "$(grep -A2 alltoall shared-4/manifest.json)"

# Stages send what is planned, to the byte but for the norm and losses: activations, of each micro-batch the tied
# gradient, and its sum back. The plan, the record and pipeline-simulate have the same bubble of equal stages, and plan and record hold as many
# micro-batches.
for schedule in gpipe 1f1b interleaved zb-h1; do
    from=tied/model train "bill-$schedule" --mode pp-cpu --ranks 2 --data text.txt --steps 2 --batch 4 --micro-batches 4 --pipeline "$schedule"
    launcher plan --checkpoint tied/model --ranks 2 --data 1 --pipeline 2 --context 64 --batch 4 --global-batch 16 --schedule "$schedule" --json >plan.json 2>err || fail "$(cat err)"
    plan=$(tr -d ' \n' <plan.json)
    planned() { grep -oE "\"what\":\"$1\"[^}]*" <<<"$plan" | grep -oE '"sent_bytes":[0-9]*' | cut -d: -f2; }
    mapfile -t sent < <(grep -oE '"bytes_sent": [0-9]*' "bill-$schedule/manifest.json" | cut -d' ' -f2)
    mapfile -t held < <(grep -oE '"held": [0-9]*' "bill-$schedule/manifest.json" | cut -d' ' -f2)
    rest=$((sent[0] - $(planned activations) - $(planned "tiedsum")))
    [ "$rest" -ge 0 ] && [ "$rest" -lt 100 ] && [ $((sent[1] - $(planned activations) - $(planned "tiedgradient"))) = "$rest" ] ||
        fail "$schedule: stages send ${sent[*]} bytes, and the plan has $(grep -o '"bill":.*]' <<<"$plan")"
    formula=$(grep -oE '"bubble_formula": [0-9.]*' "bill-$schedule/manifest.json" | cut -d' ' -f2)
    awk "BEGIN { d = $formula - $(grep -oE '"bubble_of_equal_stages":[0-9.]*' <<<"$plan" | cut -d: -f2); exit !(d < 1e-8 && d > -1e-8) }" &&
        grep -qF "\"held\":[${held[0]},${held[1]}]" <<<"$plan" &&
        pipeline-simulate --stages 2 --micro-batches 4 | grep -qE "^$schedule .* $(awk "BEGIN { printf \"%.1f\", 100 * $formula }") % " ||
        fail "$schedule: the record has a bubble of $formula and holds ${held[*]}, and the plan has $(grep -o '"pipeline":{"schedule[^}]*' <<<"$plan")"
done

# Some steps, and the rest in another job.
train resumed --ranks 2 --steps 4 --lr 3e-3 --save-every 4
train resumed --ranks 2 --steps 12 --lr 3e-3 --save-every 4 --resume
same resumed few

# Of the same sizes, but another model: rope turns otherwise.
cp -r model other
sed -i 's/"rope_theta": 10000.0/"rope_theta": 500.0/' other/config.json
if launcher --checkpoint other --context 64 --ranks 2 --steps 80 --out resumed --resume --quiet 2>err; then
    fail "a training goes on as another model"
fi
grep -q "its config.json says another model" err || fail "refused, but so: $(cat err)"

# A job's own words about the checkpoint must be true.
train none --ranks 1 --steps 1 --write-job job.json
for lie in 's/"context":64/"context":257/' 's/"width":48/"width":64/' 's/"heads":4/"heads":8/' 's/"vocab_size":512/"vocab_size":600/'; do
    sed "$lie" job.json >lie.json
    if launcher --job lie.json --quiet 2>err; then
        fail "$lie: is not refused"
    fi
    grep -q "the job has model\..*config.json" err && [ "$(wc -l <err)" -eq 1 ] || fail "$lie: refused, but so: $(cat err)"
done

grep -q '"max_position_embeddings": 256' two/config.json || fail "--context has become the model's"
grep -q '"tie_word_embeddings": false' two/config.json || fail "the model has another config.json"
launcher --mode tp-cpu --ranks 2 --checkpoint two --prompt "he go to school" --quiet --no-bind --out answer >said || fail "does not decode"
grep -q . said || fail "says nothing"

if launcher --checkpoint model --ranks 1 --steps 1 --out none --context 257 2>err; then
    fail "a context longer than the model's is not refused"
fi
grep -q -- "--context" err || fail "refused, but not for --context: $(cat err)"
# A tokenizer of Llama 3's kind, with its name for the end of a text.
mkdir -p three/shape three/model
sed 's/<|endoftext|>/<|end_of_text|>/g' "$(dirname "$tokenizer")/hub_llama3.json" >three/tokenizer.json
sed 's/"vocab_size": 512/"vocab_size": 544/' shape/config.json >three/shape/config.json
random-checkpoint three/model three/tokenizer.json --like three/shape
launcher --checkpoint three/model --context 64 --ranks 2 --steps 2 --quiet --no-bind --no-scaling --out three/out 2>err || fail "$(cat err)"
grep -q '"eos_token_id": 0' three/out/generation_config.json || fail "the end is another token than <|end_of_text|>"
grep -q '"eos_token": "<|end_of_text|>"' three/out/tokenizer_config.json || fail "the end has another name than <|end_of_text|>"
sed -i 's/<|end_of_text|>/<|of_text|>/g' three/model/tokenizer.json
if launcher --checkpoint three/model --context 64 --ranks 1 --steps 1 --no-bind --out none 2>err; then
    fail "a tokenizer without an end is not refused"
fi
grep -q "to end sentences with" err || fail "refused, but so: $(cat err)"
rm -rf none
mkdir broken
cp model/* broken
sed -i 's/"num_key_value_heads": 2/"num_key_value_heads": 3/' broken/config.json
if launcher --checkpoint broken --ranks 1 --steps 1 --out none 2>err; then
    fail "heads that cannot be shared are not refused"
fi
grep -q "not a multiple of 3 heads of keys" err && [ "$(wc -l <err)" -eq 1 ] || fail "refused, but so: $(cat err)"
# Before a token is redeemed.
if launcher --checkpoint model --mode ddp-nccl --ranks 1 --steps 1 --precision bfloat16 --dry-run --out none >said 2>err; then
    fail "bfloat16 is not refused at once"
fi
grep -q "trains in float32 only" err || fail "bfloat16 is refused, but so: $(cat err)"
mkdir bare
cp model/{config.json,model.safetensors,tokenizer.json} bare
sed -i 's/"max_position_embeddings": 256/"max_position_embeddings": 64/; s/"num_key_value_heads": 2/"num_key_value_heads": 3/' bare/config.json
if launcher --checkpoint bare --ranks 1 --steps 1 --out none 2>err; then
    fail "a checkpoint with a wrong config.json is not looked at"
fi
grep -q "^launcher: error: .*not a multiple of 3 heads of keys" err && [ "$(wc -l <err)" -eq 1 ] || fail "refused, but so: $(cat err)"
[ ! -e none ] || fail "a refused training has a record"
echo "llama-training: passed"
