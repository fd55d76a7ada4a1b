#!/usr/bin/env bash
# Instances are rented and always ended: rent and end, with a vendor that is a directory, and a real service.
#   rent.sh BIN SOURCES    where budget-service and launcher are, and the project's directory
set -euo pipefail

bin=$(cd "$1" && pwd)
sources=$(cd "$2" && pwd)
. "$sources/tests/budget/rent_setup.sh"

echo "== a command, and its end"
authorize good
cat >command.sh <<'SH'
#!/bin/sh
echo "$RINGFENCE_USER@$RINGFENCE_HOST:$RINGFENCE_PORT"
cat "$RINGFENCE_RENT_DIR/instances.json"
ls "$VENDOR/instances"
ls "$RINGFENCE_RENT_DIR"
exit 5
SH
chmod +x command.sh
budget 0 verify good.token
rent 5 good ./command.sh x
out_has me@127.0.0.1:22 '"label": "good"' '"name": "rf-' i-1 job.key token
err_has "created i-1 at stub" "i-1 is gone: the vendor says not-found" "all of good is ended, and proven. It cost about"
none_left || fail "an instance is left"
is_state good terminated-unbilled || fail "good is $(state_of good)"
grep -q '"status": "not-found"' good.rent/evidence.json || fail "no evidence"
grep -q '"max_price_usd":"0.69"' vendor/order || fail "the order: $(cat vendor/order)"
budget 0 running --check
budget 4 rent good.token --driver ./driver --out again -- true
err_has "given before"
[ ! -e again ] || fail "a directory without a rent is left"

echo "== the ranks' receipts are redeemed with the rent's key"
authorize ranks
budget 0 rent ranks.token --driver ./driver -- sh -c 'budget-service redeem $RINGFENCE_RENT_DIR/token --ranks 2 --attempt 1 --out $RINGFENCE_RENT_DIR &&
    launcher --mode gate-check --token $RINGFENCE_RENT_DIR/token --receipts $RINGFENCE_RENT_DIR --keyring service/keyring.json'
