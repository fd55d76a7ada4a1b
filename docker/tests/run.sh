#!/usr/bin/env bash
# Runs the tests of several containers: each a line with what was seen. ./dev docker builds the images first.
#   docker/tests/run.sh [--list] [--twice] [--all] [TEST...]
# --twice: what fails runs once more, alone, as the machine may have stood still. --all: also what takes long.
# --list: only says which there are. Else it needs a docker that answers, and the images ringfence and ringfence-tools;
# exits with 77 without them.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
at_once=${RINGFENCE_TESTS_AT_ONCE:-3}
for file in "$here"/*.sh; do
    [ "$file" = "$here/run.sh" ] || . "$file"
done

skip() {
    printf 'docker tests SKIPPED: %s\n' "$*" >&2
    exit 77
}

twice="" list=""
mapfile -t chosen < <(compgen -A function test_)
while :; do
    case ${1-} in
    --twice) twice=yes ;;
    --list) list=yes ;;
    --all) mapfile -t -O ${#chosen[@]} chosen < <(compgen -A function long_test_) ;;
    *) break ;;
    esac
    shift
done
[ $# -eq 0 ] || chosen=("$@")
for i in "${!chosen[@]}"; do
    name=${chosen[i]#*test_}
    chosen[i]=$(compgen -A function | grep -xE "(long_)?test_$name") || {
        echo "no such test: $name; there are: $(compgen -A function | sed -nE 's/^(long_)?test_//p' | sort | xargs)" >&2
        exit 2
    }
done
[ -z "$list" ] || { printf '%s\n' "${chosen[@]#*test_}" && exit; }

docker info >/dev/null 2>&1 || skip "no docker answers here; ./dev docker starts one"
docker image inspect "$image" "$tools" >/dev/null 2>&1 || skip "no image; ./dev docker builds it"
probe=rf$$-probe
docker network create --internal "$probe" >/dev/null 2>&1 &&
    docker run --rm --network "$probe" --cap-add NET_ADMIN "$tools" nft list ruleset >/dev/null 2>&1 || probe+=" failed"
docker network rm "${probe% failed}" >/dev/null 2>&1 || true
[ "$probe" = "${probe% failed}" ] || skip "containers cannot have a network of their own here"
if docker compose version >/dev/null 2>&1; then
    compose_command=(docker compose)
else
    compose_command=(docker-compose)
fi

directory=$(mktemp -d)
run=rf$$

cleanup() {
    trap '' INT TERM
    for test in "${started_tests[@]}"; do
        clear_test "$test"
    done
    rm -rf "$directory"
}

# clear_test NAME: nothing of it stays, however it has ended.
clear_test() {
    docker ps -aq --filter "label=ringfence=$1" | xargs -r docker rm -fv >/dev/null
    docker ps -aq --filter "label=com.docker.compose.project=$1" | xargs -r docker rm -fv >/dev/null
    for label in ringfence com.docker.compose.project; do
        docker network ls -q --filter "label=$label=$1" | xargs -r docker network rm >/dev/null
    done
}

run_one() {
    local function=$1 begun=${EPOCHREALTIME/./} status=0
    test=$run-${function#*test_}
    scratch=$directory/$function
    mkdir -p "$scratch"
    # not behind || or &&, nor is this function: there a failing command would not end the test
    set +e
    (set -euo pipefail; "$function") >"$scratch/log" 2>&1
    status=$?
    set -e
    clear_test "$test" >>"$scratch/log" 2>&1
    local milliseconds=$(((${EPOCHREALTIME/./} - begun) / 1000))
    if [ "$status" -ne 0 ] || [ ! -s "$scratch/result" ]; then
        sed 's/^/    /' "$scratch/log"
        printf 'FAILED  %s\n' "${function#*test_}"
        echo "$function" >>"$directory/failed"
        return 1
    fi
    printf 'ok      %-26s %4d.%d s  %s\n' "${function#*test_}" $((milliseconds / 1000)) $((milliseconds / 100 % 10)) \
        "$(cat "$scratch/result")"
}

started_tests=()
trap cleanup EXIT
bad=0
running=0
for function in "${chosen[@]}"; do
    if [ "$running" -ge "$at_once" ]; then
        wait -n || bad=1
        running=$((running - 1))
    fi
    started_tests+=("$run-${function#*test_}")
    run_one "$function" &
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
    wait -n || bad=1
    running=$((running - 1))
done
if [ "$bad" -ne 0 ] && [ -n "$twice" ] && [ -s "$directory/failed" ]; then
    bad=0
    mapfile -t chosen <"$directory/failed"
    for function in "${chosen[@]}"; do
        rm -rf "${directory:?}/$function"
        run_one "$function" &
        wait $! || bad=1
    done
fi
exit "$bad"
