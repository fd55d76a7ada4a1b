# shellcheck shell=sh
# What the drivers of vendors share: orders, money, and what a failure means. A driver sets these variables, sources
# this file (those that speak HTTP source http.sh, which does), and calls the function that has the name of its first
# argument:
#   vendor            its name, for messages
#   needs             the programs that it calls
#   image             the image of an order that names none
#   bills             "yes" if it has the call `bill FROM TO`
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

for program in $needs; do
    command -v "$program" >/dev/null || fail "this driver needs $program: install it"
done
case ${1-}-$# in
account-1 | check-1 | create-1 | list-1) ;;
bill-3) [ "${bills-}" = yes ] || fail "this driver fetches no bill: docs/BUDGET.md has which bills can be read" ;;
describe-2 | delete-2)
    case $2 in
    "" | [!A-Za-z0-9]* | *[!A-Za-z0-9._-]*) fail "'$2' is no instance's id" ;;
    esac
    ;;
*) fail "usage: $0 account | check | create | list | describe ID | delete ID" ;;
esac
