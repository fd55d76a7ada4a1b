# shellcheck shell=sh disable=SC2154
# What the tests of engines share: a directory of their own, hosts, small jobs, and who is left. Each
# script sources this file, and gets the directory of the programs as its first argument.
#
# Hosts are namespaces of this machine: network, hostname and mounts, joined by a pair of veth
# devices. They have no name outside, so all goes when the process that holds one ends.
set -u
bin=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
PATH=$bin:$PATH
export PATH
failures=0
between=
first=127.0.0.1
began=$(date +%s)
holders=
daemons=
dir=$(mktemp -d "${TMPDIR:-/tmp}/engines.XXXXXX")
chmod 755 "$dir"
mkdir "$dir/work"
cd "$dir" || exit 1
export HOME="$dir/home" # Slurm's meeting file is below it
mkdir "$HOME"
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT JOB_COMPLETION_INDEX

# The pids of processes that run in the working directory: the engine's tasks and what they start.
# With an argument, those of that name.
left() {
    for one in /proc/[0-9]*; do
        if [ "$(readlink "$one/cwd" 2>/dev/null)" = "$dir/work" ] &&
            { [ $# -eq 0 ] || [ "$(cat "$one/comm" 2>/dev/null)" = "$1" ]; }; then
            echo "${one#/proc/}"
        fi
    done
}

# Those of that name on the second host.
left_there() {
    for pid in $(left "$1"); do
        # shellcheck disable=SC2154
        if [ "$(readlink "/proc/$pid/ns/net")" = "$(readlink "/proc/$host1/ns/net")" ]; then
            echo "$pid"
        fi
    done
}

clean() {
    for pid in $(left) $daemons $holders; do
        kill -9 "$pid" 2>/dev/null
    done
    wait 2>/dev/null
    cd /
    rm -rf "$dir"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

skip() {
    echo "skipped: $1"
    exit 77
}

ok() {
    echo "ok: $1 ($(($(date +%s) - began)) s)"
}

fail() {
    echo "FAILED: $1"
    failures=$((failures + 1))
    for file in "$dir"/said*; do
        if [ -f "$file" ]; then
            tail -n 40 "$file" | sed "s|^|    ${file##*/}: |"
        fi
    done
}

finish() {
    if [ "$failures" -gt 0 ]; then
        exit 1
    fi
}

# until SECONDS COMMAND…: tries it again and again.
until_within() {
    end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        if [ "$(date +%s)" -ge "$end" ]; then
            return 1
        fi
        sleep 0.05
    done
}

# says TEXT: whether the last run has said it.
says() {
    grep -q -e "$1" "$dir/said"
}

none_left() {
    [ -z "$(left)" ]
}

assert_none_left() {
    if until_within 10 none_left; then
        ok "$1: nothing is left"
    else
        fail "$1: left: $(for pid in $(left); do ps -o pid=,args= "$pid"; done)"
    fi
}

small="--mode ddp-cpu --width 32 --layers 1 --heads 2 --batch 2 --context 64 --overwrite"

# The SHA-256 of two ranks on one host, which every engine must come to.
sum_of() {
    sha256sum "$1/state-rank-0.safetensors" "$1/state-rank-1.safetensors" 2>&1 | cut -d ' ' -f 1 |
        sort -u
}

train_alone() {
    # shellcheck disable=SC2086
    launcher --ranks 2 --steps 6 $small --out work/alone --no-scaling --quiet >"$dir/said" 2>&1 ||
        fail "a job without an engine"
    alone=$(sum_of work/alone)
}

# trains NAME ENGINE COMMAND…: runs it, and compares its bits and its record with those of one host.
trains() {
    name=$1
    by=$2
    shift 2
    # shellcheck disable=SC2086
    if (cd work && "$@" launcher --steps 6 $small --out "$name") >"$dir/said" 2>&1 &&
        [ "$(sum_of "work/$name")" = "$alone" ]; then
        ok "$name: the bytes of one host"
    else
        fail "$name: not the bytes of one host"
    fi
    if grep -q "\"started_by\": \".*, started by $by\"" "work/$name/manifest.json" &&
        says "started by $by: launcher 0 of 2"; then
        ok "$name: started by $by"
    else
        fail "$name: the record does not say $by"
    fi
    assert_none_left "$name"
}

# programs NAME COMMAND…: programs behind `launcher --`, and coll-bench.
programs() {
    name=$1
    shift
    # shellcheck disable=SC2016
    (cd work && "$@" launcher --quiet --ranks-per-node 2 -- sh -c 'echo "rank $RANK of $WORLD_SIZE"') \
        >"$dir/said" 2>&1
    if [ "$(grep -c '^\[rank \([0-3]\)\] rank \1 of 4$' "$dir/said")" = 4 ]; then
        ok "$name: programs know their places"
    else
        fail "$name: programs do not know their places"
    fi
    if (cd work && "$@" launcher --quiet -- coll-bench all_reduce -b 64 -e 64 -n 2 -w 1) >"$dir/said" 2>&1 &&
        says "Out of bounds values : 0 OK"; then
        ok "$name: coll-bench"
    else
        fail "$name: coll-bench"
    fi
}

# gated NAME COMMAND…: a mode that may cost money. The head asks for a token and redeems it once, for
# the ranks of both hosts; then the account has too little left.
gated() {
    name=$1
    shift
    if [ -e /etc/ringfence/keyring.json ]; then
        echo "not tried: $name: this machine accepts its own keyring alone"
        return
    fi
    echo "a passphrase of the test's" >"$dir/passphrase"
    chmod 600 "$dir/passphrase"
    budget-service init --dir "$dir/budget" --passphrase-file "$dir/passphrase" >"$dir/said" 2>&1
    budget-service serve --dir "$dir/budget" --passphrase-file "$dir/passphrase" >"$dir/served" 2>&1 &
    daemons="$daemons $!"
    until_within 30 grep -q ready "$dir/served" || fail "$name: no budget-service"
    budget-service account create lab --dir "$dir/budget" --cap 4.00 >>"$dir/said" 2>&1
    BUDGET_SERVICE_DIR=$dir/budget
    export BUDGET_SERVICE_DIR
    if (asks 1.50 first 30 "$@") >"$dir/said" 2>&1 && says "the gate let all 2 ranks in: label first"; then
        ok "$name: the gate"
    else
        fail "$name: the gate"
    fi
    # The refused head waits for nobody. The other launcher hears nothing of it, and waits so long.
    if ! (asks 3.00 second 10 "$@") >"$dir/said" 2>&1 && says "\$2.50 left, \$3.00 asked"; then
        ok "$name: the account's cap"
    else
        fail "$name: the account's cap"
    fi
    assert_none_left "$name"
}

# asks USD LABEL SECONDS COMMAND…: SECONDS to join.
asks() {
    usd=$1
    label=$2
    joins=$3
    shift 3
    cd work && "$@" launcher --mode gate-check --account lab --vendor runpod --instance-type RTX4090 \
        --instances 2 --gpus 1 --tier community --max-price 0.69 --max-hours 1 --authorize "$usd" \
        --label "$label" --keyring "$dir/budget/keyring.json" --join-timeout "$joins"
}

# adds_up NAME COMMAND…: libcoll without the launcher, through PMI-1.
adds_up() {
    name=$1
    shift
    # shellcheck disable=SC2086
    if (cd work && "$@" "$bin/../../bin/coll-example-sum_pmi" $between) >"$dir/said" 2>&1 &&
        [ "$(grep -c '^1 + … + 2 = 3$' "$dir/said")" = 2 ]; then
        ok "$name: libcoll without the launcher"
    else
        fail "$name: libcoll without the launcher"
    fi
}

# meets NAME COMMAND…: the same through a port of rank 0.
meets() {
    name=$1
    shift
    if (cd work && MASTER_ADDR=$first "$@" "$bin/../../bin/coll-example-sum_env") >"$dir/said" 2>&1 &&
        [ "$(grep -c '^1 + … + 2 = 3$' "$dir/said")" = 2 ]; then
        ok "$name: libcoll's bootstrap"
    else
        fail "$name: libcoll's bootstrap"
    fi
}

# starts COMMAND…: a job of many steps, behind the engine's command.
starts() {
    : >"$dir/said"
    # shellcheck disable=SC2086
    (cd work && "$@" launcher --steps 1000000 $small --out long) >"$dir/said" 2>&1 &
}

# Kills one process of the engine at a random moment: nothing may be left.
killed_at_random() {
    name=$1
    victim=$2
    shift 2
    for round in 1 2; do
        starts "$@"
        until_within 10 some_left "$victim" || fail "$name: no $victim"
        sleep "$(awk "BEGIN { srand($$ + $round); print rand() }")"
        # shellcheck disable=SC2046
        kill -9 $(left "$victim") 2>/dev/null
        wait $!
        assert_none_left "$name: killed at random ($round)"
    done
}

some_left() {
    [ -n "$(left "$1")" ]
}

# ends NAME WHAT CODE TEXT COMMAND…: kills a launcher or a rank on the second host while the job runs;
# somebody must say TEXT, and the engine must end with CODE; CODE any: with any but 0.
ends() {
    name=$1
    what=$2
    code=$3
    text=$4
    shift 4
    starts "$@"
    until_within 20 says "^step 1/" || fail "$name: it does not run"
    # shellcheck disable=SC2046
    kill -9 $(left_there "$what") || fail "$name: there is no $what"
    wait $!
    got=$?
    [ "$code" != any ] || [ $got = 0 ] || code=$got
    if says "$text" && [ $got = "$code" ]; then
        ok "$name: $text"
    else
        fail "$name: it ended with $got, not $code, or does not say: $text"
    fi
    assert_none_left "$name"
}

waits_for_signals() {
    grep -q 'SigBlk:.*[1-9a-f]' "/proc/$(left launcher)/status" 2>/dev/null
}

# leaves_a_fence NAME COMMAND…: both are on one host, and the second launcher never comes. The first one hears a signal while it
# waits in the engine's fence, ends with that signal's code, and the engine ends the rest.
leaves_a_fence() {
    name=$1
    shift
    # shellcheck disable=SC2016,SC2086
    (cd work && "$@" sh -c '[ "${PMIX_RANK:-$PMI_RANK}" = 0 ] || exec sleep 1000
        "$@"; echo $? >code; exit "$(cat code)"' sh launcher $small --out fence) >"$dir/said" 2>&1 &
    until_within 20 waits_for_signals || fail "$name: it does not wait"
    # shellcheck disable=SC2046
    kill -TERM $(left launcher)
    if until_within 20 none_left && [ "$(cat work/code)" = 143 ] &&
        says "ended by SIGTERM before all launchers had come"; then
        ok "$name"
    else
        fail "$name: it ended with $(cat work/code)"
    fi
    assert_none_left "$name"
}

make_host() {
    unshare --net --uts --mount sh -c "hostname host-$1 && mount --bind '$dir/hosts' /etc/hosts &&
        ip link set lo up && cd / && echo up >'$dir/host-$1' && exec sleep 100000" &
    holders="$holders $!"
    eval "host$1=$!"
    until_within 60 test -f "$dir/host-$1" || skip "no namespaces for hosts here"
}

# on HOST COMMAND…
on() {
    eval "holder=\$host$1"
    shift
    # shellcheck disable=SC2154
    nsenter --target "$holder" --net --uts --mount --wd="$PWD" "$@"
}

names() {
    printf '127.0.0.1 localhost\n10.78.0.1 host-0\n10.78.0.2 host-1\n' >"$dir/hosts"
}

# Hosts host-0 (10.78.0.1) and host-1 (10.78.0.2), and a command "remote HOST COMMAND", as ssh.
make_hosts() {
    for tool in ip nsenter unshare hostname; do
        command -v "$tool" >/dev/null || skip "no $tool"
    done
    [ "$(id -u)" = 0 ] || skip "hosts need root"
    names
    between=10.78.0.0/24
    first=host-0
    make_host 0
    make_host 1
    on 0 ip link add to1 type veth peer name to0 netns "$host1" || skip "no veth devices here"
    on 0 sh -c 'ip addr add 10.78.0.1/24 dev to1 && ip link set to1 up'
    on 1 sh -c 'ip addr add 10.78.0.2/24 dev to0 && ip link set to0 up'
    cat >"$dir/remote" <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
case \$1 in
host-0) holder=$host0 ;;
host-1) holder=$host1 ;;
*) exit 1 ;;
esac
shift
exec nsenter --target \$holder --net --uts --mount --wd="\$PWD" sh -c "\$*"
END
    chmod +x "$dir/remote"
}
