#!/bin/sh
# Jobs of launchers that take their place from variables alone, with a job key: as torchrun, an
# Indexed Job of Kubernetes, and plain RANK and WORLD_SIZE set them. torchrun itself is tried where
# it is installed. Called by ctest with the programs' directory. docs/DEPLOY.md has the same commands.
# shellcheck disable=SC1091,SC2154
. "$(dirname "$0")/common.sh"

# two COMMAND…: runs it on both hosts, with the variables that `of HOST` prints.
two() {
    # shellcheck disable=SC2046
    on 1 env $(of 1) "$@" >"$dir/said.agent" 2>&1 &
    # shellcheck disable=SC2046
    on 0 env $(of 0) "$@"
    got=$?
    wait $! || got=$?
    return $got
}

train_alone
make_hosts
launcher make-job-key "$dir/job.key" >/dev/null

of() {
    echo "RANK=$1 WORLD_SIZE=2 MASTER_ADDR=host-0 MASTER_PORT=29400"
}
key() {
    program=$1
    shift
    two "$program" --job-key "$dir/job.key" "$@"
}
trains variables "RANK and WORLD_SIZE" key

of() {
    echo "GROUP_RANK=$1 GROUP_WORLD_SIZE=2 RANK=$1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1" \
        "MASTER_ADDR=host-0 MASTER_PORT=29500"
}
trains as-torchrun torchrun key

# the head's name comes late, as a pod's does
of() {
    echo "JOB_COMPLETION_INDEX=$1"
}
pods() {
    program=$1
    shift
    echo '127.0.0.1 localhost' >"$dir/hosts"
    {
        until_within 10 says "waiting at" && names
    } &
    two "$program" --nodes 2 --rendezvous tcp://host-0:29400 --job-key "$dir/job.key" "$@"
}
trains as-kubernetes Kubernetes pods

if env RANK=1 WORLD_SIZE=2 launcher >"$dir/said" 2>&1; then
    fail "without a key: not refused"
elif says "RANK and WORLD_SIZE say that this is launcher 1 of 2: that needs --rendezvous tcp://HOST:PORT, where node 0 listens, and --job-key"; then
    ok "without a key it is refused"
else
    fail "without a key: not the words"
fi
if env RANK=1 WORLD_SIZE=2 MASTER_ADDR=host-0 launcher >"$dir/said" 2>&1; then
    fail "with an address, without a key: not refused"
elif says "this is launcher 1 of 2: that needs --job-key FILE"; then
    ok "of address and key, what is missing is named"
else
    fail "with an address, without a key: not the words"
fi

# the manifests: valid, and with flags that are the launcher's
arguments=$(sed -n 's/^ *- \(--[a-z-]*=.*\)/\1/p' "$root/docker/kubernetes/job.yaml" |
    sed "s|/key/job.key|$dir/job.key|; s|/out/|$dir/|")
# shellcheck disable=SC2086
if JOB_COMPLETION_INDEX=0 launcher $arguments --dry-run >"$dir/said" 2>&1 &&
    says "hosts: 4, by Kubernetes; the head listens at tcp://ringfence-0.ringfence:29400"; then
    ok "the flags of job.yaml"
else
    fail "the flags of job.yaml: $arguments"
fi
if command -v kubernetes-validate >/dev/null; then
    for file in "$root"/docker/kubernetes/*.yaml; do
        if kubernetes-validate --strict "$file" >"$dir/said" 2>&1; then
            ok "${file##*/} is valid"
        else
            fail "${file##*/} is not valid"
        fi
    done
else
    echo "NOT CHECKED: the manifests, because kubernetes-validate (of PyPI) is not here"
fi

if command -v torchrun >/dev/null; then
    one() {
        host=$1
        shift
        on "$host" torchrun --nnodes 2 --node-rank "$host" --nproc-per-node 1 \
            --master-addr host-0 --master-port 29500 --no-python "$@"
    }
    torchruns() {
        program=$1
        shift
        one 1 "$program" --job-key "$dir/job.key" "$@" >"$dir/said.agent" 2>&1 &
        one 0 "$program" --job-key "$dir/job.key" "$@"
        got=$?
        wait $! || got=$?
        return $got
    }
    trains torchrun torchrun torchruns
else
    echo "NOT CHECKED: torchrun itself, because it is not here"
fi
finish
