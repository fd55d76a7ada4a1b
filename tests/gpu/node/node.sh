#!/usr/bin/env bash
# Modes on GPUs from end to end: a real budget-service, launcher, gate and rank, and a plugin that is
# made of the emulator. Every number of ranks has the bits of the CPU's modes.
#   node.sh BUILD LIBRARIES NVML    as common.sh takes them
set -euo pipefail
. "$(dirname "$0")/common.sh"

echo "== refused without a token"
job 6 --mode ddp-nccl "${gpu[@]}" "${train[@]}" --out none
err_has "mode ddp-nccl needs a token"
[ ! -e none/manifest.json ] || fail "a refused job has a record"

echo "== training: one rank with two micro-batches, and two ranks, as on the CPU"
job 0 --mode ddp-cpu --ranks 2 "${train[@]}" "${small[@]}" --out cpu
job 0 --mode ddp-nccl --ranks 1 --micro-batches 2 "${gpu[@]}" "${train[@]}" "${small[@]}" --authorize local --out one
same_model one cpu
job 0 --mode ddp-nccl --ranks 2 "${gpu[@]}" "${train[@]}" "${small[@]}" --bucket-bytes 32768 --authorize local --out two # four
same_model two cpu
has two/manifest.json '"pci": "ffff:00:00.0"' '"unbound_because": null' '"cpus": null' # --no-bind
has one/manifest.json '"nvlink_present": true'
has two/manifest.json '"token": \{' '"id": "[0-9a-f]{32}"' '"account": "lab"' '"actual_cost_usd": 0.0' '"uuid": "GPU-31000000' \
    '"NCCL_ALGO=\^NVLS,NVLSTree"' '"NCCL_NVLS_ENABLE=0"' '"NCCL_RAS_ENABLE=0"' '"NCCL_GRAPH_REGISTER=0"' '"CUDA_VISIBLE_DEVICES=1"' '"nccl": 22800' '"transport": "nccl"' '"algorithm": "direct"' \
    '"libraries": ' '/fake-cuda/libcuda.so.1"' '"nvlink_present": false'

echo "== the memory that was planned is what was asked for, and too little is refused with its parts"
as_planned() { # RECORD: each use of the GPU's memory has the same two figures
    local rows
    rows=$(grep -A2 '"purpose"' "$1/manifest.json" | tr -d ' ,\n' | sed 's/--/\n/g; s/"purpose"/\n&/g' | sed '/^$/d' | sort -u)
    echo "$rows" | grep -q '"purpose":"weights"' || fail "$1 has no memory"
    echo "$rows" | sed 's/.*planned_bytes":\([0-9]*\)"peak_bytes":\([0-9]*\).*/\1 \2/' |
        while read -r planned peak; do [ "$planned" = "$peak" ] || fail "$1: planned $planned, asked for $peak"; done
}
as_planned one
as_planned two
plan_knows() { # RECORD USES ARGUMENTS...: launcher plan says beforehand how many bytes these uses take
    local use held said
    launcher plan "${@:3}" --json >plan.json || fail "launcher plan ${*:3}"
    for use in $2; do
        held=$(grep -A1 "\"purpose\": \"$use\"" "$1/manifest.json" | sed -n 's/.*"planned_bytes": \([0-9]*\).*/\1/p' | sort -u)
        said=$(sed -n "s/.*\"$use\": \([0-9]*\)\.0.*/\1/p" plan.json)
        [ -n "$held" ] && [ "$held" = "$said" ] || fail "$1: launcher plan says $said bytes of $use, and it is $held"
    done
}
plan_knows one "weights optimizer activations" --checkpoint one --ranks 1 --batch 1 --global-batch 2 --precision float32
CUDA_EMULATE_MEMORY=4000000 job 1 --mode ddp-nccl --ranks 1 "${gpu[@]}" "${train[@]}" --authorize local --out none
err_has "training needs " " bytes of the GPU's memory, and " " are free: weights 1882112, optimizer 3764224, activations "

echo "== ranks are bound to the CPUs near their GPU, where the kernel says which"
near() { # DEVICE: trains on a GPU that is said to be this PCI device
    CUDA_EMULATE_PCI=$1 launcher --mode ddp-nccl --ranks 2 "${gpu[@]}" "${train[@]}" "${small[@]}" --overwrite \
        --authorize local --out near >out 2>err </dev/null || fail "near $1"
}
near ffff:1:2
has near/manifest.json '"pci": "ffff:01:02.0"' '"cpus": null' \
    '"unbound_because": "the kernel does not say which CPUs are near the GPU"'
