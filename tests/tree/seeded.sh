#!/usr/bin/env bash
# Shows that the test of arrows fails: on small trees, each with one arrow that must not be.
#   seeded.sh COMPILER
set -euo pipefail
arrows=$(dirname "$(realpath "$0")")/arrows.sh
compiler=$1
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

fresh() { # a tree without flaws: part/high uses part/low, and other/ what part/ has for everybody
    rm -rf tree && mkdir -p tree/part/{include/part,low,high} tree/other tree/build
    echo 'int low(void);' >tree/part/low/low.h
    echo 'int low_inside(void);' >tree/part/low/inside.h
    echo 'int high(void);' >tree/part/include/part/high.h
    printf '%s\n' '#include "inside.h"' '#include "low/low.h"' 'int low(void) { return low_inside(); }' \
        'int low_inside(void) { return 1; }' >tree/part/low/low.c
    printf '%s\n' '#include "low/low.h"' '#include "part/high.h"' 'int high(void) { return low(); }' \
        >tree/part/high/high.c
    printf '%s\n' '#include "part/high.h"' 'int main(void) { return high(); }' >tree/other/other.c
    printf '%s\n' part/low '  offers low.h' part/high '  offers include/part/high.h' '  uses part/low' \
        other '  uses part' >tree/table
}

check() { # builds the tree, and says what the test of arrows does
    local file entries=()
    for file in $(cd tree && find part other -name '*.c'); do
        mkdir -p "tree/build/$(dirname "$file")"
        "$compiler" -w -Itree/part -Itree/part/include -o "tree/build/$file.o" -c "tree/$file"
        entries+=("$(printf '{\n"directory": "%s",\n"command": "cc -o %s -c x",\n"file": "%s"\n}' \
            "$directory/tree/build" "$file.o" "$directory/tree/$file")")
    done
    (IFS=, && echo "[${entries[*]}]") >tree/build/compile_commands.json
    "$arrows" tree tree/build tree/table
}

refuses() { # WHAT MESSAGE: the tree as it is now
    if check >said 2>&1; then
        echo "$1: not seen" && exit 1
    fi
    grep -qF "$2" said || { echo "$1: said something else:" && cat said && exit 1; }
    echo "$1: $(grep -F "$2" said)"
}

fresh
check

fresh && echo '#include "part/high.h"' >>tree/part/low/low.c
refuses "an include upwards" "part/low/low.c includes part/high.h: part/low may not use part/high"

fresh && echo 'int high(void); int up(void) { return high(); }' >>tree/part/low/low.c
refuses "a call upwards" "part/low/low.c uses high: part/low may not use part/high"

fresh && echo '#include "low/inside.h"' >>tree/part/high/high.c
refuses "a private header" "part/high/high.c includes low/inside.h: a private header of part/low"

fresh && echo '#include "../part/low/low.h"' >>tree/other/other.c
refuses "a header of another part" "other/other.c includes ../part/low/low.h: a private header of part/low"

fresh && sed -i 's/^part\/low$/&\n  uses part\/high/' tree/table
refuses "a row that names one below it" "the row of part/low names part/high, which no row above it is"

fresh && echo '  uses part/low' >>tree/table && sed -i 's/^  uses part$/  uses part\/high/' tree/table
refuses "an arrow that is none" "the row of other names part/low, which it does not use"

fresh && sed -i 's/offers low.h/offers low.h inside.h/' tree/table
refuses "a header offered to nobody" "the row of part/low offers part/low/inside.h, which no other includes"

fresh && mkdir tree/part/new && echo 'int new;' >tree/part/new/new.c
refuses "a directory without a row" "part/new/new.c belongs to no row"
