#!/usr/bin/env bash
# Shows that every .c file begins with a comment: what the file is and who calls it.
#   heads.sh DIRECTORY
# First on a tree of its own, in which each file but one has a flaw that must be found.
set -euo pipefail

# The files below the directories given whose first line does not begin a comment of some words.
headless() {
    find "$@" -name '*.c' -print0 | xargs -0 awk '
        FNR == 1 && ($1 != "/*" || NF < 6) { print FILENAME }
        FNR == 1 { seen++ }
        END { if (!seen) { print "no .c files" } }'
}

seeded=$(mktemp -d)
trap 'rm -rf "$seeded"' EXIT
printf '/* Adds numbers up. Called by b.c. */\n#include "a.h"\n' >"$seeded/a.c"
printf '#include "b.h"\n\n/* Calls a.c, and says so too late. */\n' >"$seeded/b.c"
printf '/* */\nint c;\n' >"$seeded/c.c"
printf '\n/* Begins with an empty line. */\n' >"$seeded/d.c"
found=$(headless "$seeded" | sort | sed "s|$seeded/||" | tr '\n' ' ')
[ "$found" = "b.c c.c d.c " ] || { echo "of the files b.c c.c d.c, these were found: $found" >&2 && exit 1; }

cd "$1"
found=$(headless base chart proto collectives budget-service rank launcher tests | sort)
[ -z "$found" ] || { printf 'no comment at the head of:\n%s\n' "$found" >&2 && exit 1; }