device=$(find /sys/bus/pci/devices/ -mindepth 1 -name '????:??:??.0' 2>/dev/null | head -1)
if [ -n "$device" ] && grep -q '^[0-9]' "$device/local_cpulist"; then
    near "${device##*/}"
    has near/manifest.json "\"pci\": \"${device##*/}\"" '"unbound_because": null' '"memory_near": (true|false)'
    [ "$(grep -cE '"cpus": \[' near/manifest.json)" -eq 2 ] || fail "the record has no CPUs"
fi

echo "== a token is for one job, and for one run"
launcher --mode ddp-nccl --ranks 2 "${gpu[@]}" "${train[@]}" "${small[@]}" --out three --write-job JOB.json >out 2>err || fail "--write-job"
budget-service authorize three 0.00 --vendor local --account lab --job JOB.json --out TOKEN >out 2>err || fail "authorize"
job 6 --mode ddp-nccl --ranks 1 "${gpu[@]}" "${train[@]}" "${small[@]}" --out three --token TOKEN
err_has "wrong-job"
job 0 --job JOB.json --token TOKEN
same_model three cpu
job 6 --job JOB.json --token TOKEN
err_has "was redeemed under another job key"

echo "== a training goes on from the CPU to GPUs, and back"
saved=(--batch 1 --no-scaling "${small[@]}" --save-every 1 --resume --out parts)
job 0 --mode ddp-cpu --ranks 2 "${saved[@]}" --steps 1
job 0 --mode ddp-nccl --ranks 1 --micro-batches 2 "${gpu[@]}" "${saved[@]}" --steps 2 --authorize local
err_has "--resume: goes on after step 1 of 2"
same_model parts cpu
job 0 --mode ddp-nccl --ranks 2 "${gpu[@]}" "${saved[@]}" --steps 3 --authorize local
job 0 --mode ddp-cpu --ranks 2 "${saved[@]}" --steps 4
job 0 --mode ddp-cpu --ranks 2 --batch 1 --no-scaling "${small[@]}" --steps 4 --out four
same_model parts four

echo "== the best model is kept, on the GPU as on the CPU"
printf '{"text": "%s"}\n' "she has a cat" "they went home" >few.jsonl
best=(--batch 1 "${small[@]}" --no-scaling --lr 0.3 --heldout few.jsonl --eval-every 1 --save-every 3)
job 0 --mode ddp-cpu --ranks 2 "${best[@]}" --steps 6 --patience 3 --out best-cpu
has best-cpu/manifest.json '"best": \{' '"stopped_early": true'
job 0 --mode ddp-nccl --ranks 1 --micro-batches 2 "${gpu[@]}" "${best[@]}" --steps 6 --patience 3 --authorize local --out best
same_model best best-cpu
count=$(sed -n 's/.*"model_params": \([0-9]*\).*/\1/p' best/manifest.json)
has best/manifest.json "\"planned_bytes\": $((2 * 4 * count))," # the weights twice
job 0 --mode ddp-cpu --ranks 2 "${best[@]}" --steps 3 --keep-best --out best-parts
job 0 --mode ddp-nccl --ranks 2 "${gpu[@]}" "${best[@]}" --steps 6 --patience 3 --resume --authorize local --out best-parts
same_model best-parts best-cpu

echo "== checkpoints go both ways, and answers are the CPU's"
prompts=(--prompt "he goed to school" --prompt "i has eat" --prompt "she dont like apples" --ignore-eos --max-new-tokens 8 --temperature 1)
job 0 --mode tp-cpu --ranks 1 --checkpoint two --out tp-cpu "${prompts[@]}"
expected=$(cat out)
for ranks in 1 2; do
    job 0 --mode tp-nccl --ranks $ranks --checkpoint cpu --out tp-$ranks "${prompts[@]}" "${gpu[@]}" --authorize local
    [ "$(cat out)" = "$expected" ] || fail "$ranks ranks answer otherwise than the CPU: $expected"
    as_planned tp-$ranks
    has tp-$ranks/manifest.json '"graphs": [1-8],' '"replays": [1-9]' '"capture_failure": null'
done
logprobs() { grep -oE '"(logprob|token_id)": [-0-9.e]+' "$1/results.json"; }
for sampling in "--top-k 5 --logprobs 3" "--top-p 0.8 --logprobs 0"; do
    job 0 --mode tp-cpu --ranks 1 --checkpoint two --out tp-cpu "${prompts[@]}" $sampling
    sampled=$(cat out)
    job 0 --mode tp-nccl --ranks 2 --checkpoint cpu --out drawn "${prompts[@]}" $sampling "${gpu[@]}" --authorize local
    [ "$(cat out)" = "$sampled" ] || fail "2 ranks draw otherwise than the CPU with $sampling: $sampled"
    [ -n "$(logprobs drawn)" ] && [ "$(logprobs drawn)" = "$(logprobs tp-cpu)" ] || fail "2 ranks have other log-probabilities than the CPU with $sampling"
