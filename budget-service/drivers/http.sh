# shellcheck shell=sh
# What the drivers of vendors that speak HTTP share. Beside what driver.sh takes, which this sources, a driver sets:
#   key_name, key     the variable that has the vendor's key, and the key
#   url               where the API is
# shellcheck disable=SC2154 # the variables above
needs="curl jq"
# shellcheck source=budget-service/drivers/driver.sh
. "$(dirname "$0")/driver.sh"

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
    said=$(of '[.detail, .msg, .message, .error, .error.message?, .error.suggestion?, (.errors // [])[]] | map(strings) | join("; ")
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

case $key in
"") fail "$key_name is not set: export the API key that $vendor has given you" ;;
*[!A-Za-z0-9._~+/=-]*) fail "$key_name is no API key: it has a character that no key has" ;;
esac
