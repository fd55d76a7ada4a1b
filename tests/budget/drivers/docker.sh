#!/usr/bin/env bash
# The driver of containers with a docker that is a stub. It keeps its containers in a file, and notes what it was called with.
# `./dev docker rented` is the same with real ones.
#   docker.sh BUILD SOURCES
set -euo pipefail

driver=$1/share/ringfence/drivers/docker
command -v jq >/dev/null || { echo "skipped: jq is not installed" && exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# The stub fails where a file says so: `down` (no daemon), `refused` (its words for run and rm).
mkdir stubs
cat >stubs/docker <<'SH'
#!/bin/sh
printf '%s\n' "$*" >>calls
[ ! -e down ] || { echo "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?" >&2; exit 1; }
case $1 in
version) ;;
info) cat id ;;
image) [ "$3" != absent ] || { echo "No such image" >&2; exit 1; } ;;
ps) cat containers ;;
inspect)
    grep -q "^$4 " containers || { echo "No such object: $4" >&2; exit 1; }
    cat addresses
    ;;
run | rm)
    [ ! -e refused ] || { cat refused >&2; exit 125; }
    [ "$1" = rm ] || echo 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
    ;;
*) echo "the stub knows no $1" >&2; exit 99 ;;
esac
SH
chmod +x stubs/docker
export PATH=$scratch/stubs:$PATH
: >containers
: >calls
echo 172.17.0.2 >addresses
echo 2cf0f6a8-0001 >id

fail() {
    printf 'FAILED: %s\n-- out\n%s\n-- err\n%s\n-- calls\n%s\n' "$*" "$(cat out)" "$(cat err)" "$(cat calls)" >&2
    exit 1
}
# driver CODE ARGUMENTS...: its exit code is CODE. If it failed, it has said why, in one line.
driver() {
    local expected=$1 got=0
    shift
    "$driver" "$@" >out 2>err <"${input:-/dev/null}" || got=$?
    [ "$got" -eq "$expected" ] || fail "exit $got, not $expected: $*"
    [ "$got" -eq 0 ] || [ "$(wc -l <err)" -eq 1 ] || fail "what went wrong is not one line"
}
is() { [ "$(jq -cS . out)" = "$(jq -cS . <<<"$1")" ] || fail "not $1"; }
err_has() { grep -qF -- "$1" err || fail "err has no $1"; }
called() { grep -qF -- "$1" calls || fail "docker was not called with $1"; }
not_called() { ! grep -q -- "^$1" calls || fail "docker was called with $1"; }

echo "== no daemon is never an answer"
touch down
jq -n '{name: "rf-1", until: (now + 100 | floor | todate), max_price_usd: "1", instance_type: "any", gpus: 1}' >good
for call in check create; do
    input=good driver 1 "$call"
    err_has "Cannot connect to the Docker daemon"
done
for call in account list "describe 0123456789ab" "delete 0123456789ab"; do
    # shellcheck disable=SC2086
    driver 1 $call
    err_has "Cannot connect to the Docker daemon"
done
rm down

echo "== an answer without it is: not-found"
driver 0 describe 0123456789ab
is '{"instance_id": "0123456789ab", "name": "", "status": "not-found"}'
driver 0 delete 0123456789ab
not_called rm
driver 0 list
is '{"instances": []}'
called "ps -a --filter label=ringfence.driver=docker"

echo "== whose account it is: the daemon's"
driver 0 account
is '{"vendor_account": "2cf0f6a8-0001"}'
: >id
driver 1 account

echo "== states"
cat >containers <<'END'
0123456789ab running rf-1
00000000000a created rf-2
00000000000b exited rf-3
00000000000c paused rf-4
END
driver 0 list
[ "$(jq -c '[.instances[] | [.instance_id, .name, .status, .host, .price_usd]]' out)" = \
    '[["0123456789ab","rf-1","running","172.17.0.2","0"],["00000000000a","rf-2","starting",null,"0"],["00000000000b","rf-3","stopped",null,"0"],["00000000000c","rf-4","stopped",null,"0"]]' ] ||
    fail "the list"
