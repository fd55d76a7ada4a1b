#!/usr/bin/env bash
# What a person sees who may have forgotten a machine, or who asks for less than it costs: running, list
# and status, the launcher's last line, the terms of a grant, lost answers, the hook and its example.
#   forgotten.sh BIN SOURCES    where budget-service and launcher are, and the project's directory
set -euo pipefail

bin=$(cd "$1" && pwd)
sources=$(cd "$2" && pwd)
. "$sources/tests/support/service.sh"
export PATH=$bin:$PATH
export BUDGET_SERVICE_DIR=$scratch/service

head -c 24 /dev/urandom | base64 >passphrase
budget 0 init --passphrase-file passphrase

echo "== the hook, by hand"
budget 1 hook test
err_has 'has no "hook"'
cat >told.sh <<'SH'
#!/bin/sh
cat >"$(dirname "$0")/told"
exit "$(cat "$(dirname "$0")/code" 2>/dev/null || echo 0)"
SH
cat >service/policy.json <<JSON
{"version": 1, "account": "lab", "hook": ["$scratch/told.sh"],
 "vendors": {"runpod": {"granularity_seconds": 60}},
 "accounts": {"*": {"defaults": {"instances": 1, "max_attempts": 2}},
              "quoted": {"defaults": {"vendor": "runpod", "max_price": "0.69", "max_hours": "1"},
                         "limits": {"vendors": ["runpod", "local"], "max_price": "2.00", "max_hours": "8"}}}}
JSON
budget 1 hook test
err_has "told.sh, is no program that may be run: chmod +x it"
budget 1 serve --passphrase-file passphrase
err_has "told.sh, is no program that may be run: chmod +x it"
chmod +x told.sh
budget 0 hook test
out_has "the policy's hook ended with exit code 0"
grep -q '^{"at":"20.*Z","event":"test"}$' told || fail "the hook heard: $(cat told)"
echo 3 >code
budget 1 hook test --json
out_has '"hook_exit":3' '"exit":1'
(trap '' CHLD && budget 1 hook test)
out_has "the policy's hook ended with exit code 3"
rm code
bash -c 'sleep 1000 & echo $! >other; exec budget-service hook test' >out
kill "$(cat other)" || fail "hook test has ended a process that is not its own"

echo "== serve"
start_service --passphrase-file passphrase
budget 0 account create lab --cap 100
budget 0 account create quoted --cap 100
echo '{"job":{"mode":"gate-check","world_size":2}}' >JOB.json
budget 0 running
out_has "nothing runs that may be billed"
budget 0 running --check

echo "== what refuses says what to do"
budget 0 list
out_has "nothing was authorized"
budget 4 list --account nobody
err_has "there is no account nobody: budget-service account list has them"
[ ! -s out ] || fail "a refused list begins with a table: $(cat out)"
budget 4 account create lab --cap 5
err_has "there is an account lab already: budget-service account set-cap lab --cap USD"
budget 4 account create none/of --cap 5
err_has "first budget-service account create none --cap USD"
budget 1 init --passphrase-file passphrase
err_has "has a service already: budget-service serve starts it"
budget 1 key revoke unknown
err_has "budget-service key list has them"
budget 4 authorize cheap 0.10 --account quoted --job JOB.json
err_has "1 instance for 3600 s" 'may cost $0.7015, asked $0.10: ask for that much, or give a lower --max-hours'
budget 0 authorize steps 0.80 --account quoted --job JOB.json --max-attempts 1 --out steps.token
budget 6 redeem steps.token --ranks 2 --attempt 2 --out steps
err_has "steps allows attempts 1 to 1, not 2: authorize the job anew, under another label"
budget 0 redeem steps.token --create
budget 4 redeem steps.token --create
err_has "given before: look at the vendor's list for what was made with it"
budget 0 attach steps --instance-id right
budget 4 attach steps --instance-id other
err_has "steps is for 1 instance and has it: end this one, or authorize it under a label of its own; an admin"
budget 4 attach steps --instance-id other --replaces wrong
err_has "steps has no instance wrong: budget-service list shows those it has"
budget 4 terminated steps --evidence passphrase --key request
err_has "evidence: the file is not JSON; an admin may vouch for the end"
budget 4 record-actual steps 0.02 --key request
err_has "which may not ask record_actual: take the key of one that may (--key)"
budget 0 terminated steps --evidence passphrase
budget 0 record-actual steps 0.02
budget 4 redeem steps.token --ranks 2 --attempt 1 --out steps
err_has "authorize the job anew, under another label"

