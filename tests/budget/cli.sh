#!/usr/bin/env bash
# The command line of budget-service, from init to the reconciled bill, with a real service.
#   cli.sh BIN    where budget-service and launcher are
# As root it goes on as nobody, in a copy that nobody can reach: root reads everything.
# Ends with 77 where a part was skipped (and said so) and the rest passed.
set -euo pipefail

bin=$(cd "$1" && pwd)
sources=$(cd "$(dirname "$0")/../../budget-service/cli" && pwd)
if [ "$(id -u)" -eq 0 ]; then
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' EXIT
    mkdir -p "$copy/tests/budget" "$copy/budget-service"
    cp -r "$sources" "$copy/budget-service"
    cp "$0" "$copy/tests/budget/cli.sh"
    cp -r "$(dirname "$0")/../support" "$copy/tests"
    cp -rL "$bin" "$copy/bin"
    chmod -R a+rX "$copy"
    setpriv --reuid=65534 --regid=65534 --clear-groups bash "$copy/tests/budget/cli.sh" "$copy/bin"
    exit
fi

. "$(dirname "$0")/../support/service.sh"
export PATH=$bin:$PATH

echo "== wrong usage"
: >out && : >err
budget 2
err_has "Usage: budget-service COMMAND"
budget 0 --help
budget 2 frobnicate
budget 2 frobnicate --json
out_has '"exit":2'
budget 0 account --help
out_has "account create ACCOUNT"
budget 2 account
budget 2 authorize lab 1.00
err_has "--job"
budget 2 serve now
err_has "usage: budget-service serve; try: budget-service serve --help"
budget 2 remaining a b
err_has "usage: budget-service remaining "
budget 2 remaining
budget 2 remaining a b
budget 2 remaining a --wrong
budget 2 remaning a
err_has "no command 'remaning'; did you mean remaining?"
budget 2 acount create lab
err_has "no command 'acount'; did you mean account create?"
budget 2 remaining a --drr x
err_has "unknown flag --drr; did you mean --dir?"
budget 2 remaining a --dir x --dir y
err_has "twice"
for command in $(sed -nE 's/^    \{\.name = "(.*)",$/\1/p' "$sources"/*.c | tr ' ' _); do
    budget 0 ${command//_/ } --help
    out_has "--json" "--help"
done

echo "== init"
budget 2 init
err_has "no passphrase" "--passphrase-fd"
[ ! -e .local ] || fail "an init without a passphrase made something"
export BUDGET_SERVICE_DIR=$scratch/service
echo "correct horse battery staple" >passphrase
chmod 644 passphrase
budget 1 init --passphrase-file passphrase
err_has "may be read by others"
chmod 600 passphrase
budget 0 init --passphrase-file passphrase --json
out_has '"kid":"k4.pid.'
budget 1 init --passphrase-file passphrase
err_has "already"
mv service/service.curve kept # what an init made last that was ended before
budget 1 init --passphrase-file passphrase
err_has "service.curve is missing: if an init was broken off"
mv kept service/service.curve
[ "$(stat -c %a service service/keys service/clients service/keys/*.key service/clients/*.key | sort -u | tr '\n' ' ')" = "600 700 " ] ||
    fail "modes: $(stat -c '%a %n' service/* service/*/*)"
