#!/usr/bin/env bash
# A job on two hosts against the same job on one, in turns: bench_hosts.sh BIN [ROUNDS]. Two network namespaces stand
# for the hosts, and a link of 10 Gbit/s (a token bucket on a veth pair) for the network. Needs root, iproute2 and two
# processors.
set -euo pipefail

launcher=$1/launcher
rounds=${2:-7}
# shellcheck source=tests/two_hosts.sh
. "$(dirname "$0")/two_hosts.sh"
make_hosts "two hosts against one"
limit_link 10gbit 256k 10ms

flags=(--mode ddp-cpu --ranks 2 --transport tcp --no-scaling --overwrite --out "$scratch/out")

one_host() {
    ip netns exec "${hosts[0]}" "$launcher" --no-bind --quiet "${flags[@]}" "$@" >/dev/null 2>&1
}

two_hosts() {
    on_two_hosts "${flags[@]}" "$@"
}

# over_the_step COMMAND: the wall time of a job of one step, less the step, in milliseconds.
over_the_step() {
    local began ended
    began=$(date +%s%N)
    "$1" --steps 1
    ended=$(date +%s%N)
    awk -v ns=$((ended - began)) -v step="$(field step_ms)" 'BEGIN { printf "%.1f\n", ns / 1e6 - step }'
}

tokens() {
    "$1" --steps 100
    field tokens_per_sec_2proc
}

median() {
    sort -g "$1" | awk '{ v[NR] = $1 } END { printf "%.1f (%.1f to %.1f)", v[int((NR + 1) / 2)], v[1], v[NR] }'
}

for where in one_host two_hosts; do over_the_step "$where" >/dev/null; done
for _ in $(seq "$rounds"); do
    for where in one_host two_hosts; do
        over_the_step "$where" >>"$scratch/$where.start"
        tokens "$where" >>"$scratch/$where.tokens"
    done
done
for where in one_host two_hosts; do
    echo "$where: over the step $(median "$scratch/$where.start") ms; $(median "$scratch/$where.tokens") tokens/s"
done

# What an agent does while its rank trains is heartbeats, and nothing else.
(on_host 1 >/dev/null 2>&1) &
agent=$!
(on_host 0 "${flags[@]}" --steps 1000000 >/dev/null 2>&1) &
head=$!
spent() { awk '{ print $1 }' "/proc/$1/schedstat"; }
sleep 2
before=$(spent "$agent")
sleep 5
after=$(spent "$agent")
kill -INT "$head"
wait "$head" "$agent" || true
echo "an agent's heartbeats take $(((after - before) / 5000)) us of processor time a second"
echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
