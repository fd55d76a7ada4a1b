#!/usr/bin/env bash
# Shows that directories include and call each other only as the table of arrows says.
#   arrows.sh SOURCE_DIRECTORY BUILD_DIRECTORY TABLE
# Includes are read from the sources, calls from the symbols of the objects, of which
# compile_commands.json says where they are. Calls by pointer are not seen: a table of functions is
# how a lower directory reaches a higher one. Tests may include and call everything.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
build=$(realpath "$2")
table=$(realpath "$3")
cd "$1"
root=$(pwd -P)

mapfile -t tops < <(awk '/^[^ \t#]/ { sub(/\/.*/, ""); if (!seen[$0]++) print }' "$table")

# "OBJECT SOURCE" of every source under the tops, once each.
objects() {
    awk -v root="$root/" -v build="$build/" '
        /"directory":/ { directory = $0; sub(/^[^:]*: *"/, "", directory); sub(/",?$/, "", directory) }
        /"command":/ { object = $0; sub(/^.* -o /, "", object); sub(/ .*/, "", object) }
        /"file":/ {
            file = $0; sub(/^[^:]*: *"/, "", file); sub(/",?$/, "", file)
            if (object !~ /^\//) { object = directory "/" object }
            if (index(file, root) != 1 || index(object, build) != 1) { next }
            print substr(object, length(build) + 1), substr(file, length(root) + 1)
        }' "$build/compile_commands.json" | grep -v '^tests/' | sort -u -k 2,2 |
        grep -E " ($(IFS='|' && echo "${tops[*]}"))/" || true
}

listed=$(objects)
[ -n "$listed" ] || { echo "no objects in $build" >&2 && exit 2; }

awk -f "$here/arrows.awk" \
    input=table "$table" \
    input=files <(find "${tops[@]}" -name '*.[ch]' -o -name '*.[ch].in') \
    input=includes <(grep -r --include='*.[ch]' '^#include "' "${tops[@]}") \
    input=objects <(
        awk '{ print "s", $0 }' <<<"$listed"
        cd "$build" && cut -d ' ' -f 1 <<<"$listed" | xargs nm -A -P
    )
