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

umask 077
mkdir -p "$state"/{secrets,budget,client,head,agent-1,agent-2}
[ "$(id -u)" -eq "$uid" ] || chown "$uid:$gid" "$state"/{,secrets,budget,client,head,agent-1,agent-2}

in_image() { # DIRECTORY COMMANDS: run in the image by sh, with DIRECTORY as the working directory
    docker run --rm --user "$uid:$gid" --network none --read-only --cap-drop ALL \
        --security-opt no-new-privileges -v "$1:$1" -w "$1" --entrypoint sh "$image" -euc "umask 077; $2" >/dev/null
}

in_image "$state/secrets" "
    rm -f job.key; launcher make-job-key job.key
    [ -e budget-passphrase ] || head -c 24 /dev/urandom | base64 >budget-passphrase"
[ -e "$state/budget/policy.json" ] || in_image "$state" "
    export BUDGET_SERVICE_DIR=$state/budget
    budget-service init --passphrase-file secrets/budget-passphrase
    budget-service serve --passphrase-file secrets/budget-passphrase --listen tcp://127.0.0.1:29500 \
        --listen-redeem tcp://127.0.0.1:29501 >/dev/null & service=\$!
    until budget-service account create job --cap $cap --timeout 5 2>/dev/null; do sleep 0.1; done
    kill \$service; wait \$service || true
    mkdir client/clients
    cp budget/clients/request.key client/clients/
    cp budget/keyring.json client/
    sed 's/127\.0\.0\.1/budget/' budget/service.json >client/service.json"
cat >"$state/env" <<ENV
RINGFENCE_UID=$uid
RINGFENCE_GID=$gid
RINGFENCE_STATE=$state
RINGFENCE_IMAGE=$image
RINGFENCE_CHECKPOINT=$state/head/35-ddp-cpu
ENV
