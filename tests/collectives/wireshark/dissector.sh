#!/usr/bin/env bash
# Shows that the dissector of collectives/wireshark knows the format that libcoll writes.
#   dissector.sh plans DUMP_PLANS FOLDER            what ranks send by every plan, and all names, are the same
#   dissector.sh capture LAUNCHER WIRE_JOB FOLDER   jobs are captured in a network namespace of their own, and what
#                                                   tshark shows is compared with what the ranks have sent
#   dissector.sh hostile FOLDER                     frames that no libcoll writes are no error of the dissector's
# FOLDER: of the dissector.
set -euo pipefail
here=$(dirname "$(realpath "$0")")

skip() {
    echo "skipped: $*"
    exit 77
}

command -v tshark >/dev/null || skip "there is no tshark here (apt-get install tshark)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work # a person's own plugins and preferences stay out
case $1 in
plans)
    "$2" >"$work/c"
    tshark -G protocols -X "lua_script:$here/plans.lua" -X "lua_script1:$3" -X "lua_script1:$work/c" \
        -X "lua_script1:$work/lua" >"$work/log" 2>&1 || true
    [ -s "$work/lua" ] || { cat "$work/log" && exit 1; }
    grep -c . "$work/c"
    cmp "$work/c" "$work/lua" || { diff "$work/c" "$work/lua" | head -20 && exit 1; }
    ;;
hostile)
    command -v python3 >/dev/null || skip "there is no python3 here"
    for auth in 2 77; do # off, and one that there is not
        python3 "$here/hostile.py" "$work/pcap" "$auth"
        tshark -X "lua_script:$2/ringfence.lua" -o tcp.try_heuristic_first:TRUE -r "$work/pcap" -Y ringfence -V \
            -O ringfence >"$work/text" 2>"$work/log" || { cat "$work/log" && exit 1; }
        ! grep -h -B 1 "Lua Error" "$work/text" "$work/log" || exit 1
        [ "$(grep -c '^Ringfence' "$work/text")" -eq 15 ] || { grep '^Ringfence' "$work/text" && exit 1; }
        # The last frame is of a communicator that is none.
        ! tail -n 20 "$work/text" | grep "The flags before this frame announce no such bytes" || exit 1
    done
    ;;
capture)
    unshare --map-root-user --net true 2>/dev/null || skip "this user may not make a network namespace"
    unshare --map-root-user --net dumpcap -v >/dev/null 2>&1 || skip "this user may not run dumpcap"
    for job in "ring off" "halving_doubling mac" "tree encrypt"; do
        read -r algorithm auth <<<"$job"
        unshare --map-root-user --net "$here/capture.sh" "$work/pcap" "$2" --ranks 4 --transport tcp \
            --tcp-auth "$auth" --algorithm "$algorithm" --quiet -- "$3" >"$work/sent" 2>"$work/log" ||
            { cat "$work/sent" "$work/log" && exit 1; }
        ring=0 elements=4
        [ "$job" != "ring off" ] || ring=1 elements=4000
        tshark -X "lua_script:$4/ringfence.lua" -o ringfence.elements:$elements -o tcp.try_heuristic_first:TRUE \
            -r "$work/pcap" -Y ringfence -V -O ringfence >"$work/text" 2>"$work/log" ||
            { cat "$work/log" && exit 1; }
        echo "$job:"
        sed -n 's/^\[rank [0-9]*\] //p' "$work/sent" | cat - "$work/text" |
            awk -v AUTH="$auth" -v RING="$ring" -f "$here/check.awk"
    done
    ;;
esac
