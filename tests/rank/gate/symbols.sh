#!/usr/bin/env bash
# Shows that a mode which may cost money is reached through the gate alone:
#   - functions named rank_cloud_… are called by modes.c and by no other object,
#   - modes.c calls rank_gate_enter,
#   - every mode that JOB.json knows and that may cost money is in modes.c's table as one of these,
#   - the rank loads no GPU library by itself.
#   symbols.sh RANK OBJECTS (a list with semicolons)
set -euo pipefail

rank=$1
IFS=';' read -ra objects <<<"$2"
fail() {
    echo "symbols: $*"
    exit 1
}

modes=""
for object in "${objects[@]}"; do
    symbols=$(nm "$object")
    calls=$(awk '$1 == "U" && $2 ~ /^rank_cloud_/ { print $2 }' <<<"$symbols")
    case $object in
    */modes.c.o)
        modes=$object
        grep -q ' U rank_gate_enter$' <<<"$symbols" || fail "modes.c does not call rank_gate_enter"
        [ -n "$calls" ] || fail "modes.c names no rank_cloud_ function"
        ;;
    *) [ -z "$calls" ] || fail "$object calls $calls: only modes.c may" ;;
    esac
done
[ -n "$modes" ] || fail "there is no modes.c among the objects"

# What is defined as a cloud mode must be in the table: nothing is reached by another name.
defined=$(nm "$rank" | awk '$2 ~ /[Tt]/ && $3 ~ /^rank_cloud_/ { print $3 }' | sort)
named=$(nm "$modes" | awk '$1 == "U" && $2 ~ /^rank_cloud_/ { print $2 }' | sort)
[ "$defined" = "$named" ] || fail "defined: $defined; in modes.c: $named"

# A GPU library may come only with the plugin that the gate's other side loads.
! ldd "$rank" | grep -E 'nccl|cudart|libcuda' || fail "rank is linked with a GPU library"
! nm "$rank" | grep -E ' U (nccl|cuda|cu[A-Z])' || fail "rank calls a GPU library"
echo "cloud modes behind the gate:" $named