driver 0 describe 0123456789ab
is '{"instance_id": "0123456789ab", "name": "rf-1", "status": "running", "host": "172.17.0.2", "port": 22, "user": "root", "price_usd": "0"}'
echo >addresses
driver 0 describe 0123456789ab
is '{"instance_id": "0123456789ab", "name": "rf-1", "status": "starting", "price_usd": "0"}'
echo 172.17.0.2 >addresses

echo "== odd names are nobody's: neither a name, nor a part of an id, nor a pattern"
# shellcheck disable=SC2016
for id in rf-1 0123456789 '*' '.*' '0123456789ab ' 'a b' '$(touch made)' '0123456789ab running' '\x' -a; do
    driver 0 describe "$id"
    grep -qF '"status":"not-found"' out || fail "$id was found"
    driver 0 delete "$id"
done
not_called rm
driver 2 describe ""
driver 2 describe
driver 2 delete a b
driver 2 unknown
err_has "usage:"
[ ! -e made ] || fail "an id was run"

echo "== delete"
driver 0 delete 0123456789ab
called "rm -f 0123456789ab"
printf 'Error response from daemon: driver failed to remove root filesystem: device or resource busy\n' >refused
driver 1 delete 0123456789ab
err_has "0123456789ab is still there: Error response from daemon: driver failed"

echo "== check creates nothing"
rm refused
: >calls
input=good driver 0 check
[ ! -s out ] || fail "check answers"
not_called run

echo "== create"
input=good driver 0 create
is '{"instance_id": "0123456789ab", "name": "rf-1", "status": "starting", "price_usd": "0"}'
called "--name rf-1 --hostname rf-1 --label ringfence.driver=docker"
called "--pull never"
called "--entrypoint sh ringfence-instance -c"
! grep -q -e --gpus -e --privileged calls || fail "more than was asked for"
left=$(sed -n 's/.* -e SECONDS_LEFT=\([0-9]*\) .*/\1/p' calls)
((left > 0 && left <= 100)) || fail "it ends itself in $left s"
jq '. + {image: "mine:1", ssh_public_key: "ssh-ed25519 AAAA me; touch made", gpus: 2}' good >mine
DOCKER_GPUS=yes input=mine driver 0 create
called "--gpus 2"
called "-e PUBLIC_KEY=ssh-ed25519 AAAA me; touch made -e"
called "--entrypoint sh mine:1 -c"

echo "== refused: certainly nothing was created"
: >calls
refused() { # JQ WORDS
    jq "$1" good >bad
    input=bad driver 3 check
    err_has "$2"
    input=bad driver 3 create
    err_has "$2"
}
refused '.name = "a b"' "is no name of a container: 'a b'"
refused '.name = "-rf"' "is no name"
refused '.name = "rf-1 "' "is no name"
jq '.name = "rf-1\nrf-2"' good >bad
! "$driver" create <bad >out 2>err || fail "a name of two lines is taken"
refused 'del(.name)' "is no name"
refused '.until = "tomorrow"' "\"until\" is no time such as"
refused 'del(.until)' "\"until\" is no time such as"
refused '.until = "2020-01-01T00:00:00Z"' "\"until\" has passed"
refused '.seconds_left = 0' "\"until\" has passed"
refused '.image = "--privileged"' "is no name of an image"
refused '.image = "absent"' "there is no image absent here"
refused '[.]' "must have a JSON object"
echo '{' >bad
input=bad driver 3 create
not_called run

echo "== failed: nobody knows"
cat >refused <<'END'
docker: Error response from daemon: Conflict. The container name "/rf-1" is already in use.

Run 'docker run --help' for more information
END
input=good driver 1 create
err_has "docker: Error response from daemon: Conflict"
echo passed
