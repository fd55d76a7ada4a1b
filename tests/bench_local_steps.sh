#!/usr/bin/env bash
# Two ranks on two hosts that a slow link joins, with gradients in each step and with rounds of local steps:
# bench_local_steps.sh BIN [ROUNDS]. Two network namespaces stand for the hosts. Needs root, iproute2 and two processors.
set -euo pipefail

launcher=$1/launcher
rounds=${2:-3}
# shellcheck source=tests/two_hosts.sh
. "$(dirname "$0")/two_hosts.sh"
make_hosts "local steps over a slow link"

# train LOCAL_STEPS STEPS
train() {
    on_two_hosts --mode ddp-cpu --ranks 2 --transport tcp --no-scaling --overwrite --out "$scratch/out" \
        --local-steps "$1" --steps "$2"
}

median() {
    sort -g "$1" | awk '{ v[NR] = $1 } END { printf "%.0f (%.0f to %.0f)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}

for rate in 10gbit 100mbit 10mbit; do
    limit_link "$rate" 32k 400ms
    for _ in $(seq "$rounds"); do
        for local in 1 50; do
            train "$local" $((local == 1 ? 20 : 100))
            field tokens_per_sec >>"$scratch/$rate.$local"
        done
    done
    for local in 1 50; do
        echo "$rate, --local-steps $local: $(median "$scratch/$rate.$local") tokens/s"
    done
done
echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
