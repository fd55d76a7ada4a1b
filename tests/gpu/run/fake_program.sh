#!/bin/sh
# Stands for every program of a bundle in the test of tests/gpu/run.sh. Its name says which one it is,
# and FAKE what it does: nothing special, no-gpu, broken, hangs, drifts.
here=$(dirname "$0")
case $(basename "$0")/$1 in
launcher/--version) echo "fake 0" ;;
launcher/gpus)
    [ "$FAKE" != no-gpu ] || { echo 'launcher: error: no "driver" here' >&2; exit 9; }
    printf '{\n  "memory_free_bytes": 5000000000\n}\n'
    ;;
launcher/*)
    while [ $# -gt 0 ]; do
        [ "$1" != --out ] || out=$2
        shift
    done
    mkdir -p "$out"
    last=2 # the digit that a loss ends with
    [ "$FAKE" != drifts ] || last=7
    for step in 9 8 7 6 5 4 3 2 1 0 19 18 17 16 15 14 13 12 11 10 $(seq 20 59); do
        echo "{\"step\": $step, \"rank\": 1, \"loss\": 1, \"loss_global\": 9, \"tokens\": 1}"
        echo "{\"step\": $step, \"rank\": 0, \"loss\": 1, \"loss_global\": 6.$step$last, \"tokens\": 1}"
    done >"$out/timings.jsonl"
    ;;
gpu-parity/*)
    [ "$FAKE" != hangs ] || exec sleep 100
    [ "$FAKE" != broken ] || { echo "[  FAILED  ] layernorm"; exit 1; }
    printf '[       OK ] layernorm\n[       OK ] gelu\n'
    ;;
budget-service/serve)
    echo ready
    exec sleep 100
    ;;
esac
