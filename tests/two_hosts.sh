# Two network namespaces that stand for hosts, for benchmarks. Sourced with $launcher set: makes $scratch, and removes
# all of it at the end. The link between them is a token bucket on a veth pair. Needs root and iproute2.
scratch=$(mktemp -d)
hosts=("rf-bench-$$-0" "rf-bench-$$-1")
finish() {
    ip netns del "${hosts[0]}" 2>/dev/null || true
    ip netns del "${hosts[1]}" 2>/dev/null || true
    rm -rf "$scratch"
}
trap finish EXIT

# make_hosts WHAT: ends the script, which says that WHAT is skipped, where there can be none.
make_hosts() {
    local i
    if ! command -v tc >/dev/null || ! ip netns add "${hosts[0]}" 2>/dev/null || ! ip netns add "${hosts[1]}"; then
        echo "$1: skipped, needs root, network namespaces and iproute2"
        exit
    fi
    ip -n "${hosts[0]}" link add net type veth peer name net netns "${hosts[1]}"
    for i in 0 1; do
        ip -n "${hosts[i]}" addr add "10.78.0.$((i + 1))/24" dev net
        ip -n "${hosts[i]}" link set lo up
        ip -n "${hosts[i]}" link set net up
    done
    "$launcher" make-job-key "$scratch/key" >/dev/null
}

# limit_link RATE BURST LATENCY: as tc's tbf takes them.
limit_link() {
    local i
    for i in 0 1; do
        tc -n "${hosts[i]}" qdisc replace dev net root tbf rate "$1" burst "$2" latency "$3"
    done
}

# The namespaces do not see each other's claims to processors, so no rank is bound, on one host neither.
on_host() {
    local node=$1
    shift
    exec ip netns exec "${hosts[node]}" "$launcher" --nodes 2 --node-rank "$node" --no-bind --quiet \
        --rendezvous tcp://10.78.0.1:29400 --job-key "$scratch/key" "$@"
}

# on_two_hosts FLAG...: a job of the head's flags.
on_two_hosts() {
    local agent
    (on_host 1 >/dev/null 2>&1) &
    agent=$!
    (on_host 0 "$@" >/dev/null 2>&1)
    wait "$agent"
}

# field NAME: the greatest value of that name in the manifest of $scratch/out.
field() {
    sed -n "s/^ *\"$1\": \([-0-9.e]*\),\{0,1\}$/\1/p" "$scratch/out/manifest.json" | sort -g | tail -1
}
