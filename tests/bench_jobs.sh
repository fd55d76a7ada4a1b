#!/usr/bin/env bash
# Whole jobs, timed: bench_jobs.sh BIN. Speed-up of two ranks, start-up, memory. Run by ./dev bench.
set -euo pipefail

launcher=$1/launcher
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# field NAME: the values of that name in the manifest, one a line.
field() {
    sed -n "s/^ *\"$1\": \([-0-9.e]*\),\{0,1\}$/\1/p" "$scratch/out/manifest.json"
}

job() {
    "$launcher" --ranks 2 --mode ddp-cpu --out "$scratch/out" --overwrite --quiet "$@" \
        >/dev/null 2>&1
}

# The job's wall time in milliseconds, less its step.
overhead() {
    local began ended
    began=$(date +%s%N)
    job --steps 1 --no-scaling
    ended=$(date +%s%N)
    awk -v ns=$((ended - began)) -v step="$(field step_ms | sort -n | tail -1)" \
        'BEGIN { printf "%.1f\n", ns / 1e6 - step }'
}

echo "launcher --ranks 2 --mode ddp-cpu, the default model and data"
for _ in 1 2 3; do
    job --steps 100
    awk -v one="$(field tokens_per_sec_1proc)" -v two="$(field tokens_per_sec_2proc)" \
        'BEGIN { printf "  1 rank %.0f tokens/s, 2 ranks %.0f: %.2f times as many\n", one, two, two / one }'
done
field max_rss_bytes | awk '{ printf "  a rank'\''s peak resident memory: %.1f MB\n", $1 / 1e6 }'
for _ in 1 2 3 4 5 6 7; do overhead; done | sort -n |
    awk '{ v[NR] = $1 } END { printf "  a job of one step, over the step: median %.1f ms (%.1f to %.1f)\n",
                              v[int((NR + 1) / 2)], v[1], v[NR] }'
