# A link with a delay. Run by run.sh.

# delayed NAME MILLISECONDS: every connection of a host, in both directions, from now on.
delayed() {
    docker run -d --name "$test-relay-$1" --network "container:$test-$1" --label "ringfence=$test" --cap-add NET_ADMIN \
        -v "$here/delay.pl:/delay.pl:ro" "$tools" perl /delay.pl 9 "$2" 35 >/dev/null
    hears "relay-$1" ready
    with "$1" nft "add table ip relay;
        add chain ip relay out { type nat hook output priority -100; };
        add rule ip relay out oif eth0 meta mark != 35 tcp dport != 53 redirect to :9;
        add chain ip relay in { type nat hook prerouting priority -100; };
        add rule ip relay in iif eth0 meta l4proto tcp redirect to :9"
}

test_packets_delayed() {
    started
    agent 1 2
    delayed agent-1 20
    head 2 $small --steps 20
    ends head 0
    ends agent-1 0
    result "$(docker logs "$test-head" 2>&1 | grep '^speed:')"
}

# per_token FILE: of what a token took, the median of all texts' medians, and of their 99th percentiles.
per_token() {
    for name in p50 p99; do
        grep -oE "\"$name\": [0-9.e+-]+" "$1" | sort -g -k 2 | awk -v "name=$name" '{ all[NR] = $2 }
            END { printf " %s %.2f ms", name, all[int((NR + 1) / 2)] }'
    done
}

# Each token waits for two all-reduces a layer, one after the other. On a link with a delay this is what it
# takes, however small the model.
long_test_decoding_across_a_delay() {
    local decode="--mode tp-cpu --checkpoint /checkpoint --ignore-eos --max-new-tokens 60 --quiet
        --prompts /opt/ringfence/share/ringfence/prompts.txt --max-num-seqs 1 --out /records/answers"
    started
    mkdir -p "$scratch"/{model,records} && chown "$uid" "$scratch"/{model,records}
    docker run --rm --user "$uid" -v "$scratch/model:/model" "$image" --ranks 1 --steps 50 --out /model/a \
        --context 128 --quiet --no-scaling >/dev/null
    local model=(-v "$scratch/model/a:/checkpoint:ro")
    local told="" place
    for milliseconds in none 0 1 5; do
        place="$milliseconds ms each way:"
        [ "$milliseconds" != 0 ] || place="two hosts:"
        [ "$milliseconds" != none ] || place="one host:"
        options=("${model[@]}" --tmpfs "/records:uid=$uid")
        [ "$milliseconds" = none ] || agent 1 2
        [ "${milliseconds/none/0}" = 0 ] || delayed agent-1 "$milliseconds"
        options=("${model[@]}" -v "$scratch/records:/records")
        if [ "$milliseconds" = none ]; then
            box head "${options[@]}" "$image" --ranks 2 $decode
        else
            head 2 $decode
        fi
        ends head 0
        told+="$place$(per_token "$scratch/records/answers/results.json"); "
        rm -r "$scratch/records/answers"
        docker rm -f "$test-head" "$test-agent-1" "$test-relay-agent-1" >/dev/null 2>&1 || true
    done
    result "$told"
}
