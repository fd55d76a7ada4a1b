# Hosts for the tests in this directory: containers that are limited as those of compose.yml are. Sourced by
# run.sh, which starts each test as a process of its own, with $test its name.

image=${RINGFENCE_IMAGE:-ringfence}
tools=${RINGFENCE_TOOLS_IMAGE:-ringfence-tools}
uid=10001 # not root, whoever runs the tests
endless="--steps 100000000"
patience=120 # seconds, of who waits for what will come: the machine may have much else to do
small="--width 32 --layers 1 --heads 2 --batch 2 --timeout $patience"

fail() {
    printf '%s\n' "$*" >&2
    for container in $(docker ps -aq --filter "label=ringfence=$test"
        docker ps -aq --filter "label=com.docker.compose.project=$test"); do
        docker inspect --format '-- {{.Name}}: {{.State.Status}}, exit code {{.State.ExitCode}}' "$container" >&2
        docker logs --tail 30 "$container" >&2
    done
    exit 1
}

# result TEXT: the test's line of output. Nothing to say is a failure: what was expected was not said.
result() {
    [ -n "$*" ] || fail "nobody said what was expected"
    printf '%s\n' "$*" >"$scratch/result"
}

# started: a network, a directory of the containers' user, and a job key.
started() {
    docker network create --internal --label "ringfence=$test" "$test" >/dev/null
    mkdir -p "$scratch/keys"
    chown "$uid:$uid" "$scratch/keys" 2>/dev/null || uid=$(id -u)
    docker run --rm --user "$uid:$uid" -v "$scratch/keys:/keys" "$image" make-job-key /keys/job.key >/dev/null
}

# box NAME DOCKER_OPTIONS...: a container on the test's network, without privileges.
box() {
    local name=$1
    shift
    docker run -d --name "$test-$name" --hostname "$name" --network "$test" --network-alias "$name" \
        --label "ringfence=$test" --user "$uid:$uid" --read-only --cap-drop ALL \
        --security-opt no-new-privileges --pids-limit 256 --tmpfs "/job/experiments:uid=$uid" \
        -v "$scratch/keys:/keys:ro" "$@" >/dev/null
}

# head NODES FLAGS..., agent K NODES: $options are Docker's, for one container.
options=()
head() {
    local nodes=$1
    shift
    box head "${options[@]}" "$image" --nodes "$nodes" --rendezvous tcp://head:29400 --job-key /keys/job.key \
        --join-timeout "$patience" "$@"
}
agent() {
    box "agent-$1" "${options[@]}" "$image" --nodes "$2" --node-rank "$1" --rendezvous tcp://head:29400 \
        --job-key /keys/job.key --cache /job/experiments/.cache --join-timeout "$patience"
}

# two FLAGS...: a head and an agent that train.
two() {
    head 2 $small $endless "$@"
    agent 1 2
    hears head "step 1/"
}

# with NAME COMMAND...: root's tools, in the network namespace of a host.
with() {
    local name=$1
    shift
    docker run --rm --network "container:$test-$name" --label "ringfence=$test" --cap-add NET_ADMIN --cap-add NET_RAW \
        "$tools" "$@"
}

# until_true SECONDS COMMAND...
until_true() {
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt "$until" ] || return 1
        sleep 0.1
    done
}

has_said() {
    docker logs "$test-$1" 2>&1 | grep -qF -- "$2"
}

# hears NAME TEXT: waits until a host says so.
hears() {
    until_true "$patience" has_said "$1" "$2" || fail "$1 did not say '$2' within $patience s"
}

# said NAME TEXT: prints the first line of a host that has TEXT.
said() {
    docker logs "$test-$1" 2>&1 | grep -F -- "$2" | sed -n '1s/^launcher: //p' || true
}

# steps_on [N]: waits until the head's record has N steps more.
steps_recorded() {
    docker exec "$test-head" wc -l /job/experiments/35-ddp-cpu/timings.jsonl | cut -d ' ' -f 1
}
has_recorded() {
    [ "$(steps_recorded)" -ge "$1" ]
}
steps_on() {
    local before
    before=$(steps_recorded)
    until_true "$patience" has_recorded $((before + ${1:-40})) || fail "training did not go on"
}

# ends NAME EXIT_CODE: waits for a host's end.
ends() {
    local code
    code=$(timeout "$patience" docker wait "$test-$1") || fail "$1 did not end within $patience s"
    [ "$code" = "$2" ] || fail "$1 ended with exit code $code, not $2"
}

# interrupted NAME...: the job is ended in order, at its head, and nobody is left.
interrupted() {
    docker kill --signal INT "$test-head" >/dev/null
    for name in head "$@"; do
        ends "$name" 130
    done
}

address() {
    docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$test-$1"
}