done
# Rank 0 captures nothing, so rank 1 does not either.
CUDA_EMULATE_CAPTURES=0:0 job 0 --mode tp-nccl --ranks 2 --checkpoint cpu --out tp-plain "${prompts[@]}" "${gpu[@]}" --authorize local
[ "$(cat out)" = "$expected" ] || fail "without captures 2 ranks answer otherwise: $expected"
has tp-plain/manifest.json '"graphs": 0' '"capture_failure": "CUDA: beginning a capture' '"capture_failure": "another rank could not'
reduced() { grep -oE '"all_reduce(s|_bytes)_per_token": [0-9.]+' "$1/results.json"; }
[ -n "$(reduced tp-2)" ] && [ "$(reduced tp-plain)" = "$(reduced tp-2)" ] || fail "other all-reduces without captures: $(reduced tp-plain)"

echo "== a Llama"
mkdir llama
echo '{"model_type": "llama", "vocab_size": 512, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
 "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": true}' >llama/config.json
"$build/bin/random-checkpoint" llama cpu/tokenizer.json --like llama >out
llama=(--checkpoint llama --prompt "he goed to school" --prompt "i has eat" --ignore-eos --max-new-tokens 4)
job 0 --mode tp-cpu --ranks 1 --out llama-cpu "${llama[@]}"
expected_llama=$(cat out)
job 0 --mode tp-nccl --ranks 2 --out llama-2 "${llama[@]}" "${gpu[@]}" --authorize local
[ "$(cat out)" = "$expected_llama" ] || fail "a Llama on 2 ranks answers otherwise than the CPU: $expected_llama"
job 0 --mode tp-nccl --ranks 1 --out llama-half "${llama[@]}" --cuda-libs "$libraries" --account lab --precision bfloat16 --authorize local
[ "$(wc -l <out)" -eq 2 ] || fail "a Llama in bfloat16: not two answers"
job 0 --mode ddp-cpu --ranks 2 --checkpoint llama "${train[@]}" --out llama-trained-cpu
job 0 --mode ddp-nccl --ranks 2 --checkpoint llama "${gpu[@]}" "${train[@]}" --authorize local --out llama-trained
same_model llama-trained llama-trained-cpu
as_planned llama-trained
plan_knows llama-trained "weights optimizer activations" --checkpoint llama --ranks 2 --data 2 --batch 1 --global-batch 2 --precision float32
plan_knows llama-2 cache --decode --checkpoint llama --ranks 2 --tensor 2 --batch 16 --precision float32
plan_knows llama-half cache --decode --checkpoint llama --ranks 1 --batch 16 --precision bfloat16
job 2 --mode ddp-nccl --ranks 1 --checkpoint llama --cuda-libs "$libraries" --account lab "${train[@]}" --precision bfloat16 --authorize local --out none
err_has "the family llama trains in float32 only"

echo "== the backend cuda: weights and cache in float32 and in bfloat16"
fast=(--cuda-libs "$libraries" --account lab)
for ranks in 1 2; do
    job 0 --mode tp-nccl --ranks $ranks --checkpoint cpu --out fast-$ranks "${prompts[@]}" "${fast[@]}" --authorize local
    [ "$(cat out)" = "$expected" ] || fail "float32, $ranks ranks: not the CPU's answers, $expected"
    job 0 --mode tp-nccl --ranks $ranks --checkpoint cpu --out half-$ranks "${prompts[@]}" "${fast[@]}" --precision bfloat16 --authorize local
    [ "$(wc -l <out)" -eq 3 ] || fail "bfloat16, $ranks ranks: not three answers"
    err_has "matrices in bfloat16: the model's 0.03 million"
done
[ "$(grep -o '"cache_bytes": [0-9]*' half-1/results.json)" = "\"cache_bytes\": $(($(grep -o '"cache_bytes": [0-9]*' fast-1/results.json | cut -d' ' -f2) / 2))" ] ||
    fail "the cache in bfloat16 has not half the bytes"
