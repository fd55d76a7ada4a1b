#!/usr/bin/env bash
# What budget-service says of costs and bills, with a real service. Ends with 77 where a part was skipped
# (and said so) and the rest passed.
#   costs.sh BIN    where budget-service is
set -euo pipefail

bin=$(cd "$1" && pwd)
for how in "unshare -m" "unshare -rm"; do # one part fills a disk
    if [ -z "${COSTS_INSIDE-}" ] && $how true 2>/dev/null; then
        COSTS_INSIDE=yes exec $how bash "$0" "$bin"
    fi
done
. "$(dirname "$0")/../support/service.sh"
export PATH=$bin:$PATH

now() { date -u +%Y-%m-%dT%H:%M:%SZ; }
later=$(date -u -d "+1 hour" +%Y-%m-%dT%H:%M:%SZ)

# run LABEL USD: a run of lab/a that goes on, with the instance pod-LABEL.
run() {
    budget 0 authorize "$1" "$2" --account lab/a --job JOB.json --out "$1.token"
    budget 0 redeem "$1.token" --create
    budget 0 attach "$1" --instance-id "pod-$1" --vendor-account me
}

export BUDGET_SERVICE_DIR=$scratch/service
echo "correct horse battery staple" >passphrase
budget 0 init --passphrase-file passphrase
start_service --passphrase-file passphrase
echo '{"job":{"mode":"gate-check","world_size":2}}' >JOB.json
budget 0 account create lab --cap 100.00
budget 0 account create lab/a --cap 50.00

echo "== who is frozen, why, and what to run"
run dear 1.00
budget 0 record-actual dear 5 --json
out_has '"done":"recorded"' '"frozen":"lab/a"' '"message":"dear cost $5.00, above its $1.00'
budget 0 account acknowledge lab/a
budget 0 record-actual dear 0.50
out_has 'dear: recorded $0.50; $5.50 in all; nothing stays reserved'
err_has 'lab/a is frozen: dear cost $5.50, above its $1.00' ': budget-service account acknowledge lab/a'
budget 0 account acknowledge lab/a
# The parent is above its cap; frozen is the account of the run.
run late 1.00
budget 0 record-actual late 0
out_has 'late: recorded $0.00; no cost is final yet; $1.00 stays reserved until its end is proven: ' 'and then record-actual again'
budget 0 record-actual late 0.05 --partial
out_has 'late: recorded $0.05; $0.05 in all; $0.95 stays reserved until its end is proven: ' 'terminated late'
budget 0 terminated late --evidence JOB.json --json
out_has '"actual_usd_micro":50000' '"reserved_usd_micro":950000' '"state":"terminated-unbilled"'
budget 0 record-actual late 0.05
out_has 'late: recorded $0.05; $0.10 in all, which is final; nothing stays reserved'
budget 0 account set-cap lab --cap 5.00
budget 0 record-actual late 0.20
err_has 'lab/a is frozen: late cost more after its cost was final, so lab is above its cap' 'acknowledge lab/a'
[ "$(wc -l <err)" -eq 1 ] || fail "more than one line"
$(sed 's/.*: budget-service/budget-service/' err) >out
budget 0 account set-cap lab --cap 9000.00
budget 0 account set-cap lab/a --cap 9000.00

echo "== a bill above the reservation is a finding"
run more 1.00
printf 'line_id,instance_id,usd\n1,pod-more,300\n2,pod-dear,5.50\n3,pod-late,0.30\n' >bill.csv
for again in 1 2; do # until somebody acknowledges
    budget 7 reconcile --bill bill.csv --as-of "$later"
    out_has 'frozen             more' '3 matched' ' frozen: the bill is posted'
    err_has 'lab/a is frozen: more cost $300.00, above its $1.00' 'acknowledge lab/a'
done
budget 7 reconcile --bill bill.csv --as-of "$later" --json
out_has '"reconciled":false' '"kind":"frozen"' '"account":"lab/a"' '"message":"more cost $300.00'
budget 8 status --check
budget 0 account acknowledge lab/a
budget 0 reconcile --bill bill.csv --as-of "$later"

echo "== what a matching bill leaves reserved"
run owed 1.00
budget 0 terminated owed --evidence JOB.json
printf 'line_id,instance_id,usd\n1,pod-owed,0.20\n' >owed.csv
budget 0 reconcile --bill owed.csv --as-of "$later"
out_has '1 matched, ended, and not final yet: $0.80 stays reserved'
budget 0 record-actual owed 0
budget 0 reconcile --bill owed.csv --as-of "$later" --json
out_has '"unsettled":0' '"unsettled_usd_micro":0'

echo "== a bill that was not fetched again"
touch -d "@$(($(date +%s) - 7200))" owed.csv
budget 1 reconcile --bill owed.csv --as-of "$later"
written=$(date -u -r owed.csv +%Y-%m-%dT%H:%M:%SZ)
err_has "owed.csv: it was written at $written, and says nothing of the time after that" "give --as-of $written"
budget 0 reconcile --bill owed.csv --as-of "$written"

