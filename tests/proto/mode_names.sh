#!/usr/bin/env bash
# The names of modes stand in proto/src/mode.c alone: nobody else compares or writes one. Names are
# looked for as whole string literals, in the programs' own sources.
#   mode_names.sh ROOT
set -euo pipefail
cd "$1"
table=proto/src/mode.c
names=$(sed -n 's/.*\.name = "\([^"]*\)".*/\1/p' $table)
[ "$(wc -w <<<"$names")" -ge 4 ] || { echo "mode_names: no names in $table"; exit 1; }
found=0
for name in $names; do
    if grep -rn --include='*.[ch]' -F "\"$name\"" launcher rank proto budget-service/{cli,client,server,token} |
        grep -v "^$table:"; then
        found=1
    fi
done
if grep -rn --include='*.[ch]' -F -- '-nccl"' launcher rank proto budget-service/{cli,client,server,token} |
    grep -v "^$table:"; then
    found=1
fi
[ $found -eq 0 ] || { echo "mode_names: a mode's name outside $table: ask its row (proto/mode.h)"; exit 1; }
echo "modes:" $names
