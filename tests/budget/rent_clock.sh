#!/usr/bin/env bash
# A computer whose wall clock is wrong, or jumps, rents and ends as any other: the service's clock counts. With a vendor that is
# a directory, and a real service.
#   rent_clock.sh BIN SOURCES WRONG_CLOCK    where budget-service and launcher are, the project's directory, and the library of
#                                            wrong_clock.c
set -euo pipefail

bin=$(cd "$1" && pwd)
sources=$(cd "$2" && pwd)
library=$3
. "$sources/tests/budget/rent_setup.sh"
export WRONG_CLOCK=$scratch/ahead_s
# wrong SECONDS COMMAND...: a test's function, on a computer whose clock is so far ahead.
wrong() {
    echo "$1" >"$WRONG_CLOCK"
    shift
    LD_PRELOAD=$library "$@"
}
[ $(($(wrong 86400 date +%s) - $(date +%s))) -gt 86000 ] || fail "the clock is right"

echo "== a clock that is ahead shortens no time"
authorize ahead
wrong 7200 rent 0 ahead true
! grep -q "of the granted time are over" err || fail "time is lost: $(cat err)"
is_state ahead terminated-unbilled || fail "ahead is $(state_of ahead)"
jq -e '.seconds_left > 3500 and .seconds_left <= 3600' vendor/ordered >/dev/null || fail "the order: $(cat vendor/ordered)"
err_has "all of ahead is ended, and proven. It cost about \$0.0"

echo "== nor does one that is behind hinder the proof"
authorize behind
wrong -7200 rent 0 behind true
is_state behind terminated-unbilled || fail "behind is $(state_of behind)"
err_has "all of behind is ended, and proven. It cost about \$0.0"

echo "== nor one that jumps"
authorize back
wrong 0 rent 0 back sh -c 'echo -7200 >$WRONG_CLOCK'
is_state back terminated-unbilled || fail "back is $(state_of back)"
authorize forth
wrong 0 rent 0 forth sh -c 'echo 7200 >$WRONG_CLOCK'
is_state forth terminated-unbilled || fail "forth is $(state_of forth)"
err_has "all of forth is ended, and proven. It cost about \$0.0"

echo "== the watchdog's clock, too"
authorize killed
wrong 7200 in_background killed sh -c 'touch began; exec sleep 5'
wait_for "the command" [ -e began ]
kill -9 "$pid"
ended 137
wait_for "the end" none_left
wait_for "the proof" is_state killed terminated-unbilled

echo "== end waits for what may still show, by the service's clock"
authorize hidden
echo 100000 >vendor/late
in_background hidden true
wait_for "the order" grep -q "created i-" err
kill -9 "$(watchdog_of "$pid")" "$pid"
ended 137
echo 7200 >"$WRONG_CLOCK"
LD_PRELOAD=$library budget-service end hidden --driver ./driver --out hidden.rent >out 2>err &
pid=$!
wait_for "its patience" grep -q "stub may not show all yet that was ordered for hidden: looking for 1[0-9][0-9] s more" err
! none_left || fail "the instance was gone before"
rm vendor/late
ended 0
none_left || fail "proven, and left"
is_state hidden terminated-unbilled || fail "hidden is $(state_of hidden)"

echo "== what runs"
authorize shown
budget 0 redeem shown.token --create
wrong 7200 budget 0 running
out_has "about \$0.00 by now"
! grep -q PAST out || fail "past its deadline: $(cat out)"
echo passed