echo "== terms of a grant"
budget 0 authorize big 0.10 --job JOB.json --max-hours 1000 --instances 3 --out big.token
err_has 'for 3 instances of cloud at $0.000033/h each, 1000 h (3600000 s)' "no quote"
budget 0 authorize named 0.80 --account quoted --job JOB.json --out named.token --json
out_has '"price_derived":false' '"max_price_usd_micro_per_hour":690000' '"max_seconds":3600' '"instances":1'
budget 0 authorize made-up 0.80 --job JOB.json --json
out_has '"price_derived":true'
budget 0 void made-up

echo "== answers that are lost"
! budget-service authorize lost 1.00 --job JOB.json >/dev/full 2>err || fail "a lost token is no success"
err_has "lost is granted" "--request-id"
budget 0 authorize lost 1.00 --job JOB.json --request-id "$(sed -n 's/.*--request-id //p' err)"
out_has "v4.public."
budget 0 void lost
for command in status list running "account list" "remaining lab" "audit" "status --json" --help; do
    # shellcheck disable=SC2086
    ! budget-service $command >/dev/full 2>err || fail "a lost answer is no success: $command"
done

echo "== what runs"
budget 0 redeem big.token --create
out_has "creation permit: 3 instances, to be ended before"
budget 0 attach big --instance-id i-1
budget 0 attach big --instance-id i-2
budget 8 running --check
out_has "big  lab  cloud: i-1 i-2 (2 of 3 attached); since 20" "in 41 days" "about \$0.00 by now, at \$0.000033/h, which" \
    "1 may still be billed, 0 past the deadline" "To end one: budget-service end LABEL; or at the vendor"
budget 8 running --check --json
out_has '"instance_ids":["i-1","i-2"]' '"estimated_usd_micro":' '"left_seconds":' '"price_derived":true'
budget 0 running --check --account quoted
budget 0 list
out_has "authorized" "i-1 i-2 (2 of 3 attached)" "deadline"
budget 0 terminated big --evidence JOB.json
budget 0 record-actual big 0.02
budget 0 running --check
budget 0 list --json
out_has '"authorized_usd_micro":100000' '"reserved_usd_micro":0'

echo "== the launcher's last line"
launcher --mode gate-check --ranks 2 --write-job GATE.json >out 2>err
budget 0 authorize gate 0.80 --account quoted --job GATE.json --out gate.token
launcher --mode gate-check --token gate.token --keyring service/keyring.json >out 2>err || fail "the launch"
tail -n 1 err >last && cp last err
err_has "gate is still open, and its instance of runpod may still be billed" "A launch ends no instance: budget-service end gate does" \
    "budget-service terminated gate --evidence FILE" "budget-service running"
launcher --mode gate-check --ranks 2 --authorize local --account quoted >out 2>err || fail "the local launch"
! grep -q "still open" err || fail "a machine of one's own is not billed"
budget 0 authorize derived 0.80 --account lab --job GATE.json --out derived.token
launcher --mode gate-check --token derived.token >out 2>err || fail "the launch"
err_has "which is what the amount pays for and no quote" "A launch ends no instance: end it at the vendor, then, or if none was made: "
! grep -q "budget-service end derived" err || fail "no driver is known for a token without a vendor"

echo "== a plan's command is granted as it is printed"
for ranks in 1 2 8 24; do
    for granularity in "" "--granularity 60"; do
        # shellcheck disable=SC2086
        launcher plan --model gpt2 --ranks "$ranks" --device h100 --batch 1 --global-batch 48 --price 0.07 --steps 50000 \
            --ranks-per-host 8 $granularity >out 2>err || fail "no plan"
        label=plan-$ranks-${#granularity}
        account=quoted
        [ -n "$granularity" ] || account=lab # whose vendor is not known, and bills an hour at least
        command=$(sed -n "s/^To reserve that: budget-service authorize LABEL \(.*\) --account ACCOUNT /authorize $label \1 --account $account /p" out)
        [ -n "$command" ] || fail "the plan recommends nothing"
        # shellcheck disable=SC2086
        budget 0 $command
        err_has "granted $label" "at \$0.$(printf %02d $((ranks < 8 ? ranks * 7 : 56)))"
        budget 0 void "$label"
    done
done

echo "== percent"
budget 0 record-actual gate 4000
budget 8 status --check
out_has "4000 %" "1 frozen"
kill "$service" && wait "$service" || fail "serve ended with $?"

echo "== the example of a hook ends instances and sends mail"
mkdir stubs drivers vendor
cat >drivers/runpod <<SH
#!/bin/sh
cd $scratch/vendor
shown() { printf '{"instance_id":"%s","name":"%s","status":"starting"}' "\$1" "\$(cat "\$1")"; }
case \$1 in
account) echo '{"vendor_account":"user_2abc"}' ;;
list)
    comma=
    printf '{"instances":['
    for id in *; do
        [ -e "\$id" ] || continue
        printf %s "\$comma" && shown "\$id" && comma=,
    done
    echo ']}'
    ;;
