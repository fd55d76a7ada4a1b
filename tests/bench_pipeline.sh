#!/usr/bin/env bash
# The bubble of a pipeline in each schedule, in turns: bench_pipeline.sh BIN [ROUNDS] [FLAGS of launcher]. Two stages, for
# which two processors must be quiet. Run by ./dev bench pipeline.
set -euo pipefail

launcher=$1/launcher
rounds=${2:-3}
flags=(--mode pp-cpu --ranks 2 --layers 8 --width 512 --heads 8 --micro-batches 4 --batch 8 --steps 6 "${@:3}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# field NAME: the largest value of that name in the record.
field() {
    sed -n "s/^ *\"$1\": \([-0-9.e]*\),\{0,1\}$/\1/p" "$scratch/out/manifest.json" | sort -g | tail -1
}

# median COLUMN FACTOR: of a schedule's rounds, with the least and the most.
median() {
    cut -d' ' -f"$1" "$scratch/$schedule" | sort -g |
        awk -v by="$2" '{ v[NR] = by * $1 } END { printf "%.1f (%.1f to %.1f)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}

schedules=(gpipe 1f1b interleaved zb-h1)
for ((round = 0; round < rounds; round++)); do
    for schedule in "${schedules[@]}"; do
        "$launcher" "${flags[@]}" --pipeline "$schedule" --no-scaling --quiet --overwrite --out "$scratch/out" >/dev/null
        echo "$(field bubble_measured) $(field bubble_played) $(field bubble_formula) $(field step_ms) $(field held)" >>"$scratch/$schedule"
    done
done
echo "launcher ${flags[*]}: medians of $rounds rounds"
printf '%-12s %24s %24s %10s %26s %6s\n' schedule 'bubble measured, %' 'played, %' 'formula, %' 'step, ms' held
for schedule in "${schedules[@]}"; do
    read -r _ _ formula _ held <"$scratch/$schedule"
    printf '%-12s %24s %24s %10s %26s %6s\n' "$schedule" "$(median 1 100)" "$(median 2 100)" \
        "$(awk -v share="$formula" 'BEGIN { printf "%.1f", 100 * share }')" "$(median 4 1)" "$held"
done
