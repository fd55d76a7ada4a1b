# Somebody on the job's network, without its key: joins, reads, injects, replays. Run by run.sh.

# captured FILE NAME PACKETS: what a host sends and receives from now on.
captured() {
    docker run -d --name "$test-dump-$2" --network "container:$test-$2" --label "ringfence=$test" --cap-add NET_RAW \
        --cap-add NET_ADMIN -v "$scratch:/captures" "$tools" \
        tcpdump -Z root -i eth0 -s 0 -U -c "$3" -w "/captures/$1" tcp >/dev/null
    until_true "$patience" test -s "$scratch/$1" || fail "tcpdump does not start"
}

# seen_on_wire FILE HOW: trains 20 steps under --tcp-auth HOW, and captures them.
seen_on_wire() {
    agent 1 2
    captured "$1" agent-1 20000
    head 2 $small --transport tcp --tcp-auth "$2" --steps 20
    ends head 0
    docker stop -t 5 "$test-dump-agent-1" >/dev/null
    docker rm -f "$test-dump-agent-1" "$test-head" "$test-agent-1" >/dev/null
}

# Gradients depend on the seed alone, so what one job has sent is in the next one's packets too, unless they
# are encrypted. The two jobs have their own connections, keys and tags: nothing else is the same.
test_gradients_on_the_wire() {
    started
    local plain mac encrypted
    seen_on_wire known.pcap off
    seen_on_wire mac.pcap mac
    seen_on_wire encrypted.pcap encrypt
    mac=$(perl "$here/wire.pl" common "$scratch/known.pcap" "$scratch/mac.pcap")
    encrypted=$(perl "$here/wire.pl" common "$scratch/known.pcap" "$scratch/encrypted.pcap")
    [ "${mac#* of }" -ge 100 ] && [ "${mac% of *}" -ge 50 ] || fail "with mac: $mac pieces"
    [ "${encrypted% of *}" = 0 ] || fail "with encrypt: $encrypted pieces"
    result "pieces of gradients that were found: $mac with mac, $encrypted with encrypt"
}

# stranger COMMAND: in a container of the network that has no key of the job, nor privileges.
stranger() {
    docker run --rm -i --network "$test" --hostname stranger --label "ringfence=$test" --read-only --cap-drop ALL \
        --tmpfs /tmp "$image_shell" bash -c "$1"
}

test_stranger() {
    started
    local ports port out
    image_shell=$tools
    agent 1 2
    captured enrolment.pcap agent-1 2000
    head 2 $small $endless --transport tcp
    hears head "step 1/"
    # a key of its own
    out=$(docker run --rm --network "$test" --hostname stranger --label "ringfence=$test" --tmpfs /tmp --entrypoint sh "$image" -c "
        launcher make-job-key /tmp/key >/dev/null; launcher --nodes 2 --node-rank 1 --rendezvous tcp://head:29400 \
        --job-key /tmp/key --join-timeout 4" 2>&1) && fail "a stranger has joined: $out"
    grep -qF "it has another key, fewer --nodes, or too many connections" <<<"$out" || fail "$out"
    hears head "refused a launcher that does not have this job's key"
    # what the agent has said when it enrolled, to the letter; and noise, at every port that listens
    perl "$here/wire.pl" sent "$scratch/enrolment.pcap" "$(address agent-1)" 29400 >"$scratch/enrolment"
    [ "$(wc -c <"$scratch/enrolment")" -gt 500 ] || fail "the enrolment was not recorded"
    stranger "exec 3<>/dev/tcp/head/29400; cat >&3; timeout 2 cat <&3 | wc -c" <"$scratch/enrolment"
    for name in head agent-1; do
        ports=$(docker exec "$test-$name" awk '$4 == "0A" { print substr($2, 10) }' /proc/net/tcp)
        for port in $ports; do
            stranger "head -c 100000 /dev/urandom >/dev/tcp/$name/$((16#$port))" || true
        done
        echo "$name listens at ports $ports"
    done
    steps_on
    docker logs "$test-head" 2>&1 | grep warning
    interrupted agent-1
    result "$(said head 'warning: refused'); the job went on"
}

# Somebody between the hosts alters what passes. The job must not go on with wrong numbers.
test_altered_on_the_way() {
    started
    two --transport tcp
    with agent-1 nft "add table inet alter; add chain inet alter in { type filter hook input priority 0; };
        add rule inet alter in ip length > 1000 @th,4000,32 set 0x3f800000"
    ends head 1
    result "$(said head 'and it was altered on its way')"
}