job 6 --mode tp-nccl --checkpoint cpu --out none "${prompts[@]}" "${fast[@]}" --precision bfloat16
job 2 --mode tp-nccl --checkpoint cpu --out none "${prompts[@]}" "${fast[@]}" --precision bfloat16 --exact --authorize local
err_has "--exact"
echo "== bfloat16 and TF32: equal bits on 1 and 2 ranks and in both runs, float32 checkpoints both ways"
fast=(--cuda-libs "$libraries" --account lab --authorize local "${train[@]}" "${small[@]}")
job 0 --mode ddp-nccl --ranks 1 --micro-batches 2 "${fast[@]}" --precision bfloat16 --out bfloat16-one
job 0 --mode ddp-nccl --ranks 2 "${fast[@]}" --precision bfloat16 --out bfloat16
same_model bfloat16-one bfloat16
job 0 --mode ddp-nccl --ranks 2 "${fast[@]}" --precision bfloat16 --out bfloat16-again
same_model bfloat16-again bfloat16
has bfloat16/manifest.json '"precision": "bfloat16"' '[nt] bfloat16, aligned' '[nt] bfloat16 to float32, aligned'
job 0 --mode ddp-nccl --ranks 2 "${fast[@]}" --precision tf32 --out tf32
has tf32/manifest.json '"precision": "tf32"' 'tf32, aligned' '"instruction_set": ".*-tf32"'
job 0 --mode ddp-nccl --ranks 2 "${fast[@]}" --out float32
[ "$(printf '%s\n' "$(digests bfloat16)" "$(digests tf32)" "$(digests float32)" | sort -u | wc -l)" -eq 3 ] || fail "two precisions have one model"
job 0 --mode tp-cpu --ranks 1 --checkpoint bfloat16 --out tp-bfloat16 "${prompts[@]:0:2}" --max-new-tokens 3
job 0 --mode ddp-nccl --ranks 1 --cuda-libs "$libraries" --account lab --authorize local "${train[@]}" --checkpoint cpu \
    --precision bfloat16 --out bfloat16-from-cpu
job 2 --mode ddp-cpu "${train[@]}" --precision bfloat16 --out none
err_has "precision bfloat16" "mode ddp-cpu has float32 only"
job 2 --mode ddp-nccl "${fast[@]}" --exact --precision bfloat16 --out none
err_has "precision bfloat16" "--exact"

echo "== the same prompts on one rank, and on replicas"
job 0 --mode tp-nccl --ranks 2 --checkpoint cpu --out baseline "${prompts[@]:0:2}" --max-new-tokens 3 --baseline "${gpu[@]}" --authorize local
has baseline/manifest.json '"speedup": [0-9]' '"device": "emulated GPU 0"' '"vendor": "local"' '"nvlink_present": false'

echo "== NCCL's own all-reduce"
job 0 --mode ddp-nccl --ranks 2 "${gpu[@]}" "${train[@]}" "${small[@]}" --algorithm native --authorize local --out native
has native/manifest.json '"algorithm": "native"'
[ "$(digests native | wc -l)" -eq 1 ] || fail "native: the ranks' parameters differ"

echo "== steps are replayed, with the same bits each time; and where one GPU captures nothing"
again=(--steps 5 --batch 2 --no-scaling "${small[@]}")
nccl=(--mode ddp-nccl --ranks 2 "${gpu[@]}" "${again[@]}" --authorize local)
job 0 --mode ddp-cpu --ranks 2 "${again[@]}" --out again-cpu
for out in replayed-1 replayed-2; do
    job 0 "${nccl[@]}" --out $out
    same_model $out again-cpu
    has $out/manifest.json '"graphs": [3-9]' '"replays": (9|1[0-9])' '"capture_failure": null'
done
CUDA_EMULATE_CAPTURES=0:1 job 0 "${nccl[@]}" --out plain
same_model plain again-cpu
has plain/manifest.json '"graphs": 0' '"capture_failure": "CUDA: beginning a capture' '"capture_failure": "another rank could not'
job 0 "${nccl[@]}" --timing bracketed --out bracketed
same_model bracketed again-cpu

