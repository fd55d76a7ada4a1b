# shellcheck shell=sh
# What the drivers of RunPod and Vast.ai share: requests over HTTP, money, and what a failure means. A driver
# sets these variables, sources this file, and calls the function that has the name of its first argument:
#   vendor            its name, for messages
#   key_name, key     the variable that has the vendor's key, and the key
#   url               where the API is
#   image             the image of an order that names none
# `code` is the exit code of a failure: 1, or 3 while it is certain that nothing was created.
# shellcheck disable=SC2154 # the variables above
case ${1-} in
check | create) code=3 ;;
*) code=1 ;;
esac
export LC_ALL=C # letters are ASCII's

# fail TEXT: says why, on one line, and ends the driver.
fail() {
    printf '%s: %s\n' "$vendor" "$1" >&2
    exit "$code"
}

# send METHOD PATH [JSON]: one request. Its HTTP status is then in status, its body in answer. curl gets the key
# and the body on its standard input, because a command line can be read by everybody on the computer.
send() {
    reply=$({
        printf 'header = "Authorization: Bearer %s"\n' "$key"
        [ -z "${3-}" ] || printf 'header = "Content-Type: application/json"\ndata-raw = "%s"\n' \
            "$(printf '%s' "$3" | sed 's/[\\"]/\\&/g')"
    } | curl -q --silent --show-error --globoff --proto '=http,https' --connect-timeout 10 --max-time 25 \
        --request "$1" --write-out '\n%{http_code}' --config - "$url$2") ||
        fail "$url has not answered $1 $2: is the network there, and ${vendor}'s API? Then try again"
    status=$(printf '%s\n' "$reply" | sed -n '$p')
    answer=${reply%?"$status"}
}

# ask METHOD PATH [JSON]: send, and again after a while if the vendor asks for fewer requests (429). Not for a
# request that creates something: it goes out once.
ask() {
    for wait in 1 2 4 ""; do
        send "$@"
        [ "$status" = 429 ] && [ -n "$wait" ] || return 0
        sleep "$wait"
    done
}

# of FILTER: what jq makes of the answer. It fails on null, false, an error, and what is not JSON.
# jq ends with 0 for an answer that is empty.
of() { [ -n "$answer" ] && printf '%s' "$answer" | jq -cer "$money $1" 2>/dev/null; }

# Filters for orders make an object, or a text that says why not.
object_or_fail() {
    case $1 in
    "{"*) ;;
    *) fail "$1" ;;
    esac
}

# take_order: what the driver's filter `order` makes of standard input is then in asked.
take_order() {
    asked=$(jq -cer --arg image "$image" "$money $order" 2>/dev/null) || asked=""
    object_or_fail "${asked:-standard input is not the order that a driver gets, or has a value that no order has}"
}

# whole_list PATH FILTER: asks for page after page, and prints the list. Of a page, FILTER makes what to add to
# PATH for the next one ("" after the last), and then its instances. Of an odd one it shows id and name: rent
# knows whether it may be one of its own.
whole_list() {
    found=""
    next=""
    pages=0
    while [ "$pages" -lt 1000 ]; do
        ask GET "$1$next"
        [ "$status" = 200 ] || refused
        page=$(of "$2") || malformed
        next=$(printf '%s\n' "$page" | sed -n 1p)
        found="$found$(printf '%s\n' "$page" | sed 1d)
"
        if [ -z "$next" ]; then
            printf '%s' "$found" | jq -cs '{instances: .}'
            return 0
        fi
        pages=$((pages + 1))
    done
    fail "its list of instances has no end"
}

# refused: ends the driver with what the vendor has said instead of doing what it was asked to.
refused() {
    said=$(of '[.detail, .msg, .message, .error, (.errors // [])[]] | map(strings) | join("; ")
               | gsub("[[:cntrl:]]+"; " ") | .[:300]') || said="no reason that could be read"
    case "$status $said" in
    401* | 403* | 404*[kK]ey*) said="$said. Look at $key_name: the key is wrong, or may not do this" ;;
    429*) said="$said. These are too many requests: try again in a minute" ;;
    5*) said="$said. That is a failure of the vendor: try again" ;;
    esac
    fail "HTTP $status: $said"
}

malformed() { fail "HTTP $status, but the answer is not what the API's documentation says. Is $url the API?"; }

# created: after the request that creates something. Only a refusal is certain to have created nothing.
created() {
    case $status in
    200 | 201) ;;
    408 | 429) refused ;;
    4??) code=3 && refused ;;
    *) refused ;;
    esac
}

# micro: to micro-dollars, rounded up, but for a double's error. exact: vendors may send $0.34 in single precision,
# as 0.34000000357; without it that is 0.340001, above what is allowed. A price that is not above 0 is not known.
# shellcheck disable=SC2016 # jq's variables
money='
def exact: (. * 1e4 | round / 1e4) as $near | if . - $near | fabs < 6e-8 * $near then $near else . end;
def micro: . * 1e6 - 1e-4 | ceil;
def usd: "\(. / 1000000 | floor).\(. % 1000000 + 1000000 | tostring | .[1:])";
def price: if type == "number" and . > 0 and . < 1e6 then {price_usd: (micro | usd)} else {} end;
def most: .max_price_usd | if test("^[0-9]+([.][0-9]{1,6})?$") then tonumber * 1e6 | round else error("price") end;
def count: if type == "number" and . >= 1 and . == floor then . else error("count") end;
'

for program in curl jq; do
    command -v "$program" >/dev/null || fail "this driver needs $program: install it"
done
case $key in
"") fail "$key_name is not set: export the API key that $vendor has given you" ;;
*[!A-Za-z0-9._~+/=-]*) fail "$key_name is no API key: it has a character that no key has" ;;
esac
case ${1-}-$# in
check-1 | create-1 | list-1) ;;
describe-2 | delete-2)
    case $2 in
    "" | [!A-Za-z0-9]* | *[!A-Za-z0-9._-]*) fail "'$2' is no instance's id" ;;
    esac
    ;;
*) fail "usage: $0 check | create | list | describe ID | delete ID" ;;
esac
