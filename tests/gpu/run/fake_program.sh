#!/bin/sh
# Stands for every program of a bundle in the test of tests/gpu/run.sh. Its name says which one it is,
# and the words of FAKE what it does: no-gpu, broken, hangs, drifts, differs, slow-copy, slow-host, leaves.
here=$(dirname "$0")

fakes() { # WORD
    case " $FAKE " in *" $1 "*) ;; *) return 1 ;; esac
}

# A record of training, and answers.
write_record() {
    mkdir -p "$1"
    last=2 # the digit that a loss ends with
    ! fakes drifts || last=7
    for step in 9 8 7 6 5 4 3 2 1 0 19 18 17 16 15 14 13 12 11 10 $(seq 20 59); do
        echo "{\"step\": $step, \"rank\": 1, \"loss\": 1, \"loss_global\": 9, \"tokens\": 1}"
        echo "{\"step\": $step, \"rank\": 0, \"loss\": 1, \"loss_global\": 6.$step$last, \"tokens\": 1}"
    done >"$1/timings.jsonl"
    cat >"$1/manifest.json" <<'END'
{
  "tokens_per_sec_1proc": 400000.5,
  "state": [
    {
      "planned_bytes": 7
    }
  ],
  "gpu": {
    "devices": [
      {
        "memory": [
          {
            "purpose": "weights",
            "planned_bytes": 3000,
            "peak_bytes": 3000
          },
          {
            "purpose": "work",
            "planned_bytes": 1000,
            "peak_bytes": 900
          }
        ],
        "memory_used_bytes": 4200,
      }
    ]
  }
}
END
    printf '{\n  "p50": 0.25,\n  "weight_bytes": 250000000,\n}\n' >"$1/results.json"
}

case $(basename "$0")/$1 in
launcher/--version) echo "fake 0" ;;
launcher/gpus)
    ! fakes no-gpu || { echo 'launcher: error: no "driver" here' >&2; exit 9; }
    printf '{\n  "memory_free_bytes": 5000000000\n}\n'
    ;;
launcher/*)
    while [ $# -gt 0 ]; do
        [ "$1" != --out ] || out=$2
        shift
    done
    write_record "$out"
    ;;
gpu-parity/*)
    ! fakes hangs || exec sleep 100
    if fakes leaves; then
        cp "$(command -v sleep)" "$here/rank"
        setsid "$here/rank" 100 >/dev/null 2>&1 &
    fi
    ! fakes broken || { echo "[  FAILED  ] layernorm"; exit 1; }
    printf '[       OK ] layernorm\n[       OK ] gelu\n'
    ;;
gpu-measure/answers)
    different=0
    ! fakes differs || different=1
    printf 'answers 10\nanswers_different %s\nanswers_logit_gap 2e-5\n' $different
    ;;
gpu-measure/copy)
    ! fakes slow-copy || { echo "no copy" >&2; exit 1; }
    echo 'copy_bytes_per_s 1.25e+12'
    ;;
gpu-measure/all-reduce)
    ! fakes slow-host || exec sleep 100
    printf 'nccl_host_us 2.5\ncoll_host_us 4\ncoll_calling_host_us 9\n'
    ;;
coll-bench/*) echo '# Out of bounds values : 0 OK' ;;
budget-service/serve)
    echo ready
    exec sleep 100
    ;;
esac
