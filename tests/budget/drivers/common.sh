# For the tests of drivers that speak HTTP. Sourced with the arguments of the test, after `vendor` and `url_name`,
# the variable that has the API's address, are set (below: the API's path at the mock): starts the mock of the vendor, with 300 instances of somebody else.

for program in curl jq; do
    command -v "$program" >/dev/null || {
        echo "skipped: there is no $program here"
        exit 77
    }
done
build=$(cd "$1" && pwd)
. "$2/tests/support/service.sh"
driver=$build/share/ringfence/drivers/$vendor
[ -x "$driver" ] || fail "$driver is no program"
key=rpa_the-key.that=nobody/may+see~0 # with each kind of character that a key may have

: >out
: >err
exec 3< <(exec "$build/tests/bin/vendor-mock" "$key" 300 requests 2>err </dev/null)
service=$!
read -rt 30 -u 3 mock || fail "the mock does not start"

# A driver waits in `sleep`, and each wait is written down instead. What `watched` has writes down how it was
# called: drivers find it there when `watch` is set.
mkdir stubs watched
printf '#!/bin/sh\necho "$*" >>%s/slept\n' "$scratch" >stubs/sleep
for program in curl jq sed dirname; do
    printf '#!/bin/sh\nprintf "%%s\\n" "%s $*" >>%s/called\nexec %s "$@"%s\n' "$program" "$scratch" "$(command -v "$program")" \
        "$([ "$program" = curl ] && printf ' ${CURL_MORE-}')" >"watched/$program"
done
chmod +x stubs/* watched/*
watch=""

# drive CODE ARGUMENTS...: calls the driver, expects this exit code; its standard input is the file order.
# `fault`, if it is set, is what the mock does. A failure says why on the last line.
fault=""
drive() {
    local expected=$1 got=0
    shift
    env "$url_name=$mock${fault:+/$fault}${below-}" PATH="${watch:+$scratch/watched:}$scratch/stubs:$PATH" "$driver" "$@" >out 2>err <order || got=$?
    [ "$got" -eq "$expected" ] || fail "exit $got, not $expected: $fault $*"
    [ "$got" -eq 0 ] || tail -n 1 err | grep -q "^$vendor: .....*" || fail "the last line does not say why: $fault $*"
}
# with FAULT drive ...
with() {
    fault=$1
    shift
    "$@"
    fault=""
}
# all_true FILE FILTER...: each is true of the one value in FILE. jq takes long to start, so it starts once if all are.
all_true() {
    local file=$1 what all=""
    shift
    for what; do all="$all and ($what)"; done
    jq -es "length == 1 and (.[0] | true$all)" "$file" >/dev/null || {
        for what; do jq -es "length == 1 and (.[0] | $what)" "$file" >/dev/null || break; done
        head -c 2000 "$file" >short && mv short out # a list is long
        fail "$file is not so: $what"
    }
}
out_is() { all_true out "$@"; }
out_is_empty() { [ ! -s out ] || fail "it has printed something"; }
# body_is METHOD FILTER...: of the newest request of that method that had a body.
body_is() {
    local method=$1
    shift
    sed -n "s/^$method [^ ]* \(.\)/\1/p" requests | tail -n 1 >body
    all_true body "$@"
}
# requested METHOD-AND-PATH: how many such requests there were.
requested() { grep -c "^$1 " requests || true; }
# change ID JSON: what the vendor shows of an instance from now on.
change() { curl -sS -X POST "$mock/mock/$vendor/$1" -d "$2" || fail "the mock changes nothing"; }
# order FILTER: the order of the next create.
order() {
    jq -n "{name: \"rf-jti-1\", instance_type: \"any\", gpus: 1, max_price_usd: \"9.99\",
        until: \"2099-01-01T00:00:00Z\"} + $1" >order
}
order '{}'

# What every driver does with a vendor that fails. $1: an id of the vendor's.
failing_vendor() {
    local id=$1 verb account=account
    [ "$vendor" != lambda ] || account=""
    for verb in $account list "describe $id" "delete $id"; do
        for fault in all=401 all=403 all=408 all=429 all=500 all=503 all=html404 all=garbage all=wrong all=empty all=drop; do
            # RunPod answers a deletion with no body, so that a wrong one is not looked at.
            case $vendor-$verb-$fault in
            runpod-delete*-all=garbage | runpod-delete*-all=wrong | runpod-delete*-all=empty | vast-delete*-all=wrong) continue ;;
            esac
            # shellcheck disable=SC2086
            drive 1 $verb
            out_is_empty
        done
        fault=""
        # shellcheck disable=SC2086
        with all=401 drive 1 $verb
        err_has "Look at $key_name"
        # shellcheck disable=SC2086
        with all=busy drive 0 $verb
        # shellcheck disable=SC2086
        env "$url_name=http://127.0.0.1:1" "$driver" $verb >out 2>err && fail "nobody answers, and $verb is done"
        err_has "has not answered"
    done
    CURL_MORE="--max-time 1" watch=yes with all=hang drive 1 describe "$id"
    err_has "has not answered"
    grep -q "^4$" slept || fail "a busy vendor is not asked again after a while"
}

# What must be refused before anything is asked.
bad_calls() {
    local before
    before=$(wc -l <requests)
    for call in "" frobnicate "describe" "describe -x" "describe ../x" "describe a/b" "list x" "delete" "delete x y" "account x"; do
        # shellcheck disable=SC2086
        drive 1 $call
    done
    drive 3 create x
    drive 3 check x
    for text in "no order" "" "{}" "[]"; do
        printf '%s' "$text" >order
        drive 3 create
        err_has "not the order"
    done
    order '{max_price_usd: "a lot"}'
    drive 3 create
    order '{gpus: "1&x=y"}'
    drive 3 create
    order '{tier: "spot"}'
    drive 3 create
    err_has "there is no tier spot here"
    (unset "$key_name" && order '{}' && drive 3 create && err_has "$key_name is not set")
    (export "$key_name=with \"a quote" && drive 1 list && err_has "$key_name is no API key")
    [ "$(wc -l <requests)" -eq "$before" ] || fail "a call that is wrong went to the vendor"
}

key_is_unseen() {
    : >called
    watch=yes
    order '{ssh_public_key: "ssh-ed25519 AAAA"}'
    drive 0 create
    drive 0 account
    drive 0 list
    drive 0 describe "$1"
    drive 0 delete "$1"
    with all=401 drive 1 describe "$1"
    grep -q "^curl .*--config -" called || fail "the programs were not written down"
    ! grep -qF -- "$key" called || fail "the key stood on a command line: $(grep -F -- "$key" called | head -n 1)"
}
