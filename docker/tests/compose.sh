# The jobs of compose.yml and compose.inference.yml. Run by run.sh.

# for_user: whom the containers run as, and who owns what prepare.sh makes.
for_user() {
    RINGFENCE_UID=$(id -u) RINGFENCE_GID=$(id -g)
    [ "$RINGFENCE_UID" -ne 0 ] || RINGFENCE_UID=$uid RINGFENCE_GID=$uid
    export RINGFENCE_UID RINGFENCE_GID RINGFENCE_IMAGE=$image
}

# composed: keys, a budget and directories of the containers' user.
composed() {
    for_user
    "$root/docker/prepare.sh" "$scratch"
    compose_files=(-f "$root/docker/compose.yml")
}

compose() {
    "${compose_command[@]}" -p "$test" --env-file "$scratch/env" "${compose_files[@]}" "$@"
}

# ended NAME: waits for a host's end, which must be a good one.
ended() {
    local code
    code=$(timeout "$patience" docker wait "$(compose ps -q "$1")") || { compose logs >&2 && fail "$1 did not end"; }
    [ "$code" = 0 ] || { compose logs "$1" >&2 && fail "$1 ended with exit code $code"; }
}

# job FLAGS...: runs the job of the files with a fresh key, and waits for its hosts' end.
job() {
    "$root/docker/prepare.sh" "$scratch"
    RINGFENCE_FLAGS="--join-timeout $patience $*" compose up -d >&2
    ended head
    ended agent-1
}

in_budget() {
    compose exec -T budget sh -euc "export BUDGET_SERVICE_DIR=/budget; $1"
}

must_say() {
    grep -qF -- "$2" <<<"$1" || fail "'$2' is not in: $1"
}

# A cap that is no amount ends prepare.sh with the reason. The next call makes all. A path may have a space.
test_prepare() {
    local out state="$scratch/with a space"
    for_user
    out=$(timeout "$patience" "$root/docker/prepare.sh" "$state" 5,00 2>&1) && fail "a bad cap is taken: $out"
    must_say "$out" "'5,00' is no amount of dollars"
    [ ! -e "$state/client/service.json" ] || fail "a budget without its account counts as whole"
    "$root/docker/prepare.sh" "$state" 5.00
    must_say "$(cat "$state/client/service.json")" "tcp://budget:29500"
    [ ! -e "$state/new" ] || fail "what it made on the way is still there"
    out=$(sha256sum "$state/budget/service.curve" "$state/secrets/job.key")
    "$root/docker/prepare.sh" "$state" 5.00
    sha256sum --status -c <<<"$(sed -n 1p <<<"$out")" || fail "a budget was made anew"
    ! sha256sum --status -c <<<"$(sed -n 2p <<<"$out")" || fail "a job key was made once"
    result "a bad cap is refused, and made good by the next call; the budget stays, the job key is new"
}

# Trains over tcp and over zmq, answers with what was trained, and passes money's gate: all in one project.
test_compose() {
    local up_ms out first_ms
    composed
    up_ms=$(date +%s%3N)
    job --steps 30 --out experiments/tcp
    first_ms=$(docker logs -t "$(compose ps -q head)" 2>&1 | sed -n '/ step 1\//{s/ .*//;p}')
    first_ms=$(date -d "$first_ms" +%s%3N)
    cmp "$scratch/head/tcp/state-rank-0.safetensors" "$scratch/head/tcp/state-rank-1.safetensors"
    [ "$(stat -c %u "$scratch/head/tcp/manifest.json")" = "$RINGFENCE_UID" ]
    RINGFENCE_TRANSPORT=zmq job --steps 30 --out experiments/zmq
    cmp "$scratch/head/tcp/state-rank-0.safetensors" "$scratch/head/zmq/state-rank-1.safetensors"

    compose_files+=(-f "$root/docker/compose.inference.yml")
    export RINGFENCE_CHECKPOINT=$scratch/head/tcp
    job --max-new-tokens 8 --out experiments/answers
    out=$(compose logs --no-color head)
    must_say "$out" "rank 1: weights"

    result "tcp and zmq: the same bytes; $((first_ms - up_ms)) ms from up to the first step; answered by 2 hosts"
}

# A gated run: authorized, redeemed, recorded, reconciled with a bill, and refused at the cap. The service is
# killed while the job has its token and waits for its hosts, and is started again: it has lost nothing.
test_budget() {
    local out money="--mode gate-check --ranks 2 --account job --vendor runpod --instance-type RTX4090
        --instances 2 --gpus 1 --tier community --max-price 0.69 --max-hours 1 --join-timeout $patience"
    composed
    compose up -d budget >&2
    until_true "$patience" in_budget "budget-service status" >&2 || fail "no service"
    RINGFENCE_FLAGS="$money --authorize 1.50 --label one" compose up -d --no-deps head >&2
    until_true "$patience" has_money || fail "the head has got no money"
    compose kill budget >&2
    compose start budget >&2
    until_true "$patience" in_budget "budget-service status" >&2 || fail "no service after a restart"
    RINGFENCE_FLAGS="$money --authorize 1.50 --label one" compose up -d --no-deps head agent-1 >&2
    ended head
    ended agent-1
    must_say "$(compose logs --no-color head)" "the gate let all 2 ranks in: label one"
    out=$(compose run --rm -T head $money --authorize 4.00 --label two 2>&1) && fail "not refused: $out"
    must_say "$out" '$3.50 left, $4.00 asked'

    # somebody on the network who has a key, but none that this service knows
    out=$(docker run --rm --network "${test}_job" --user "$uid" --tmpfs /tmp --entrypoint sh "$image" -euc "
        cd /tmp && umask 077 && mkdir mine && head -c 24 /dev/urandom | base64 >passphrase
        budget-service init --dir mine/budget --passphrase-file passphrase >/dev/null
        echo '$(cat "$scratch/client/service.json")' >mine/budget/service.json
        sed -i 's/\"service_public_key\": *\"[0-9a-f]*\"/\"service_public_key\": \"$(service_key)\"/' \
            mine/budget/clients/request.key
        launcher --mode gate-check --ranks 2 --write-job JOB.json >/dev/null
        budget-service authorize stolen 1.00 --account job --job JOB.json --dir mine/budget --timeout 5" 2>&1) &&
        fail "a stranger has got money: $out"
    must_say "$out" "does not admit this key"
    in_budget "budget-service attach one --instance-id pod-1
        budget-service attach one --instance-id pod-2
        echo 'pod-1 and pod-2: gone' >/tmp/evidence
        budget-service terminated one --evidence /tmp/evidence
        printf 'line_id,instance_id,usd\n1,pod-1,0.31\n2,pod-2,0.30\n' >/tmp/bill.csv
        budget-service reconcile --bill /tmp/bill.csv --as-of \"\$(date -u +%Y-%m-%dT%H:%M:%SZ)\"
        budget-service audit; ! budget-service list | grep stolen" >&2
    out=$(in_budget "budget-service total-spent job")
    [ "$out" = "\$0.61" ] || fail "spent: $out"
    compose logs budget >&2
    result "the service was killed in the run, and knew what it had granted; refused at the cap; a stranger's key: not admitted; a bill of $out reconciled"
}

has_money() {
    compose logs head 2>/dev/null | grep -qF 'waiting at'
}

service_key() {
    sed -n 's/.*"public_key": "\([0-9a-f]*\)".*/\1/p' "$scratch/client/service.json"
}