describe) if [ -e "\$2" ]; then shown "\$2"; else printf '{"instance_id":"%s","status":"not-found"}' "\$2"; fi ;;
delete)
    [ "\$2" != pod-2 ] || [ -e ../lucky ] || { echo "HTTP 500: no such luck" >&2; exit 1; }
    rm -f "\$2"
    ;;
esac
SH
cat >stubs/sendmail <<SH
#!/bin/sh
sleep 0.2 # what does not wait for it is ended
cat >>$scratch/mailed.part
! grep -q "ended, and proven\\|NOT ended" $scratch/mailed.part || mv $scratch/mailed.part $scratch/mailed
SH
# The example gives an end 35 s. Here one that cannot succeed is over as soon as it has said so, and has done the rest.
cat >stubs/timeout <<SH
#!/bin/sh
[ "\$2" = budget-service ] || exec $(command -v timeout) "\$@"
shift
"\$@" >$scratch/end-said 2>&1 &
while kill -0 \$! 2>/dev/null; do
    if [ ! -e $scratch/vendor/pod-1 ] && grep -q "no such luck\|runpod, list: " $scratch/end-said; then
        kill \$!
        wait \$!
        cat $scratch/end-said
        exit 124
    fi
    sleep 0.01
done
wait \$!
code=\$?
cat $scratch/end-said
exit \$code
SH
chmod +x stubs/* drivers/*
cp "$sources/budget-service/examples/alarm.sh" alarm.sh
printf 'mail_to=me@example.org\nend_at_deadline=yes\ndrivers=%s/drivers\n' "$scratch" >alarm.conf
sed -i "s#$scratch/told.sh#$scratch/alarm.sh#" service/policy.json
PATH=$scratch/stubs:$PATH budget 0 hook test
grep -q '"event":"test"' mailed.part || fail "no mail of the test"
PATH=$scratch/stubs:$PATH start_service --passphrase-file passphrase
budget 0 authorize short 0.80 --account lab --vendor runpod --instances 2 --max-hours 0.0003 --job JOB.json
jti=$(budget-service list --json | jq -r '.entries[] | select(.label == "short") | .jti')
printf '%s-1' "$jti" >vendor/pod-1
printf '%s-2' "$jti" >vendor/pod-2
printf 'somebody' >vendor/pod-3
for id in 1 2; do budget 0 attach short --instance-id "pod-$id"; done
mailed() {
    for ((i = 0; i < 6000; i++)); do
        [ ! -e mailed ] || break
        sleep 0.01
    done
    cp mailed out || fail "no mail of the deadline"
}
mailed
out_has "To: me@example.org" "Subject: budget: deadline-passed short" '"event":"deadline-passed"' "NOT ended, or not proven" "no such luck"
[ "$(echo vendor/*)" = "vendor/pod-2 vendor/pod-3" ] || fail "left: $(echo vendor/*)"
for ((i = 0; i < 2000; i++)); do
    ! grep -q "the policy's hook ended with exit code 1" log || break
    sleep 0.01
done
budget 8 status --check
out_has "ALARM nobody may have heard the last alarm: the policy's hook ended with exit code 1" "pod-1 pod-2"

echo "== the same, and all of it can be ended"
touch lucky
rm mailed
printf '{"event":"deadline-passed","label":"short","vendor":"runpod","instances":["pod-1"]}\n' |
    PATH="$scratch/stubs:$PATH" ./alarm.sh || fail "the hook has failed"
mailed
out_has "short: ended, and proven"
[ "$(echo vendor/*)" = "vendor/pod-3" ] || fail "left: $(echo vendor/*)"

echo "== the drivers that the example finds by itself"
printf 'mail_to=me@example.org\nend_at_deadline=yes\n' >alarm.conf
budget 0 authorize other 0.80 --account lab --vendor runpod --job JOB.json
budget 0 attach other --instance-id pod-4
rm mailed
printf '{"event":"deadline-passed","label":"other","vendor":"runpod","instances":["pod-4"]}\n' |
    env -u RUNPOD_API_KEY RUNPOD_URL=http://127.0.0.1:1 PATH="$scratch/stubs:$PATH" ./alarm.sh &&
    fail "the hook has ended nothing, and says that all is well"
mailed
out_has "NOT ended, or not proven" "runpod, account: " "runpod, list: " # it needs a key, or curl
echo passed