grep -q '^k4\.secret-pw\.' service/keys/*.key || fail "the key is not k4.secret-pw"

echo "== two at once: one is made, the other is told so"
budget-service init --dir both --passphrase-file passphrase >made1 2>told1 &
first=$!
budget-service init --dir both --passphrase-file passphrase >made2 2>told2 && second=0 || second=$?
wait $first && first=0 || first=$?
[ $((first + second)) -eq 1 ] || fail "exit $first and $second: $(cat told1 told2)"
cat told1 told2 | grep -q "both has a service already" || fail "the other said: $(cat told1 told2)"
set -- both/keys/*.key
[ $# -eq 1 ] || fail "keys of both: $*"
grep -q "$(basename "$1" .key)" both/keyring.json || fail "the keyring has another key than $1"

echo "== serve"
budget 1 status --timeout 1
err_has "no service"
budget 2 serve
echo wrong >wrong
budget 1 serve --passphrase-file wrong
err_has "wrong passphrase" "key revoke $(basename service/keys/*.key .key), then key rotate"
chmod 640 service/keys/*.key
budget 1 serve --passphrase-file passphrase
err_has "others"
chmod 600 service/keys/*.key
mkdir credentials && cp passphrase credentials/budget-passphrase
CREDENTIALS_DIRECTORY=$scratch/credentials start_service
[[ $ready == "ready at ipc://"* ]] || fail "serve says: $ready"
kill -HUP "$service"
budget 0 status
kill "$service"
! read -rt 30 -u 3 ready || fail "serve says more than one line: $ready"
wait "$service" || fail "serve ended with $?"
cp log err
err_has 'SIGHUP: nothing is read again' "SIGTERM from process $$: the service ends"
start_service --passphrase-file passphrase
budget 1 serve --passphrase-file passphrase
err_has "service"

echo "== the key's memory"
locked=$(awk '$1 == "VmLck:" { print $2 }' "/proc/$service/status")
resident=$(awk '$1 == "VmHWM:" { print $2 }' "/proc/$service/status")
[ "$locked" -gt 0 ] || fail "VmLck is $locked"
[ "$resident" -lt 100000 ] || fail "resident memory was $resident kB"
! head -c 1 "/proc/$service/mem" >out 2>err || fail "/proc/PID/mem could be opened"
grep -qi "permission denied" err || fail "/proc/PID/mem"
skipped=0
if command -v gcore >/dev/null; then
    ! gcore -o core "$service" >out 2>err </dev/null || fail "gcore worked"
    ! ls core.* 2>/dev/null || fail "gcore left a core"
else
    echo "skipped: no gcore (Debian: package gdb)"
    skipped=77
fi

echo "== accounts"
echo '{"job":{"mode":"gate-check","world_size":2}}' >JOB.json
budget 4 authorize first 0.10 --job JOB.json
err_has "no account yet"
budget 0 account create phase35 --cap 5.00
budget 0 authorize first 0.10 --job JOB.json --out first.token
err_has 'remaining of phase35: $5.00 before'
budget 0 void first
budget 0 account create phase35/lab02 --cap 3.00 --json
out_has '"cap_usd_micro":3000000'
budget 4 account create phase35 --cap 9.00 --json
for cap in 3.0000001 1e3 -1 NaN "" 99999999999; do
    budget 2 account create bad --cap "$cap"
done
budget 2 account create a//b --cap 1
budget 4 account create no/such/parent --cap 1
budget 0 account list --json
out_has '"account":"phase35/lab02"'

echo "== authorize"
budget 4 authorize run1 2.00 --job JOB.json
err_has "which account pays"
budget 0 authorize run1 2.00 --account phase35/lab02 --job JOB.json --out run1.token
err_has 'remaining of phase35/lab02: $3.00 before, $1.00 after'
[ "$(stat -c %a run1.token)" = 600 ] || fail "a token is for us alone"
budget 3 authorize run2 2.00 --account phase35/lab02 --job JOB.json
[ "$(wc -l <err)" -eq 1 ] || fail "a refusal is one line"
err_has "cap of phase35/lab02" '$1.00 left' '$2.00 asked' "account set-cap phase35/lab02 --cap USD"
budget 3 authorize run2b 2.00 --account phase35/lab02 --job JOB.json --json
out_has '"granted":false' '"reason":"BUDGET_EXCEEDED"' '"account":"phase35/lab02"' '"asked_usd_micro":2000000'
budget 4 authorize run1 0.10 --account phase35/lab02 --job JOB.json --json
out_has '"granted":false' '"reason":"LABEL_USED"'
budget 0 authorize run3 0.50 --account phase35/lab02 --job JOB.json --json --request-id again-1
out_has '"granted":true' '"label":"run3"' '"jti":"' '"token":"v4.public.' '"kid":"k4.pid.' \
    '"remaining_before_usd_micro":1000000' '"remaining_after_usd_micro":500000'
cp out first
budget 0 authorize run3 0.50 --account phase35/lab02 --job JOB.json --json --request-id again-1
cmp -s out first || fail "a retry gave another answer"
budget 4 authorize run3 0.51 --account phase35/lab02 --job JOB.json --json --request-id again-1
budget 2 authorize run4 0.1 --account phase35/lab02 --job JOB.json --mode other
budget 2 authorize run4 0.1 --account phase35/lab02 --job JOB.json --world-size 3
budget 2 authorize run4 0.1 --account phase35/lab02 --job none.json
budget 2 authorize run4 0.1 --account phase35/lab02 --job JOB.json --out run1.token
err_has "nothing was asked"
# A price of nothing is no price; what others wrote does nothing to a terminal, and makes no second line.
budget 2 authorize kept 0.1 --account phase35/lab02 --job JOB.json --max-price 0
err_has "--max-price: '0': must be above 0"
budget 2 authorize "$(printf 'a\033[31mb\nc')" 0.1 --account phase35/lab02 --job JOB.json
err_has 'a\x1b[31mb\x0ac'
[ "$(wc -l <err)" -eq 1 ] || fail "an error of several lines"
# A token that cannot be put down is there for whoever has the request id.
budget 1 authorize kept 0.01 --account phase35/lab02 --job JOB.json --out nowhere/kept.token
err_has "--request-id"
budget 0 authorize kept 0.01 --account phase35/lab02 --job JOB.json --out kept.token \
    --request-id "$(sed 's/.*--request-id //' err)"
budget 0 void kept
budget 4 authorize run4 0.1 --account nobody --job JOB.json
budget 0 remaining phase35/lab02 --json
out_has '"binding":"phase35/lab02"' '"remaining_usd_micro":500000' '"reserved_usd_micro":2500000' \
    '"posted_usd_micro":0' '"cap_usd_micro":3000000'
budget 0 status
out_has "phase35/lab02" "[+"
err_has "warning: phase35/lab02 has used 83 %"

echo "== verify"
budget 0 verify run1.token --keyring service/keyring.json --job JOB.json --json
out_has '"valid":true' '"label":"run1"' '"job_blake2b256":"'
echo '{"job":{"mode":"gate-check","world_size":2}} ' >JOB2.json
budget 6 verify run1.token --keyring service/keyring.json --job JOB2.json --json
out_has '"verdict":"wrong-job"'
sed 's/\(v4.public.....................\)./\1_/' run1.token >forged.token
budget 6 verify forged.token --keyring service/keyring.json --json
out_has '"valid":false' '"verdict":"bad-signature"'
budget 6 verify "$(cut -c 1-400 run1.token)" --keyring service/keyring.json --json
out_has '"verdict":"malformed"'

echo "== a file that is not there is wrong usage, whatever it is for"
for command in "authorize none 1 --job none" "reconcile --bill none --as-of 2026-11-20T00:00:00Z" "rent none --driver true -- true" \
    "redeem none --create" "verify none --keyring service/keyring.json" "verify run1.token --keyring none" "audit --checkpoint none" \
    "verify run1.token --keyring service/keyring.json --job none" "terminated run1 --evidence none" "record-actual run1 1 --evidence none" \
    "rent run1.token --driver true --ssh-key none -- true" "status --key ./none" \
    "verify . --keyring service/keyring.json"; do
    # shellcheck disable=SC2086
    budget 2 $command
done
expect 2 launcher --mode gate-check --ranks 2 --token none
expect 2 launcher --mode gate-check --ranks 2 --token run1.token --keyring none

echo "== redeem"
budget 2 redeem run1.token
budget 2 redeem run1.token --create --ranks 2
budget 0 redeem run1.token --ranks 2 --attempt 1 --out receipts --json
out_has '"receipts":2'
cp receipts/rank-1.receipt once
budget 0 redeem run1.token --ranks 2 --attempt 1 --out receipts
cmp -s once receipts/rank-1.receipt || fail "the same tuple got another receipt"
# A second launch, with a key of its own: the message says what to do.
budget 0 authorize twice 0.10 --account phase35/lab02 --job JOB.json --max-attempts 2 --out twice.token
budget 0 redeem twice.token --ranks 2 --attempt 1 --out twice
for attempt in 1 2; do
    budget 6 redeem twice.token --ranks 2 --attempt $attempt --out other
    err_has 'twice was redeemed under another job key' '(--max-restarts)' 'redeem --out DIR, then --receipts DIR' \
        'authorize a new label'
done
budget 0 redeem twice.token --ranks 2 --attempt 2 --out twice
budget 0 redeem twice.token --create
# More ranks than the job's: nothing is redeemed, though the first of several answers could be.
echo '{"job":{"mode":"gate-check","world_size":70}}' >JOB70.json
budget 0 authorize many 0.10 --account phase35/lab02 --job JOB70.json --out many.token
budget 6 redeem many.token --ranks 100 --attempt 1 --out many
err_has 'many is for ranks 0 to 69, not 99'
budget 0 redeem many.token --ranks 70 --attempt 1 --out others
[ "$(ls others/*.receipt | wc -l)" -eq 70 ] || fail "not 70 receipts"
for label in twice many; do
    echo "never there" >never
    budget 0 terminated $label --evidence never
    budget 0 record-actual $label 0
done
budget 0 redeem run1.token --create
budget 4 redeem run1.token --create
budget 6 redeem forged.token --create
budget 4 void run1
budget 0 void run3
budget 0 remaining phase35/lab02
out_has '$1.00'

echo "== facts"
budget 0 attach run1 --instance-id pod-1
budget 0 record-actual run1 0
budget 0 remaining phase35/lab02
out_has '$1.00'
echo "gone, seen at 12:00" >evidence
budget 0 terminated run1 --evidence evidence
budget 0 record-actual run1 0.00 --partial
budget 0 remaining phase35/lab02
out_has '$1.00'
budget 0 record-actual run1 1.25 --line-id bill-1
budget 2 record-actual run1 1e3
budget 0 remaining phase35/lab02
out_has '$1.75'
budget 0 total-spent phase35 --json
out_has '"total_spent_usd_micro":1250000'
budget 0 list --json
out_has '"state":"posted"' '"attested":true' '"state":"voided"'

echo "== bills and reports"
printf 'line_id,instance_id,usd\nbill-1,pod-1,1.25\n' >bill.csv
budget 0 reconcile --bill bill.csv --as-of "$(date -u +%Y-%m-%dT%H:%M:%SZ)" --json
out_has '"matched":1' '"missing_in_bill":0' '"missing_in_ledger":0' '"differing":0' '"unknown":0'
budget 0 authorize other 0.10 --vendor vast --account phase35 --job JOB.json --out other.token \
    --instance-type 'RTX 4090 | $0.00 | <img src=x>`'
budget 7 reconcile --bill bill.csv --as-of "$(date -u +%Y-%m-%dT%H:%M:%SZ)" # pod-1 may be vast's
out_has 'ambiguous' '1 ambiguous: ' 'nothing of it is posted. Say it with --vendor'
echo '[{"amount": 1.25, "id": "bill-1", "podId": "pod-1"}]' >pods.json # runpod's, it says itself
budget 7 reconcile --bill pods.json --as-of "$(date -u +%Y-%m-%dT%H:%M:%SZ)" --json
out_has '"ambiguous":1' '"matched":0'
budget 7 reconcile --bill pods.json --as-of "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
out_has '1 ambiguous: ' 'without a vendor: --vendor cloud, or its label'
budget 0 reconcile --bill pods.json --vendor cloud --as-of "$(date -u +%Y-%m-%dT%H:%M:%SZ)" --json
out_has '"ambiguous":0' '"matched":1'
budget 0 void other
printf 'line_id,instance_id,usd\nbill-1,pod-1,1.20\n' >less.csv
budget 7 reconcile --bill less.csv --as-of "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
budget 0 record-actual run1 -0.05
budget 0 reconcile --bill less.csv --as-of "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
budget 0 record-actual run1 0.05
budget 0 reconcile --bill bill.csv --as-of "$(date -u +%Y-%m-%dT%H:%M:%SZ)" # the line is 1.25 again
budget 2 record-actual run1 --0.05
budget 2 record-actual run1 -
printf 'line_id,instance_id,usd\nbill-1,pod-1,1.20\nbill-2,pod-9,3.00\n' >wrong.csv
budget 7 reconcile --bill wrong.csv --as-of "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
budget 2 reconcile --bill bill.csv --as-of yesterday
{ echo usd,label,line_id && seq 4097 | sed 's=.*=0.01,run1,&='; } >long.csv
budget 1 reconcile --bill long.csv --as-of "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
err_has "a bill of 4097 lines: at most 4096 at once. Cut it into files, with all lines of a run in one of them"
printf 'line_id,instance_id,usd\nbill-1,pod-1,1.25\nbill-2,pod-1,-500.00\n' >credit.csv
budget 7 reconcile --bill credit.csv --as-of "$(date -u +%Y-%m-%dT%H:%M:%SZ)" --json
out_has '"differing":1'
budget 8 status --check
budget 0 remaining phase35/lab02
out_has '$3.00'
budget 0 list
out_has 'credited $498.75 more than it cost'
budget 0 list --json
out_has '"credit_usd_micro":498750000'
budget 0 account acknowledge phase35/lab02
printf 'line_id,instance_id,usd\nbill-3,pod-1,500.00\n' >back.csv # and the credit is taken back
budget 0 reconcile --bill back.csv --as-of "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
budget 0 remaining phase35/lab02
out_has '$1.75'
# What began after --as-of is passed over, in every format; the same bill a day later has it.
printf 'line_id,instance_id,usd,time\nlate-1,pod-9,3.00,2026-01-02T00:00:01Z\n' >late.csv
printf '%s\n%s\n' BilledCost,BillingCurrency,ResourceId,ChargePeriodStart 3.00,USD,pod-9,2026-01-02T00:00:01Z >late-focus.csv
echo '[{"podId": "pod-9", "amount": 3.0, "time": "2026-01-02T00:00:01Z"}]' >late-runpod.json
for late in late.csv late-focus.csv late-runpod.json; do
    budget 0 reconcile --bill "$late" --as-of 2026-01-02T00:00:00Z --json
    out_has '"missing_in_ledger":0' '"passed_over":1'
    budget 0 reconcile --bill "$late" --as-of 2026-01-02T00:00:00Z
    out_has "1 line passed over, so no cost is final by this bill: the period begins after 2026-01-02T00:00:00Z"
    budget 7 reconcile --bill "$late" --as-of 2026-01-03T00:00:00Z --json
    out_has '"missing_in_ledger":1' '"passed_over":0'
done
budget 0 export --format jsonl
out_has '"label":"run1"'
budget 0 export --format hledger
out_has "expenses:cloud:phase35:lab02  1.25 USD" "    liabilities:cloud"
[ "$(grep -c expenses out)" -eq 3 ] || fail "only run1, twice and many have a known cost"
budget 0 export --format markdown --out page.md --json
run1='^\| [0-9-]{10} \| run1 \| phase35/lab02 \| cloud \| \$2.00 \| \$1.25 \| posted \| `[0-9a-f]{12}` attested \|$'
grep -qE "$run1" page.md || fail "the page has no run1: $(grep run1 page.md)"
grep -qE '^\| phase35/lab02 \| \$3.00 \| \$1.25 \| \$0.00 \| \$1.75 \|' page.md || fail "the page has no account"
grep -qE '\| other \|.*\| unknown \| voided \| - \|$' page.md || fail "the page has no voided run"
grep -qF '| RTX 4090 &#124; &#36;0.00 &#124; &#60;img src&#61;x&#62;&#96; |' page.md || fail "an instance type makes Markdown: $(grep other page.md)"
budget 2 export --format xml
budget 0 audit --json
out_has '"good":true'
budget 0 status --check

echo "== an actual above its reservation freezes the account"
budget 0 authorize dear 0.10 --account phase35/lab02 --job JOB.json --out dear.token
budget 0 redeem dear.token --create
budget 0 record-actual dear 0.30
budget 8 status --check --json
out_has '"needs_attention":true'
budget 4 authorize after 0.10 --account phase35/lab02 --job JOB.json
budget 0 account acknowledge phase35/lab02
budget 0 authorize after 0.10 --account phase35/lab02 --job JOB.json
budget 0 status --check

echo "== a bill for a time after the proven end, and an account above its cap"
as_of=$(date -u -d "+3 hours" +%Y-%m-%dT%H:%M:%SZ)
printf 'line_id,instance_id,usd,time\nlate-9,pod-1,0.01,%s\n' "$(date -u -d "+2 hours" +%Y-%m-%dT%H:%M:%SZ)" >after.csv
budget 7 reconcile --bill after.csv --as-of "$as_of"
out_has 'after_the_end      run1' '1 whose proven end is refuted: billed after it, '
budget 7 reconcile --bill after.csv --as-of "$as_of" --json
out_has '"after_the_end":1' '"differing":0' '"reconciled":false'
budget 0 status --check
budget 0 account set-cap phase35/lab02 --cap 1.00
budget 8 status --check
out_has ', 1 above the cap'
budget 8 status --check --json
out_has '"needs_attention":true'
budget 0 account set-cap phase35/lab02 --cap 3.00

echo "== clients and keys"
budget 0 client add bob --role request
mkdir request # a directory of a key's name is no key
budget 0 remaining phase35 --key request
budget 0 account set-cap phase35/lab02 --cap 3.00
budget 4 record-actual run1 0.10 --key request # refused for its role, and for nothing else
err_has "role request"
budget 0 remaining phase35 --key bob
budget bad account set-cap phase35 --cap 99 --key bob
budget 1 client add bob --role request
err_has "bob.key is there already"
budget 4 client add bob --role request --request-id once # bob's key stays
budget 0 client add carl --role request --request-id again
budget 0 client add carl --role request --request-id again # where the first answer was lost
budget 0 remaining phase35 --key carl
budget 1 client add dora --role request --request-id again --out service/clients/carl.key
err_has "carl.key is there already, and not of dora"
budget 0 client revoke bob
budget bad remaining phase35 --key bob
budget 2 client add eve --role king
budget 0 key list --json
budget 1 key rotate --passphrase-file passphrase
err_has "stop the service"
budget 0 authorize across 0.10 --account phase35/lab02 --job JOB.json --out across.token
budget 0 redeem across.token --ranks 2 --attempt 1 --out across
cp across/rank-0.receipt once
stop_service
budget 1 key rotate --passphrase-file wrong
budget 0 key rotate --passphrase-file passphrase
cp -r service older
cp -r service racing
mkfifo slow
exec 4<>slow # rotate waits for the passphrase while a key is revoked
budget-service key rotate --dir racing --passphrase-fd 5 5<slow 4>&- >rotated 2>&1 &
rotate=$!
begun() { grep -q "FLOCK .* $rotate " /proc/locks; } # it has locked the directory
for _ in {1..1000}; do ! begun || break; sleep 0.01; done
begun || { exec 4>&- && fail "rotate does not begin: $(cat rotated)"; }
old=$("$bin/budget-service" key list | awk '/retired/ { print $1 }')
budget 0 key revoke "$old" --dir racing
cat passphrase >&4
exec 4>&-
wait "$rotate" || fail "rotate: $(cat rotated)"
[ "$(budget-service key list --dir racing | grep -c "^$old .*revoked")" -eq 1 ] || fail "rotate has undone a revocation"
start_service --passphrase-file passphrase
budget 0 verify run1.token --keyring service/keyring.json
budget 0 redeem across.token --ranks 2 --attempt 1 --out across # the same receipts, of the new key
! cmp -s once across/rank-0.receipt || fail "the old key signed a receipt"
budget 0 authorize later 0.10 --account phase35/lab02 --job JOB.json --out later.token
[ "$(tail -c 80 later.token)" != "$(tail -c 80 run1.token)" ] || fail "the old key signed"
old=$("$bin/budget-service" key list | awk '/retired/ { print $1 }')
budget 0 key revoke "$old"
budget 6 verify run1.token --keyring service/keyring.json --json
out_has '"verdict":"revoked-key"'
budget 0 verify later.token --keyring service/keyring.json
budget 0 key export --out keyring.json
budget 0 verify later.token --keyring keyring.json
budget 0 key list
out_has 'revoked' 'verifies nothing since '
cp service/keyring.json kept-keyring.json
signs=$("$bin/budget-service" key list | awk '/signs/ { print $1 }')
budget 0 key revoke "$signs"
out_has 'stop the service, run budget-service key rotate, start it again'
budget 4 authorize revoked 0.10 --account phase35/lab02 --job JOB.json
err_has "is revoked"
cp kept-keyring.json service/keyring.json
stop_service

echo "== an audit without the service"
budget 0 audit --json
out_has '"good":true'
cp service/checkpoints elsewhere
budget 0 audit --checkpoint elsewhere
budget 2 audit --checkpoint nothing
cp service/keyring.json older/
budget 0 audit --dir older
budget 8 audit --dir older --checkpoint elsewhere --json
out_has '"good":false' 'elsewhere' 'row'
sed -E '2s/ [0-9]+ / 1 /' elsewhere >altered
budget 8 audit --checkpoint altered
rm service/checkpoints
budget 8 audit --json
out_has '"good":false' 'service/checkpoints is missing'
budget 8 audit
digest=$(sed -n 's/^BAD: .* serve --accept-checkpoint //p' out)
budget 8 serve --passphrase-file passphrase
err_has 'checkpoints is missing' "serve --accept-checkpoint $digest"
budget 8 serve --passphrase-file passphrase --accept-checkpoint "${digest%?}"
err_has 'not what was accepted'
cp service/ledger.db seen.db
start_service --passphrase-file passphrase --accept-checkpoint "$digest"
stop_service
grep -aq "$digest: " service/ledger.db || fail "no row says what was accepted"
budget 0 audit
cp seen.db service/ledger.db

echo "== a ledger that somebody has edited"
cp elsewhere service/checkpoints
sed -i 's/pod-1/pod-7/g' service/ledger.db
budget 8 audit
out_has 'BAD from row ' 'its hash does not fit' 'to accept exactly this: budget-service serve --accept-audit '
digest=$(sed -n 's/^to accept .* --accept-audit //p' out)
budget 8 audit --json
out_has '"good":false' "\"digest\":\"$digest\"" '"findings":["row '
budget 8 serve --passphrase-file passphrase
err_has 'does not audit' "serve --accept-audit $digest"
budget 8 serve --passphrase-file passphrase --accept-audit "${digest%?}"
err_has 'not what was accepted'
start_service --passphrase-file passphrase --accept-audit "$digest"
budget 8 status --check
out_has 'ALARM the ledger does not audit: row '
budget 0 status
budget 8 status --check --json
out_has '"needs_attention":true'
stop_service
echo "all good"
exit "$skipped"
