# The figures of docs/BENCHMARKS.md: two containers against two processes of one container. Run by run.sh.

# median: of the numbers on standard input.
median() {
    sort -g | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}

# places PLACE FLAGS...: runs a job in two containers, or with two ranks in one, and prints what it says.
places() {
    local place=$1
    shift
    if [ "$place" = containers ]; then
        agent_flags=()
        [[ " $* " != *" -- "* ]] || agent_flags=(--ranks 2 "$@") # a program stands on each host
        box agent-1 "$image" --nodes 2 --node-rank 1 --rendezvous tcp://head:29400 --job-key /keys/job.key "${agent_flags[@]}"
        head 2 --ranks 2 "$@"
    else
        box head "$image" --ranks 2 "$@"
    fi
    ends head 0
    docker logs "$test-head" 2>&1
    docker rm -f "$test-head" "$test-agent-1" >/dev/null 2>&1 || true
}

long_test_figures() {
    local told="" place transport bytes
    started
    for _ in 1 2 3 4 5; do
        places containers --transport tcp | sed -n 's/^speed: \([0-9]*\).*/\1/p' >>"$scratch/containers-tcp"
        for transport in tcp shm; do
            places processes --transport "$transport" --no-scaling | sed -n 's/^speed: \([0-9]*\).*/\1/p' >>"$scratch/processes-$transport"
        done
    done
    told="tokens/s: two containers, tcp $(median <"$scratch/containers-tcp"); two processes, tcp"
    told+=" $(median <"$scratch/processes-tcp"), shm $(median <"$scratch/processes-shm")"
    for _ in 1 2 3; do
        for place in containers processes; do
            places "$place" --transport tcp -- coll-bench all_reduce -b 8 -e 16M -f 16 |
                sed 's/^\[rank 0\] //' | awk '$1 ~ /^[0-9]+$/ { print }' >>"$scratch/all-reduce-$place"
        done
    done
    for place in containers processes; do
        cat "$scratch/all-reduce-$place" >&2
        told+=$'\n'"    all-reduce, $place, us:"
        for bytes in $(awk '{ print $1 }' "$scratch/all-reduce-$place" | sort -nu); do
            told+=" $bytes: $(awk -v "bytes=$bytes" '$1 == bytes { print $6 }' "$scratch/all-reduce-$place" | median)"
        done
    done
    result "$told"
}
