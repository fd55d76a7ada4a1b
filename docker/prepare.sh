#!/usr/bin/env bash
# Makes what a job in containers needs, with the programs of the image: a job key, a budget with one account,
# a directory for each host's record, and the file env for docker-compose. All of it belongs to the caller
# (for root: to SUDO_UID). What is there stays, except for the job key, which is for one run.
#   docker/prepare.sh DIRECTORY [CAP]        (5.00 dollars)
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
state=$(cd "$1" && pwd)
cap=${2:-5.00}
image=${RINGFENCE_IMAGE:-ringfence}
uid=${RINGFENCE_UID:-${SUDO_UID:-$(id -u)}}
gid=${RINGFENCE_GID:-${SUDO_GID:-$(id -g)}}

container=ringfence-prepare-$$

umask 077
mkdir -p "$state"/{secrets,budget,client,head,agent-1,agent-2}
[ "$(id -u)" -eq "$uid" ] || chown "$uid:$gid" "$state" "$state"/{secrets,budget,client,head,agent-1,agent-2}

trap 'docker rm -f "$container" >/dev/null 2>&1 || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
in_image() { # COMMANDS: run in the image by sh, in $state; by &, so that a signal need not wait for their end
    docker run --rm --name "$container" --user "$uid:$gid" --network none --read-only --cap-drop ALL \
        --security-opt no-new-privileges -v "$state:/state" -w /state -e CAP="$cap" --entrypoint sh "$image" \
        -euc "umask 077; $1" >/dev/null &
    wait $!
}

in_image '
    rm -f secrets/job.key; launcher make-job-key secrets/job.key
    [ -e secrets/budget-passphrase ] || head -c 24 /dev/urandom | base64 >secrets/budget-passphrase'
# The budget is made in new/, and moved to its place when it is whole.
[ -e "$state/client/service.json" ] || in_image '
    rm -rf new; mkdir -p new/client/clients
    export BUDGET_SERVICE_DIR=new/budget
    budget-service init --passphrase-file secrets/budget-passphrase
    budget-service serve --passphrase-file secrets/budget-passphrase --listen tcp://127.0.0.1:29500 \
        --listen-redeem tcp://127.0.0.1:29501 & service=$!
    tries=0
    until budget-service status 2>new/error; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] && kill -0 $service || { cat new/error >&2; exit 1; }
        sleep 0.1
    done
    rm new/error
    budget-service account create job --cap "$CAP"
    kill $service; wait $service || true
    cp new/budget/clients/request.key new/client/clients/
    cp new/budget/keyring.json new/client/
    sed "s/127\.0\.0\.1/budget/" new/budget/service.json >new/client/service.json
    rmdir budget client # a budget that is there already is not ours to remove
    mv new/budget new/client .; rmdir new'
cat >"$state/env" <<ENV
RINGFENCE_UID=$uid
RINGFENCE_GID=$gid
RINGFENCE_STATE=$state
RINGFENCE_IMAGE=$image
RINGFENCE_CHECKPOINT=$state/head/35-ddp-cpu
ENV
