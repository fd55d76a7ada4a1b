#!/usr/bin/env bash
# A job on two hosts against the same job on one, in turns: bench_hosts.sh BIN [ROUNDS]. Two network namespaces stand
# for the hosts, and a link of 10 Gbit/s (a token bucket on a veth pair) for the network. Needs root, iproute2 and two
# processors.
set -euo pipefail

launcher=$1/launcher
rounds=${2:-7}
scratch=$(mktemp -d)
hosts=("rf-bench-$$-0" "rf-bench-$$-1")
finish() {
    ip netns del "${hosts[0]}" 2>/dev/null || true
    ip netns del "${hosts[1]}" 2>/dev/null || true
    rm -rf "$scratch"
}
trap finish EXIT

if ! command -v tc >/dev/null || ! ip netns add "${hosts[0]}" 2>/dev/null || ! ip netns add "${hosts[1]}"; then
    echo "two hosts against one: skipped, needs root, network namespaces and iproute2"
    exit
fi
ip -n "${hosts[0]}" link add net type veth peer name net netns "${hosts[1]}"
for i in 0 1; do
    ip -n "${hosts[i]}" addr add "10.78.0.$((i + 1))/24" dev net
    ip -n "${hosts[i]}" link set lo up
    ip -n "${hosts[i]}" link set net up
    tc -n "${hosts[i]}" qdisc add dev net root tbf rate 10gbit burst 256k latency 10ms
done

flags=(--mode ddp-cpu --ranks 2 --transport tcp --no-scaling --no-plots --overwrite --out "$scratch/out")

# The namespaces do not see each other's claims to processors, so no rank is bound, on one host neither.
on_host() {
    local node=$1
    shift
    exec ip netns exec "${hosts[node]}" "$launcher" --nodes 2 --node-rank "$node" --no-bind --quiet \
        --rendezvous tcp://10.78.0.1:29400 --job-key "$scratch/key" "$@"
}

one_host() {
    ip netns exec "${hosts[0]}" "$launcher" --no-bind --quiet "${flags[@]}" "$@" >/dev/null 2>&1
}

two_hosts() {
    (on_host 1 >/dev/null 2>&1) &
    agent=$!
    (on_host 0 "${flags[@]}" "$@" >/dev/null 2>&1)
    wait "$agent"
}

# field NAME: the greatest value of that name in the manifest.
field() {
    sed -n "s/^ *\"$1\": \([-0-9.e]*\),\{0,1\}$/\1/p" "$scratch/out/manifest.json" | sort -g | tail -1
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

"$launcher" make-job-key "$scratch/key" >/dev/null
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