echo "== a line that grows"
run grows 1.00
printf 'line_id,instance_id,usd\n1,pod-grows,0.20\n' >day.csv
budget 0 reconcile --bill day.csv --as-of "$later"
printf 'line_id,instance_id,usd\n1,pod-grows,9.45\n' >day.csv
budget 7 reconcile --bill day.csv --as-of "$later"
out_has 'frozen             grows' '1 matched'
budget 4 authorize later 1.00 --account lab/a --job JOB.json
budget 0 account acknowledge lab/a
budget 0 record-actual grows 0.05
budget 7 reconcile --bill day.csv --as-of "$later" # less than a person said
out_has 'differing          grows' '1 differing: a bill that says something new, and more, is posted' 'record-actual LABEL -USD'
budget 0 record-actual grows -0.05
budget 0 account acknowledge lab/a

echo "== a disk and an address are billed under ids of their own"
run tagged 2.00
now=$(now)
cat >focus.csv <<CSV
BilledCost,BillingCurrency,ResourceId,ChargePeriodStart,Tags
1.006,USD,pod-tagged,$now,"{""Name"": ""rf-5f0c-1"", ""ringfence-label"": ""tagged""}"
0.0083,USD,vol-01,$now,"{""user:ringfence-label"": ""tagged""}"
0.005,USD,arn:aws:ec2:us-east-1:000000000000:network-interface/eni-01,$now,"{""resourceTags/ringfence-label"": ""tagged""}"
CSV
budget 0 reconcile --bill focus.csv --as-of "$later"
out_has '1 matched, 0 missing in the bill, 0 missing in the ledger'
budget 0 record-actual tagged 0
out_has '$1.0193 in all'

echo "== whose bill it is"
run pod 1.00
for text in '[]' '[{"gpuTypeId": "NVIDIA A40", "amount": 0.5, "time": "2026-01-02T00:00:00Z"}]' '{"results": []}'; do
    echo "$text" >unsaid.json
    budget 2 reconcile --bill unsaid.json --as-of "$later"
    err_has 'nothing in the bill says whose it is' '--vendor runpod' 'grouping=podId'
done
echo usd,label >none.csv
budget 2 reconcile --bill none.csv --as-of "$later"
err_has 'the bill has no lines'
budget 7 reconcile --bill none.csv --format csv --as-of "$later"
out_has 'none.csv: 0 lines, read as csv, of any vendor' 'unknown            pod'
echo '[]' >unsaid.json
budget 7 reconcile --bill unsaid.json --vendor runpod --as-of "$later" --json # the run is of any vendor
out_has '"format":"runpod-json"' '"vendor":"runpod"' '"unknown":1'
budget 7 reconcile --bill none.csv --format csv --as-of "$later" --json
out_has '"format":"csv"' '"vendor":null'
budget 2 reconcile --bill bill.csv --as-of "$later" --request-id once # lines are known by their ids
err_has 'unknown flag --request-id'

echo "== a driver's file that proves no end"
run alive 1.00
jti=$("$bin/budget-service" list --json | sed 's/.*"jti":"\([0-9a-f]*\)","label":"alive".*/\1/')
# evidence STATUS: a driver's, of an instance that is gone from the list.
evidence() {
    cat <<JSON
{"evidence": "ringfence/termination/v1", "vendor": "cloud", "vendor_account": "me", "jti": "$jti",
 "describe": [{"at": "$(now)", "instance_id": "pod-alive", "name": "rf-$jti", "status": "$1"}],
 "list": {"at": "$(now)", "instances": []}}
JSON
}
evidence RUNNING >alive.json
head -c 200 alive.json >part.json
for file in alive.json part.json; do # with the admin's key
    budget 4 terminated alive --evidence $file
    err_has 'refused: evidence: '
done
budget 4 terminated alive --evidence alive.json --attested --key request
budget 0 terminated alive --evidence alive.json --attested
out_has 'alive: terminated, attested by an admin (evidence: describe.status is neither "terminated" nor "not-found")'
run seen 1.00
echo "gone, seen at 12:00" >seen.txt
budget 4 terminated seen --evidence seen.txt --key request
budget 0 terminated seen --evidence seen.txt --json
out_has '"done":"terminated"' '"taken_for":"attested"' '"message":"evidence: the file is not JSON"'
run gone 1.00
budget 2 attach gone --instance-id pod-gone --vendor-account me --replaces pod-x
jti=$("$bin/budget-service" list --json | sed 's/.*"jti":"\([0-9a-f]*\)","label":"gone".*/\1/')
evidence terminated | sed s/pod-alive/pod-gone/ >gone.json
budget 0 terminated gone --evidence gone.json --key request
out_has "gone: terminated, proven by the driver's evidence; no cost is final yet; "'$1.00 stays reserved until the cost is final'