is_state ranks terminated-unbilled || fail "ranks is $(state_of ranks)"
[ -s service/rents/*/evidence.json ] || fail "a rent without a directory of its own has one there"

echo "== nothing is created, nothing is spent"
authorize none
touch vendor/full
rent 4 none true
err_has "no capacity: take another type" "nothing was created, and the token is as good as before"
rm vendor/full
touch vendor/down
rent 1 none true
err_has "the vendor does not answer"
rm vendor/down
[ ! -e none.rent ] || fail "a directory is left"
mkdir none.rent && touch none.rent/token none.rent/job.key
rent 1 none true
err_has "is not empty: each rent has a directory of its own, and each token one rent: authorize another label"
[ -e none.rent/token ] && [ -e none.rent/job.key ] || fail "the files of another rent are gone"
rm -r none.rent
budget 0 void none
budget 0 authorize local 0 --account lab --job JOB.json --vendor local --out local.token
budget 2 rent local.token --out d -- true
err_has "the token is for this machine, and nothing is rented"
vendor=nobody authorize elsewhere
budget 2 rent elsewhere.token --out d -- true
err_has "nobody: there is no program" "--driver FILE names another"
budget 2 rent elsewhere.token --out d
err_has "a command is missing behind --"

echo "== refused after the permit: an admin vouches"
authorize refused
touch vendor/full-now
rent 8 refused true
err_has "it was taken by somebody" "0 of the 1 instances that its token allows were made" \
    "budget-service terminated refused --evidence $scratch/refused.rent/evidence.json --attested --key admin"
rm vendor/full-now
budget 0 terminated refused --evidence refused.rent/evidence.json --attested --key admin

echo "== an order whose answer is lost"
authorize lost
touch vendor/lost
rent 1 lost true
rm vendor/lost
err_has "nobody knows whether it was created: stub, create: the connection was closed" "all of lost is ended, and proven"
none_left || fail "an instance is left"
is_state lost terminated-unbilled || fail "lost is $(state_of lost)"

echo "== one that was found in the list, and rent is killed"
authorize listed
touch vendor/lost vendor/stuck
in_background listed true
wait_for "the list" grep -q "try later; trying again" err
kill -STOP "$pid"
rm vendor/instances/* vendor/lost vendor/stuck
kill -9 "$pid"
ended 137
wait_for "the proof" is_state listed terminated-unbilled

echo "== a higher price than was granted"
authorize dear
echo 0.70 >vendor/price
rent 1 dear true
rm vendor/price
err_has 'costs $0.70/h, and $0.69/h was granted' "all of dear is ended, and proven"

echo "== an instance that does not start"
authorize slow
echo starting >vendor/status
budget-service rent slow.token --driver ./driver --out slow.rent -- true >out 2>err &
pid=$!
wait_for "the instance" grep -q "created i-" err
echo stopped >vendor/status
code=0
wait "$pid" || code=$?
rm vendor/status
[ "$code" -eq 1 ] || fail "exit $code"
err_has "does not start: the vendor says stopped" "all of slow is ended, and proven"

echo "== several, as JSON"
authorize several --instances 2
budget 3 rent several.token --driver ./driver --out several.rent --json -- sh -c 'ls $VENDOR/instances; exit 3'
out_has '"command_exit":3' '"end":"proven"' '"exit":3' '"estimated_usd_micro":'
jq -e '.instance_ids | length == 2' out >/dev/null || fail "two instances: $(cat out)"
none_left || fail "an instance is left"

echo "== a command that is not there, and one that does not start"
authorize typo
rent 2 typo ./no-such-command
err_has "there is no program ./no-such-command"
[ ! -e typo.rent ] || fail "a directory without a rent is left"
printf '#!/no/such/interpreter\n' >broken && chmod +x broken
rent 1 typo ./broken
err_has "cannot start ./broken" "all of typo is ended, and proven"

echo "== SIGTERM"
authorize term
budget-service rent term.token --driver ./driver --out term.rent -- sh -c 'touch began; exec sleep 1000' >out 2>err &
pid=$!
wait_for "the command" [ -e began ]
kill "$pid"
code=0
wait "$pid" || code=$?
[ "$code" -eq 143 ] || fail "exit $code"
err_has "ended with exit code 143" "all of term is ended, and proven"
none_left || fail "an instance is left"

echo "== kill -9: another process ends them"
authorize killed
rm -f began
budget-service rent killed.token --driver ./driver --out killed.rent -- sh -c 'touch began; exec sleep 5' >out 2>err &
pid=$!
wait_for "the command" [ -e began ]
kill -9 "$pid"
wait_for "the end" none_left
wait_for "the proof" is_state killed terminated-unbilled
wait_for "the log" grep -q "ended, and proven" killed.rent/end.log

echo "== kill -9, and instances.json is none"
authorize spoiled
in_background spoiled sh -c 'echo x >$RINGFENCE_RENT_DIR/instances.json; touch began; exec sleep 5'
wait_for "the command" [ -e began ]
kill -9 "$pid"
ended 137
wait_for "the end" none_left
wait_for "the proof" is_state spoiled terminated-unbilled

echo "== kill -9 before the permit: there is nothing to end"
authorize early
kill -STOP "$service"
in_background early true
wait_for "the watchdog" [ -e early.rent/end.log ]
watchdog=$(watchdog_of "$pid")
kill -9 "$pid"
ended 137
wait_for "the watchdog's end" is_gone "$watchdog"
kill -CONT "$service"
[ ! -s early.rent/end.log ] || fail "the log: $(cat early.rent/end.log)"
is_state early reserved || fail "early is $(state_of early)"

echo "== kill -9 while the driver creates: it is ended, too"
authorize creating
touch vendor/hangs
in_background creating true
wait_for "the order" [ -e vendor/creating ]
kill -9 "$pid"
ended 137
wait_for "the driver's end" is_gone "$(cat vendor/creating)"
wait_for "the end" none_left
wait_for "the proof" is_state creating terminated-unbilled
rm vendor/hangs vendor/creating

echo "== a rent that stands still"
hours=0.001 authorize stopped
in_background stopped sh -c 'touch began; exec sleep 1000'
wait_for "the command" [ -e began ]
kill -STOP "$pid"
wait_for "the end" none_left
wait_for "the proof" is_state stopped terminated-unbilled
kill -CONT "$pid"
ended 143
err_has "all of stopped is ended, and proven"

echo "== SIGINT that is sent, and SIGHUP that is ignored"
authorize int
in_background int sh -c 'touch began; exec sleep 1000'
wait_for "the command" [ -e began ]
kill -INT "$pid"
ended 130
authorize hup
rm -f began
(trap '' HUP && exec budget-service rent hup.token --driver ./driver --out hup.rent -- \
    sh -c 'touch began; while [ ! -e go ]; do sleep 0.05; done; exit 7') >out 2>err &
pid=$!
wait_for "the command" [ -e began ]
watchdog=$(watchdog_of "$pid")
kill -HUP "$pid"
touch go
ended 7
is_gone "$watchdog" 2>/dev/null || fail "the watchdog is left"

echo "== SIGTERM before anything is created"
authorize calm
touch vendor/slow
rm -f vendor/calls
in_background calm true
wait_for "the check" grep -q check vendor/calls
kill "$pid"
rm vendor/slow
ended 143
err_has "interrupted; nothing was created, and the token is as good as before"
! grep -q create vendor/calls || fail "created: $(cat vendor/calls)"

echo "== without standard input"
budget-service rent calm.token --driver ./driver --out calm.rent -- sh -c '[ ! -s $RINGFENCE_RENT_DIR/end.log ]' \
    >out 2>err <&- || fail "the watchdog did not wait: $(cat calm.rent/end.log)"
authorize piped
echo word | budget-service rent piped.token --driver ./driver --out piped.rent -- cat >out 2>err
out_has word

echo "== a key that was revoked"
budget 0 client add bob --role request
budget 0 client revoke bob
authorize revoked
rm -f vendor/calls
budget 1 rent revoked.token --driver ./driver --timeout 3 --out revoked.rent --key bob -- true
err_has "nothing was created, and the token is as good as before"
! grep -q create vendor/calls || fail "created: $(cat vendor/calls)"

echo "== the vendor shows it late"
echo 2 >vendor/late
rent 0 revoked sh -c '[ -n "$(ls $VENDOR/instances)" ]'
authorize hidden
echo 3 >vendor/late
in_background hidden true
wait_for "the order" grep -q "created i-" err
kill "$pid"
ended 143
none_left || fail "proven, and left"
rm vendor/late

echo "== what create says is not believed"
authorize at-once
echo 0.70 >vendor/price
touch vendor/at-once
rent 1 at-once true
err_has 'costs $0.70/h, and $0.69/h was granted'
rm vendor/price vendor/at-once
authorize wrong
printf other >vendor/instances/i-700
touch vendor/wrong-id
rent 8 wrong true
err_has "says that it has created i-700, which is named 'other': somebody else's" "not proven"
[ "$(ls vendor/instances)" = i-700 ] || fail "left: $(ls vendor/instances)"
rm vendor/wrong-id vendor/instances/i-700

echo "== the vendor does not end it: again and again, then in the background"
authorize stuck
rm -f began
touch vendor/stuck
budget-service rent stuck.token --driver ./driver --out stuck.rent -- sh -c 'touch began; exec sleep 1000' >out 2>err &
pid=$!
wait_for "the command" [ -e began ]
kill "$pid"
wait_for "trouble" grep -q "try later; trying again" err
kill "$pid"
wait_for "the first signal" grep -q "goes on in the background" err
kill "$pid"
code=0
wait "$pid" || code=$?
[ "$code" -eq 8 ] || fail "exit $code"
err_has "instances of stuck may still run and cost money: a process goes on ending them for a day, and writes to $scratch/stuck.rent/end.log"
rm vendor/stuck
wait_for "the end" none_left
wait_for "the proof" is_state stuck terminated-unbilled

echo "== the deadline"
hours=0.001 authorize late
rent 143 late sh -c 'exec sleep 1000'
err_has "was ended, because the granted time is over at" "all of late is ended, and proven"

echo "== the service is not there at the end"
authorize unheard
rent 8 unheard sh -c "kill $service; while kill -0 $service 2>/dev/null; do sleep 0.1; done"
err_has "no instance of unheard is left at stub, but that is not proven" \
    "when the service answers: budget-service terminated unheard --evidence $scratch/unheard.rent/evidence.json"
none_left || fail "an instance is left"
wait "$service" || fail "serve ended with $?"
start_service --passphrase-file passphrase
budget 0 terminated unheard --evidence unheard.rent/evidence.json
is_state unheard terminated-unbilled || fail "unheard is $(state_of unheard)"

echo "== end LABEL"
budget 4 end nobody
err_has "the ledger has no nobody"
authorize by-hand
budget 4 end by-hand --driver ./driver
err_has "nothing was created for by-hand" "budget-service void by-hand"
budget 0 redeem by-hand.token --create
jti=$(budget-service list --json | jq -r '.entries[] | select(.label == "by-hand") | .jti')
printf 'mine-%s' "$jti" >vendor/instances/i-77
printf 'other' >vendor/instances/i-78
budget 0 end by-hand --driver ./driver
out_has "by-hand: ended, and proven"
[ "$(ls vendor/instances)" = i-78 ] || fail "left: $(ls vendor/instances)"
authorize foreign
budget 0 attach foreign --instance-id i-78
budget-service end foreign --driver ./driver >out 2>err &
pid=$!
wait_for "the refusal" grep -q "i-78 is attached to foreign, and is named 'other', without" err
kill "$pid"
wait "$pid" || true
[ -e vendor/instances/i-78 ] || fail "somebody else's instance was ended"
echo passed
