# shellcheck shell=bash
# For the tests of rent and end: a vendor that is a directory, a real service with an account, and what starts rents. Sourced with `bin`
# and `sources` set.
. "$sources/tests/support/service.sh"
export PATH=$bin:$PATH
export BUDGET_SERVICE_DIR=$scratch/service
export VENDOR=$scratch/vendor
mkdir "$VENDOR" "$VENDOR/instances"

# wait_for WHAT COMMAND...: until it succeeds.
wait_for() {
    local what=$1
    shift
    for ((i = 0; i < 1200; i++)); do
        ! "$@" 2>/dev/null || return 0
        sleep 0.1
    done
    fail "waited in vain: $what"
}

# The vendor: a file for each instance, with its name. Files beside them are its faults.
cat >driver <<'SH'
#!/bin/sh
set -eu
cd "$VENDOR"
echo "$*" >>calls
whose() { echo "${VENDOR_KEY:-$(cat whose 2>/dev/null || echo user-1)}"; } # all instances are user-1's
hidden() { [ "$(cat late 2>/dev/null || echo 0)" -gt 0 ] || [ "$(whose)" != user-1 ]; }
blind() { # it knows nothing for so many answers
    n=$(cat blind 2>/dev/null || echo 0)
    [ "$n" -gt 0 ] && echo $((n - 1)) >blind
}
show() { # ID
    status=running
    [ ! -e status ] || status=$(cat status)
    printf '{"instance_id":"%s","name":"%s","status":"%s","host":"127.0.0.1","port":22,"user":"me","price_usd":"%s"}' \
        "$1" "$(cat "instances/$1")" "$status" "$(cat price 2>/dev/null || echo 0.60)"
}
case $1 in
account)
    [ ! -e nameless ] || { echo "usage: driver check | create" >&2; exit 2; }
    printf '{"vendor_account":"%s"}\n' "$(whose)"
    ;;
check)
    cat >order
    while [ -e slow ]; do sleep 0.05; done
    [ ! -e full ] || { echo "no capacity: take another type" >&2; exit 3; }
    ;;
create)
    order=$(cat)
    printf '%s' "$order" >ordered
    [ ! -e full-now ] || { echo "it was taken by somebody" >&2; exit 3; }
    id=i-$(($(cat count 2>/dev/null || echo 0) + 1))
    echo "${id#i-}" >count
    printf '%s' "$order" | sed 's/.*"name":"\([^"]*\)".*/\1/' | tr -d '\n' >"instances/$id"
    if [ -e hangs ]; then
        echo $$ >creating
        while :; do sleep 0.05; done
    fi
    [ ! -e lost ] || { echo "the connection was closed" >&2; exit 1; }
    if [ -e wrong-id ]; then id=i-700; fi
    if [ -e at-once ]; then show "$id"; else printf '{"instance_id":"%s"}\n' "$id"; fi
    ;;
list)
    [ ! -e down ] || { echo "the vendor does not answer" >&2; exit 1; }
    echo "${RINGFENCE_ACCOUNT-none}" >about
    ! blind || { echo '{"instances":[]}' && exit; }
    separator=
    printf '{"instances":['
    for file in instances/*; do
        [ -e "$file" ] && ! hidden || continue
        printf %s "$separator"
        show "${file#instances/}"
        separator=,
    done
    echo ']}'
    ;;
describe)
    [ ! -e down ] || { echo "the vendor does not answer" >&2; exit 1; }
    if blind; then
        printf '{"instance_id":"%s","status":"not-found"}' "$2"
    elif hidden; then
        [ ! -e late ] || echo $(($(cat late) - 1)) >late
        printf '{"instance_id":"%s","status":"not-found"}' "$2"
    elif [ -e "instances/$2" ]; then show "$2"; else printf '{"instance_id":"%s","name":"","status":"not-found"}' "$2"; fi
    ;;
delete)
    [ ! -e stuck ] || { echo "try later" >&2; exit 1; }
    hidden || rm -f "instances/$2"
    ;;
esac
SH
chmod +x driver
# in_background LABEL COMMAND...: a rent of which pid is the process; SIGINT is not ignored.
in_background() {
    local label=$1
    shift
    rm -f began
    env --default-signal=INT budget-service rent "$label.token" --driver ./driver --timeout 20 --out "$label.rent" -- "$@" \
        >out 2>err &
    pid=$!
}
# ended CODE: the one in the background ends so.
ended() {
    local got=0
    wait "$pid" || got=$?
    [ "$got" -eq "$1" ] || fail "exit $got, not $1"
}
watchdog_of() { pgrep -x -P "$1" rent-watchdog; }
is_gone() { ! kill -0 "$1"; }
none_left() { [ -z "$(ls "$VENDOR/instances")" ]; }
state_of() { budget-service list --json | jq -r ".entries[] | select(.label == \"$1\") | .state"; }
is_state() { [ "$(state_of "$1")" = "$2" ]; }

# authorize LABEL ARGUMENTS...: a token in LABEL.token.
authorize() {
    local label=$1
    shift
    budget 0 authorize "$label" 1.50 --account lab --job JOB.json --vendor "${vendor:-stub}" --instance-type small \
        --max-price 0.69 --max-hours "${hours:-1}" --out "$label.token" "$@"
}
# rent CODE LABEL COMMAND...
rent() {
    local code=$1 label=$2
    shift 2
    budget "$code" rent "$label.token" --driver ./driver --timeout 3 --out "$label.rent" -- "$@"
}

head -c 24 /dev/urandom | base64 >passphrase
budget 0 init --passphrase-file passphrase
cat >service/policy.json <<'JSON'
{"version": 1, "account": "lab", "vendors": {"stub": {"granularity_seconds": 60}},
 "accounts": {"*": {"defaults": {"instances": 1, "gpus": 1, "max_attempts": 2}}}}
JSON
start_service --passphrase-file passphrase
budget 0 account create lab --cap 100
launcher --mode gate-check --ranks 2 --write-job JOB.json >out 2>err
