# Faults between hosts. Each ends, within its deadline, in completion or in one line that names the host and
# the cause. Run by run.sh.

test_killed() {
    started
    two
    docker kill "$test-agent-1" >/dev/null
    ends head 1
    result "$(said head 'error: host agent-1 (node 1) is lost')"
}

test_killed_and_done_without() { # the parameters are those of a job that nobody disturbed
    started
    local job="$small --steps 2000 --ranks 2 --micro-batches 2"
    mkdir "$scratch/out"
    chown "$uid:$uid" "$scratch/out" 2>/dev/null || true
    options=(-v "$scratch/out:/out")
    head 2 $job --out /out/whole
    options=()
    agent 1 2
    ends head 0
    docker rm -f "$test-head" "$test-agent-1" >/dev/null
    options=(-v "$scratch/out:/out")
    # the agent is awaited for long at first, and for 6 s when it is lost
    head 2 $job --out /out/killed --save-every 20 --resume --max-restarts 2 --min-nodes 1 --host-timeout 6
    options=(--cpus 0.1) # the job must not be done before the agent is killed
    agent 1 2
    options=()
    until_true "$patience" compgen -G "$scratch/out/killed/checkpoints/step-*" >/dev/null || fail "there is no checkpoint"
    docker kill "$test-agent-1" >/dev/null
    ends head 0
    cmp "$scratch/out/whole/model.safetensors" "$scratch/out/killed/model.safetensors" || fail "the bits differ"
    result "$(said head 'going on with 1 host, 1 rank x 4 micro-batches')"
}

test_paused_and_resumed() {
    started
    two --host-timeout 60
    docker pause "$test-agent-1" >/dev/null
    hears head "host agent-1 (node 1): no heartbeat for"
    docker unpause "$test-agent-1" >/dev/null
    hears head "host agent-1 (node 1) is back"
    steps_on
    interrupted agent-1
    result "$(said head 'no heartbeat for'), then: $(said head 'is back')"
}

test_paused_beyond() {
    started
    two --host-timeout 6
    docker pause "$test-agent-1" >/dev/null
    ends head 1
    docker unpause "$test-agent-1" >/dev/null
    ends agent-1 1
    result "$(said head 'error: host agent-1 (node 1) is lost')"
}

test_disconnected_2_s() {
    started
    two --host-timeout 60
    docker network disconnect "$test" "$test-agent-1"
    sleep 2 # the fault itself
    docker network connect "$test" "$test-agent-1"
    steps_on
    interrupted agent-1
    result "$(docker logs "$test-head" 2>&1 | grep '^loss:'), 40 of them after the link was back"
}

test_disconnected() {
    started
    two --host-timeout 6
    docker network disconnect -f "$test" "$test-agent-1"
    ends head 1
    ends agent-1 1
    result "$(said head 'error: host agent-1 (node 1) is lost: no heartbeat')"
}

test_cut_between_agents() {
    started
    head 3 $small $endless --ranks 3 --timeout 6
    agent 1 3
    agent 2 3
    hears head "step 1/"
    with agent-1 nft "add table inet cut; add chain inet cut in { type filter hook input priority 0; };
        add rule inet cut in ip saddr $(address agent-2) drop"
    ends head 1
    ends agent-1 1
    ends agent-2 1
    result "$(said head 'no end after 6 s')"
}

test_head_cut_off() {
    started
    two --host-timeout 6
    with head nft "add table inet cut; add chain inet cut in { type filter hook input priority 0; };
        add rule inet cut in iifname != lo drop"
    ends agent-1 1
    ends head 1
    result "$(said agent-1 'error: the head at tcp://head:29400 is lost: no heartbeat')"
}

test_packets_lost() {
    started
    two
    with agent-1 nft "add table inet loss; add chain inet loss in { type filter hook input priority 0; };
        add rule inet loss in numgen random mod 100 < 3 counter drop"
    steps_on 100
    local lost
    lost=$(with agent-1 nft list table inet loss | sed -n 's/.*counter packets \([0-9]*\).*/\1/p')
    [ "$lost" -gt 0 ] || fail "no packet was lost"
    interrupted agent-1
    result "$lost packets lost, 100 steps more"
}

test_rate_limited() {
    started
    two
    with agent-1 tc qdisc add dev eth0 root tbf rate 16mbit burst 32k latency 50ms
    local begun=$SECONDS
    steps_on 60
    interrupted agent-1
    result "60 steps in $((SECONDS - begun)) s at 16 Mbit/s"
}

test_full_volume() { # refused where there is no room from the beginning; an error where the record fills it
    started
    options=(--tmpfs "/job/experiments/small:size=64k,uid=$uid")
    head 2 $small --steps 20 --out /job/experiments/small/run
    agent 1 2
    ends head 1
    [ -n "$(said head 'has room for 0.1 MB')" ] || fail "the head did not refuse a disk without room"
    docker rm -f "$test-head" "$test-agent-1" >/dev/null
    options=(--tmpfs "/job/experiments/small:size=2m,uid=$uid")
    head 2 $small --steps 100000 --out /job/experiments/small/run
    options=()
    agent 1 2
    ends head 1
    result "$(said head 'timings.jsonl: No space left on device')"
}

# A training that cannot fit does not begin, and one whose host loses its memory later is killed.
large="--batch 64 --context 64 --width 512 --heads 8 --layers 4"

test_too_little_memory() {
    started
    head 2 --steps 100 $large
    options=(--memory 100m --memory-swap 100m)
    agent 1 2
    ends head 1
    ends agent-1 1
    result "$(said head 'failed while starting: training takes 0.7 GB')"
}

test_out_of_memory() {
    started
    head 2 $endless $large
    options=(--memory 1200m --memory-swap 1200m --tmpfs "/full:size=1100m,uid=$uid")
    agent 1 2
    hears head "step 1/"
    # As far as it goes: room for the launcher stays. While the rank's memory is being freed the kernel may end another process:
    # the largest then is dd with its buffer, and not the launcher.
    docker exec "$test-agent-1" dd if=/dev/zero of=/full/zeros bs=32M 2>/dev/null || true
    ends head 137
    ends agent-1 137
    result "$(said head '(its oom_kill count rose) [host agent-1, node 1]')"
}
