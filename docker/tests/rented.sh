# A rented run, rehearsed: the user's side is this host, the instance a container that has an ssh server and nothing of Ringfence.
# Run by run.sh. Needs build/release, which ./dev docker makes where image and host are one release of Debian.

rented_driver=$root/build/release/share/ringfence/drivers/docker

# on_this_host: a budget service with an account of 3 dollars, and a key for ssh. All ends with the test.
on_this_host() {
    export PATH=$root/build/release/bin:$root/budget-service/examples:$PATH BUDGET_SERVICE_DIR=$scratch/budget
    unset XDG_STATE_HOME
    service=""
    : >"$scratch/instances"
    trap 'while read -r id; do "$rented_driver" delete "$id" || true; done <"$scratch/instances"
        [ -z "$service" ] || kill "$service"' EXIT
    ssh-keygen -q -t ed25519 -N '' -f "$scratch/key"
    (umask 077 && echo "a passphrase of yours" >"$scratch/passphrase")
    budget-service init --passphrase-file "$scratch/passphrase" >/dev/null
    budget-service serve --passphrase-file "$scratch/passphrase" >"$scratch/ready" 2>"$scratch/service.log" &
    service=$!
    until_true "$patience" grep -q ready "$scratch/ready" || fail "no service: $(cat "$scratch/service.log")"
    budget-service account create lab --cap 3.00
}

# created NAME SECONDS: an instance that ends itself after so long. Sets id.
created() {
    id=$(jq -n --arg name "$1" --arg seconds "$2" --rawfile key "$scratch/key.pub" '{name: $name, instance_type: "any",
        gpus: 1, max_price_usd: "0.10", until: (now + ($seconds | tonumber) | floor | todate), ssh_public_key: $key}' |
        "$rented_driver" create | jq -r .instance_id)
    echo "$id" >>"$scratch/instances"
}

status_is() { [ "$("$rented_driver" describe "$1" | jq -r .status)" = "$2" ]; }

# rented LABEL JOB COMMAND...: rents an instance for it. What is said goes to $scratch/said, the exit code to $scratch/code.
rented() {
    local label=$1 job=$2 code=0
    shift 2
    budget-service authorize "$label" 1.00 --account lab --vendor docker --instance-type any --tier community --max-price 0.10 \
        --max-hours 1 --job "$job" --out "$scratch/$label.token"
    budget-service rent "$scratch/$label.token" --ssh-key "$scratch/key.pub" --out "$scratch/rent $label" -- "$@" \
        >"$scratch/said" 2>&1 || code=$?
    cat "$scratch/said"
    echo "$code" >"$scratch/code"
    id=$(jq -r '.instances[0].instance_id' "$scratch/rent $label/instances.json")
    echo "$id" >>"$scratch/instances"
    status_is "$id" not-found || fail "$id is still there"
    budget-service list | grep -qE "^$label .* terminated-unbilled " || fail "the end is not proven: $(budget-service list)"
    budget-service record-actual "$label" 0
}

# A job that passes the gate there; one that fails; a training whose record comes back, with the bits of a run here.
test_rented() {
    local id other record="$scratch/a record"
    for program in "$rented_driver" jq ssh ssh-keygen; do
        command -v "$program" >/dev/null || { result "SKIPPED: there is no $program here" && return; }
    done
    docker image inspect ringfence-instance >/dev/null 2>&1 || { result "SKIPPED: ./dev docker instance builds its image" && return; }
    on_this_host
    launcher --mode gate-check --ranks 2 --write-job "$scratch/GATE.json"
    rented gate "$scratch/GATE.json" on-instance.sh -i "$scratch/key" "$scratch/GATE.json"
    must_say "$(cat "$scratch/said")" "the gate let all 2 ranks in: label gate"
    rented wrong "$scratch/GATE.json" on-instance.sh -i "$scratch/key" "$scratch/GATE.json" -- --no-such-flag "it's"
    [ "$(cat "$scratch/code")" = 2 ] || fail "not the job's exit code"

    launcher --mode ddp-cpu --ranks 2 $small --steps 20 --out "$record" --write-job "$scratch/TRAIN.json"
    rented train "$scratch/TRAIN.json" on-instance.sh -i "$scratch/key" "$scratch/TRAIN.json" -- --no-scaling
    must_say "$(cat "$scratch/said")" "on-instance: record: $record"
    launcher --mode ddp-cpu --ranks 2 $small --steps 20 --out "$scratch/here" --no-scaling --quiet
    must_say "$(launcher compare "$record" "$scratch/here")" byte-equal
    [ "$(budget-service remaining lab)" = '$3.00' ] || fail "not all came back: $(budget-service list)"

    # an instance that nobody ends, and a container that is nobody's instance
    created "rf-$run-alone" 2
    until_true "$patience" status_is "$id" not-found || fail "$id does not end itself"
    other=$(docker run -d --label "ringfence=$test" "$tools" sleep 60)
    status_is "${other:0:12}" not-found || fail "the driver knows a container that is not its own"
    "$rented_driver" delete "${other:0:12}"
    [ "$(docker inspect --format '{{.State.Status}}' "$other")" = running ] || fail "the driver has ended it"
    result "through the gate, an exit code, and a record that is byte-equal to one of this host; an instance ended itself"
}
