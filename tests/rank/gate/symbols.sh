#!/usr/bin/env bash
# Shows that a mode which may cost money is reached through the gate alone. In the program's objects
# and in every object of our libraries that it is linked with:
#   - functions named rank_cloud_… are called by modes.c and by no other object,
#   - modes.c calls rank_gate_enter, and one object alone defines it,
#   - what is defined as rank_cloud_… is in modes.c's table,
#   - nothing calls a GPU library, and the program is linked with none,
#   - one object alone loads libraries, rank/plugin/load.c, and it is called only by objects that
#     define a mode behind the gate.
#   symbols.sh RANK OBJECTS ARCHIVES (lists with semicolons)
set -euo pipefail

rank=$1
IFS=';' read -ra objects <<<"$2"
IFS=';' read -ra archives <<<"$3"
fail() {
    echo "symbols: $*"
    exit 1
}

# Lines of "FILE[:MEMBER] TYPE SYMBOL".
symbols=$(nm -A "${objects[@]}" "${archives[@]}" |
    sed -nE 's/^(.*\.o): *[0-9a-f]* ([A-Za-z]) ([^ ]+)$/\1 \2 \3/p')
which() { # of TYPES and SYMBOLS (patterns): the lines
    awk -v types="$1" -v names="$2" '$2 ~ types && $3 ~ names' <<<"$symbols"
}
count=$(awk '{ print $1 }' <<<"$symbols" | sort -u | wc -l)
[ "$count" -gt "${#objects[@]}" ] || fail "there are no objects of libraries"

calls=$(which '^U$' '^rank_cloud_' | grep -vE '[/:]modes\.c\.o ' || true)
[ -z "$calls" ] || fail "only modes.c may call: $calls"
which '^U$' '^rank_gate_enter$' | grep -qE '[/:]modes\.c\.o ' || fail "modes.c does not call rank_gate_enter"
[ "$(which '^[Tt]$' '^rank_gate_enter$' | wc -l)" -eq 1 ] || fail "rank_gate_enter is not defined once"

# What is defined as a mode behind the gate must be in the table: nothing is reached by another name.
defined=$(which '^[Tt]$' '^rank_cloud_' | awk '{ print $3 }' | sort)
named=$(which '^U$' '^rank_cloud_' | awk '{ print $3 }' | sort -u)
[ -n "$named" ] || fail "modes.c names no rank_cloud_ function"
[ "$defined" = "$named" ] || fail "defined: $defined; in modes.c: $named"

# A GPU library may come only with the plugin that the gate's other side loads.
calls=$(which '^[Uw]$' '^(nccl|cuda|cu[A-Z]|nvml)')
[ -z "$calls" ] || fail "a GPU library is called: $calls"
! ldd "$rank" | grep -E 'nccl|cudart|libcuda' || fail "rank is linked with a GPU library"
calls=$(which '^[Uw]$' '^dl(m?open|sym|vsym)$' | grep -vE '[/:]load\.c\.o ' || true)
[ -z "$calls" ] || fail "only the plugin's loader may load libraries: $calls"
[ -n "$(which '^U$' '^dlopen$')" ] || fail "the loader loads nothing"
behind=$(which '^[Tt]$' '^rank_cloud_' | awk '{ print $1 }' | sort -u)
calls=$(which '^[Uw]$' '^rank_plugin_load$' | awk '{ print $1 }' | grep -vxF "$behind" || true)
[ -z "$calls" ] || fail "only modes behind the gate may load the plugin: $calls"
echo "$count objects; modes behind the gate:" $named