echo "== a mistyped instance"
run typo 1.00
budget 4 attach typo --instance-id pod-right
budget 4 attach typo --instance-id pod-right --replaces pod-typo --key request
err_has 'only an admin may replace'
budget 4 attach typo --instance-id pod-right --replaces pod-other
err_has 'typo has no instance pod-other'
budget 4 attach typo --instance-id pod-gone --replaces pod-typo
err_has 'the instance pod-gone of cloud belongs to another label, gone; an admin sets an id'
budget 4 attach typo --instance-id pod-gone --key request
err_has 'belongs to another label, gone;'
budget 0 attach typo --instance-id pod-right --replaces pod-typo
out_has 'typo: attached anew'
[ ! -s err ] || fail "a warning, though nothing was proven"
budget 4 void typo
budget 0 terminated typo --evidence seen.txt
budget 0 record-actual typo 0.50
printf 'line_id,instance_id,usd\n1,pod-right,0.50\n' >right.csv
budget 7 reconcile --bill right.csv --as-of "$later" --json
out_has '"missing_in_ledger":0' '"matched":1'
budget 4 attach typo --instance-id pod-typo --replaces pod-right
err_has 'a bill has charged the instance pod-right: it was no mistake'

echo "== an end that was refuted raises alarms until it is proved anew"
budget 0 authorize brief 1.00 --account lab/a --job JOB.json --max-hours 0.0003 --out brief.token
budget 0 redeem brief.token --create
budget 0 attach brief --instance-id pod-brief --vendor-account me
jti=$("$bin/budget-service" list --json | sed 's/.*"jti":"\([0-9a-f]*\)","label":"brief".*/\1/')
evidence terminated | sed s/pod-alive/pod-brief/ >brief.json
budget 0 terminated brief --evidence brief.json --key request
for ((i = 0; i < 100; i++)); do
    "$bin/budget-service" status --json | tr -d ' \n' | grep -q '"label":"brief"' && fail "its end is proved"
    sleep 0.03
done
budget 0 attach brief --instance-id pod-short --replaces pod-brief
err_has 'warning: brief: what proved its end was about another instance, and counts no more'
budget 8 status --check
out_has 'brief' 'pod-short' '1 past the deadline'

echo "== the clock"
budget 0 clock repair
out_has 'the ledger took over the wall clock, which was 0 s ' 'every job keeps the time that it had left'
budget 0 clock repair --json
out_has '"repaired":true' '"message":"the ledger took over'

budget 0 audit

echo "== a token that nobody used"
stop_service
sed -i 's/"token_seconds": 900/"token_seconds": 1/' service/policy.json
start_service --passphrase-file passphrase
budget 0 authorize unused 0.30 --account lab/a --job JOB.json --out unused.token
for _ in $(seq 100); do
    "$bin/budget-service" verify unused.token --keyring service/keyring.json >out 2>err || break
    sleep 0.1
done
budget 6 redeem unused.token --create
err_has 'the token has expired unused, and $0.30 stays reserved until: budget-service void unused; then authorize anew'
budget 0 void unused

echo "== what a policy must say"
stop_service
sed -i 's/"accounts": {/"accounts": {"lab": {"limits": {"max_hours": "8"}},/' service/policy.json
start_service --passphrase-file passphrase
budget 4 authorize long 1.00 --account lab/a --job JOB.json --max-hours 9
err_has 'the policy of lab allows a time up to 8 h, asked 9 h'
stop_service
sed -i 's/"max_hours": "8"/"max_hours": 8/' service/policy.json
budget 1 serve --passphrase-file passphrase
err_has 'accounts.lab.max_hours must be hours in quotes, such as "2.50"'
if [ "${COSTS_INSIDE-}" != yes ]; then
    echo "skipped: a full disk, because no mount namespace may be made here"
    exit 77
fi
echo "== a full disk"
mkdir small && mount -t tmpfs -o size=4m small small
export BUDGET_SERVICE_DIR=$scratch/small/service
budget 0 init --passphrase-file passphrase
start_service --passphrase-file passphrase
budget 0 account create lab --cap 100.00
cp small/service/clients/request.key asks.key # what a client remembers stands beside its key
dd if=/dev/zero of=small/filler bs=4k >out 2>err || true
for label in full-1 full-2 full-3 full-4; do # until the room that the ledger has already is used
    "$bin/budget-service" authorize $label 1.00 --job JOB.json --key ./asks.key >out 2>err || break
done
err_has 'the ledger could not be written (' 'no space left' '); nothing was done, ask again'
rm small/filler
budget 0 authorize $label 1.00 --job JOB.json --key ./asks.key
budget 0 audit
stop_service
umount small
echo "all good"