echo "== the record has the GPU's times: a kernel takes 1 ms there, each of NCCL's rounds 250 ms"
times() { # OUT: compute, all-reduce, exposed, optimizer in ms; the same in all steps, run or replayed, and on all ranks
    sed -E 's/.*"compute_ms": ([0-9]+)\.0*, .*"allreduce_ms": ([0-9]+)\.0*, "allreduce_exposed_ms": ([0-9]+)\.0*, "optimizer_ms": ([0-9]+)\.0*, .*/\1 \2 \3 \4/' \
        "$1/timings.jsonl" | sort -u
}
export CUDA_EMULATE_CLOCK=1000000:250000000
job 0 "${nccl[@]}" --timing bracketed --out clock-one
job 0 "${nccl[@]}" --bucket-bytes 20000 --out clock-many # seven
unset CUDA_EMULATE_CLOCK
has clock-one/manifest.json '"clock": "the GPU.s; step_ms: the host.s"'
read -r compute all exposed update <<<"$(times clock-one)"
[ "$(times clock-one)" = "$compute 500 500 $update" ] && [ "$compute" -gt "$update" ] && [ "$update" -gt 2 ] ||
    fail "bracketed: $(times clock-one)"
read -r rest all exposed many <<<"$(times clock-many)"
[ "$(times clock-many)" = "$rest 3500 $exposed $update" ] && [ "$exposed" -lt 3500 ] && [ $((rest + all - exposed)) -eq "$compute" ] ||
    fail "seven buckets: $(times clock-many); bracketed: $(times clock-one)"

echo "== no driver, no such GPU, one GPU twice, no plugin: one line each"
two=(--mode ddp-nccl --ranks 2 "${gpu[@]}" "${train[@]}" "${small[@]}" --authorize local --out none)
CUDA_EMULATE_DRIVER=35 job 9 "${two[@]}"
err_has "error: GPU " "CUDA driver version is insufficient" # of whichever rank says it first
CUDA_EMULATE_GPUS=1 job 9 "${two[@]}"
err_has "GPU 1: " "no CUDA-capable device"
LD_LIBRARY_PATH=$build/tests/bin/nvml FAKE_NVML=xid CUDA_EMULATE_GPUS=1 job 9 "${two[@]}"
err_has "no CUDA-capable device" "; GPU 1 (GPU-bbbb): Xid 79: the GPU has fallen off the bus; GPU 0 (GPU-aaaa): a memory error of two bits"
job 2 "${two[@]}" --devices 1
err_has "devices 1: 1 for 2 ranks"
CUDA_VISIBLE_DEVICES=0 job 9 "${two[@]}"
err_has "there is no GPU for rank 1 of this host"
CUDA_VISIBLE_DEVICES=5,5 job 1 "${two[@]}"
err_has "ranks 0 and 1 use the same GPU, GPU-35000000"
mv node/lib/ringfence/ringfence-cuda.so .
job 9 "${two[@]}"
err_has "built without CUDA"
mv ringfence-cuda.so node/lib/ringfence
[ ! -e none/manifest.json ] || fail "a job without GPUs has a record"

# bench CODE ARGUMENTS...: the same for coll-bench, with the launcher's flags behind --.
bench() { expect "$1" coll-bench "${@:2}" --no-bind --cuda-libs "$libraries" --account lab; }
echo "== coll-bench: the same rows, in device memory, of several kinds"
bench 0 all_reduce --ranks 2 --transport nccl -b 8 -e 2K -f 16 -n 20 -w 1 -J rows.json --
out_has "# Transport nccl, algorithm auto, buffers in the GPU's memory" "# Out of bounds values : 0 OK"
[ "$(grep -cE '^ +[0-9]+ +[0-9]+ +float +sum +-1 ' out)" -eq 3 ] || fail "not three rows"
grep -q '"transport": "nccl"' rows.json || fail "rows.json has no transport"
for kind in reduce_scatter gather; do
    bench 0 $kind --ranks 2 --transport=nccl -b 64 -e 64 -n 5 -w 0 --
    out_has "# Out of bounds values : 0 OK"
done
bench 0 all_reduce --ranks 1 --transport nccl -b 4 -e 4 -n 5 -- --algorithm native
out_has "algorithm native"
echo "== all-reduces beside NCCL's own, and in a graph"
launcher --no-bind --ranks 2 --quiet -- gpu-measure all-reduces node/lib/ringfence/ringfence-cuda.so 2 >out 2>err </dev/null || fail "gpu-measure"
has out "nccl_all_reduce_us_4096 [0-9]" "native_all_reduce_us_1048576 [0-9]" "direct_all_reduce_us_2097152 [0-9]" "direct_replays 3"
echo "== wrong flags are refused, and so is whoever has no token"
bench 2 sendrecv --transport nccl --
err_has "sendrecv is not for --transport nccl"
job 2 --mode bench-nccl "${gpu[@]}" --bench "all_reduce -b 9K -e 8" --authorize local
err_has "-b 9216 is more than -e 8"
job 6 --mode bench-nccl --bench all_reduce --cuda-libs "$libraries"
err_has "mode bench-nccl needs a token"
