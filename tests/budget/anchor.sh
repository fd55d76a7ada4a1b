#!/usr/bin/env bash
# What a machine's own keyring, /etc/ringfence/keyring.json, decides: with it, tokens of any other service
# are refused, whatever the launcher names. In a mount namespace with a copy of /etc; as a user who may not
# have one, this ends with 77 (skipped).
#   anchor.sh BIN    where budget-service and launcher are
set -euo pipefail

bin=$(cd "$1" && pwd)
if [ "${ANCHOR_INSIDE:-}" != yes ]; then
    for how in "unshare -m" "unshare -rm"; do
        if $how true 2>/dev/null; then
            ANCHOR_INSIDE=yes exec $how bash "$0" "$bin"
        fi
    done
    echo "skipped: no mount namespace may be made here"
    exit 77
fi

scratch=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    umount -l /etc 2>/dev/null || true
    rm -rf "$scratch"
}
trap finish EXIT
cd "$scratch"
umask 077
unset CREDENTIALS_DIRECTORY XDG_STATE_HOME BUDGET_SERVICE_DIR
export HOME=$scratch PATH=$bin:$PATH
mkdir etc
cp -r /etc/. etc 2>/dev/null || true
rm -rf etc/ringfence
chmod 755 etc
mount --bind etc /etc

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    cat out err >&2
    exit 1
}
# expect CODE WORDS COMMAND...: its exit code, and words in what it says.
expect() {
    local code=$1 words=$2 got=0
    shift 2
    "$@" >out 2>err </dev/null || got=$?
    [ "$got" -eq "$code" ] || fail "exit $got, not $code: $*"
    [ -z "$words" ] || grep -qF -- "$words" out err || fail "not said: $words: $*"
}

# A service of this name.
make_service() {
    head -c 24 /dev/urandom | base64 >"$1.pass"
    expect 0 "made" budget-service init --dir "$1" --passphrase-file "$1.pass"
    budget-service serve --dir "$1" --passphrase-file "$1.pass" >"$1.ready" 2>"$1.log" &
    pids+=("$!")
    until grep -q ready "$1.ready"; do
        kill -0 "${pids[-1]}" || fail "$1 does not start: $(cat "$1.log")"
        sleep 0.05
    done
    expect 0 "" budget-service account create phase --cap 10 --dir "$1"
}
# A launch with a new token of that service. gate CODE WORDS SERVICE [FLAGS]
gate() {
    local code=$1 words=$2 service=$3
    shift 3
    labels=$((labels + 1))
    rm -f token
    expect 0 "granted" budget-service authorize "run-$labels" 1 --account phase --dir "$service" --job JOB.json \
        --vendor runpod --instance-type X --tier spot --gpus 1 --max-price 0.1 --max-hours 1 --max-attempts 1 \
        --instances 1 --out token
    expect "$code" "$words" launcher --mode gate-check --no-bind --token token --budget-dir "$service" "$@"
}
labels=0

expect 0 "" launcher --mode gate-check --write-job JOB.json
make_service ours
make_service theirs

# Without an anchor the launcher's word is all there is, and it says so.
gate 0 "this machine has no /etc/ringfence/keyring.json" theirs
gate 0 "the sum is right" ours

# A keyring or a directory that others may write is refused.
chmod 666 ours/keyring.json
gate 6 "may be written by others" ours
expect 1 "others than the owner" budget-service install-keyring --dir ours
mkdir none
echo '{}' >none/keyring.json
expect 1 "none/keyring.json: keyring: must be" budget-service install-keyring --dir none
chmod 644 ours/keyring.json
chmod 777 theirs
expect 1 "may be written by others" budget-service serve --dir theirs --passphrase-file theirs.pass
chmod 700 theirs

# A keyring of the machine's that cannot be read lets nothing in: the launcher's does not take its place.
mkdir -p /etc/ringfence
ln -s /nowhere /etc/ringfence/keyring.json
gate 6 "/etc/ringfence/keyring.json" theirs
expect 0 "accept the tokens of these keys and no others" budget-service install-keyring --dir ours
[ "$(stat -c '%a %u' /etc/ringfence/keyring.json)" = "644 0" ] || fail "the anchor's mode"
gate 6 "the token does not allow this job" theirs
gate 0 "the sum is right" ours
! grep -q "this machine has no" err || fail "an anchor is there, and the launcher says that there is none"

# A rank looks by itself: a launcher that names another file changes nothing (tests/rank/gate has the rest).
gate 6 "the token does not allow this job" theirs --keyring theirs/keyring.json
echo "the machine's keyring goes before the launcher's"
