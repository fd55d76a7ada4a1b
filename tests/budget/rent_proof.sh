#!/usr/bin/env bash
# What a vendor says of an instance counts only if it is true, and of the account that has it: rent and end, with a vendor that is a
# directory, and a real service.
#   rent_proof.sh BIN SOURCES    where budget-service and launcher are, and the project's directory
set -euo pipefail

bin=$(cd "$1" && pwd)
sources=$(cd "$2" && pwd)
. "$sources/tests/budget/rent_setup.sh"

echo "== another account knows nothing of an instance"
authorize rented
touch vendor/stuck
in_background rented sh -c 'touch began; exec sleep 1000'
wait_for "the command" [ -e began ]
watchdog=$(watchdog_of "$pid")
kill -9 "$watchdog"
kill "$pid"
wait_for "trouble" grep -q "try later; trying again" err
kill -9 "$pid"
ended 137
rm vendor/stuck
left=$(ls vendor/instances)
is_reserved() { budget-service list --json | jq -e '.entries[] | select(.label == "rented") | .state == "created" and .reserved_usd_micro == 1500000
    and .vendor_account == "user-1"' >/dev/null || fail "rented is: $(budget-service list --json)"; }
VENDOR_KEY=user-2 budget 8 end rented --driver ./driver --out rented.rent
err_has "the instances of rented are in the account user-1 of stub, and the driver speaks for user-2: nothing is ended" "run this with the key of user-1"
is_reserved
[ "$(ls vendor/instances)" = "$left" ] || fail "left: $(ls vendor/instances)"
at=$(date -u +%Y-%m-%dT%H:%M:%SZ)
jti=$(jq -r .jti rented.rent/instances.json)
# found ACCOUNT...: evidence that says of the instance what that account says.
found() {
    jq -n --arg at "$at" --arg jti "$jti" --arg id "$left" '{evidence: "ringfence/termination/v1", vendor: "stub", jti: $jti,
        describe: [{$at, instance_id: $id, name: "rf-\($jti)-1", status: "not-found"}], list: {$at, instances: []}} + '"$1" >found.json
}
found '{vendor_account: "user-2"}'
budget 4 terminated rented --evidence found.json --key request
err_has "evidence: vendor_account is user-2, and the instances are in user-1; an admin may vouch for the end with --attested"
found '{}'
budget 4 terminated rented --evidence found.json
err_has "evidence: vendor_account is missing"
budget 4 attach rented --instance-id "$left" --vendor-account user-2
err_has "rented is in the account user-1 of the vendor, and not in user-2"
is_reserved

echo "== a driver that says no account ends it, and proves nothing"
touch vendor/nameless
budget 8 end rented --driver ./driver --out rented.rent
err_has "stub, account: usage: driver check | create; without its account" "$left is gone" "not proven: evidence: vendor_account is missing"
none_left || fail "an instance is left"
is_reserved
authorize unsaid
rent 1 unsaid true
err_has "stub, account: usage: driver check | create" "nothing was created, and the token is as good as before"
rm vendor/nameless
budget 0 end rented --driver ./driver --out rented.rent
is_state rented terminated-unbilled || fail "rented is $(state_of rented)"
jq -e '.vendor_account == "user-1"' rented.rent/evidence.json >/dev/null || fail "the evidence: $(cat rented.rent/evidence.json)"

echo "== the account changes while it goes on"
in_background unsaid sh -c 'echo user-2 >$VENDOR/whose'
wait_for "the refusal" grep -q "the driver speaks for the account user-2 of stub now, and the instances of unsaid are in user-1" err
is_state unsaid created || fail "unsaid is $(state_of unsaid)"
rm vendor/whose
ended 0
none_left || fail "an instance is left"
is_state unsaid terminated-unbilled || fail "unsaid is $(state_of unsaid)"

echo "== an answer that is wrong for a moment"
authorize blind
rm vendor/calls
RINGFENCE_ACCOUNT=of/another rent 0 blind sh -c 'echo 3 >$VENDOR/blind'
none_left || fail "proven, and left"
grep -q "^delete" vendor/calls || fail "it was never deleted"
[ "$(cat vendor/about)" = user-1 ] || fail "the driver was told: $(cat vendor/about)"

echo "== one that the last list shows first"
authorize ghost
budget 0 redeem ghost.token --create
printf 'mine-%s' "$(budget-service list --json | jq -r '.entries[] | select(.label == "ghost") | .jti')" >vendor/instances/i-90
echo terminated >vendor/status
echo 1 >vendor/blind
budget 0 end ghost --driver ./driver
rm vendor/status vendor/instances/i-90

echo "== instances.json is none, and nobody guards"
authorize spoiled
in_background spoiled sh -c 'echo x >$RINGFENCE_RENT_DIR/instances.json; touch began; exec sleep 1000'
wait_for "the command" [ -e began ]
watchdog=$(watchdog_of "$pid")
kill -9 "$watchdog" "$pid"
ended 137
budget 0 end spoiled --driver ./driver --out spoiled.rent
none_left || fail "an instance is left"
authorize other
budget 0 redeem other.token --create
budget 2 end other --driver ./driver --out spoiled.rent
err_has "spoiled.rent/instances.json is another label's"

echo "== a watchdog that is killed before anything is created"
authorize alone
rm vendor/calls
kill -STOP "$service"
in_background alone true
wait_for "the watchdog" [ -e alone.rent/end.log ]
watchdog=$(watchdog_of "$pid")
kill -9 "$watchdog"
wait_for "the watchdog's end" grep -q "^State:.Z" "/proc/$watchdog/status" # the rent reaps it at its end
kill -CONT "$service"
ended 1
err_has "the watchdog has been killed; nothing was created, and the token is as good as before"
! grep -q create vendor/calls || fail "created: $(cat vendor/calls)"
echo passed
