#!/usr/bin/env bash
# clang-tidy over C sources, but not over those that it has found clean before. ./dev tidy calls it.
#   tidy.sh ROOT BUILD [FILE...]    FILE...: all C sources that BUILD compiles, if none is given
# A source has a key: the hash of all that the result can depend on. That is clang-tidy's version, the
# checks, the commands that compile the source, and the whole text of the source and of all that it
# includes. Comments count, too: NOLINT is one. ninja knows what a source includes, so BUILD must be
# up to date. The root's own path is no part of a key, so that clones share results.
# A clean result is an empty file, named by its key, in $XDG_CACHE_HOME/ringfence/tidy. It goes away
# a month after its last use. A source with findings is checked again each time.
set -euo pipefail
export LC_ALL=C root build cache scratch
root=$(realpath "$1") build=$(realpath "$2")
shift 2
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ringfence/tidy
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$cache" "$scratch/keys"
touch "$scratch/start"

# The analyser walks paths through the product; tests are checked by the other checks alone.
tidy_command() { # FILE: one argument a line
    printf '%s\n' clang-tidy-14 -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option
    [[ $1 != "$root"/tests/* ]] || echo '--checks=-clang-analyzer-*'
}
export -f tidy_command

# Generated sources lie in build/ and are not ours to mend. The checks are those for C.
all_sources() {
    sed -n 's/^ *"file": "\(.*\.c\)".*/\1/p' "$build/compile_commands.json" |
        grep -vF "$root/build/" | sort -u
}

# what_is_asked FILE: a hash of that part of a key that is not in sources.
what_is_asked() {
    {
        clang-tidy-14 --version
        dpkg-query -W clang-tidy-14 2>/dev/null || true
        cat "$root/.clang-tidy"
        tidy_command "$1" | sed "s|^$build||"
    } | sha256sum
}

# hashes: "NAME HASH PATH" of each file that any source includes, NAME being what ninja calls it. ninja
# also remembers files that are gone.
hashes() {
    cd "$build"
    sed -n 's/^    //p' "$scratch/deps" | sort -u | while read -r name; do
        [ ! -f "$name" ] || printf '%s\n' "$name"
    done >"$scratch/names"
    paste -d ' ' "$scratch/names" \
        <(xargs -d '\n' sha256sum <"$scratch/names" | cut -c 1-64) \
        <(xargs -d '\n' realpath --relative-base="$root" <"$scratch/names")
}

# key_lines: "N TAB LINE" for the Nth line of the file sources: what its key is made of. LINE is UNKNOWN
# where the build does not say what a source includes, or no longer does.
key_lines() {
    awk -v root="$root" -v product="$(what_is_asked "$root/")" -v tests="$(what_is_asked "$root/tests/")" '
        function without_root(text, at, done) {
            while ((at = index(text, root)) > 0) {
                done = done substr(text, 1, at - 1) "ROOT"
                text = substr(text, at + length(root))
            }
            return done text
        }
        FILENAME ~ /\/sources$/ {
            line[$0] = FNR
            print FNR "\t" (index($0, root "/tests/") == 1 ? tests : product)
            next
        }
        FILENAME ~ /\/hashes$/ { hash[$1] = $2 " " $3; next }
        FILENAME ~ /\/compile_commands.json$/ {
            if ($1 == "\"command\":") { command = $0 }
            split($0, part, "\"")
            if (part[2] == "file" && part[4] in line) {
                match(command, / -o [^ ]+/)
                source_of[substr(command, RSTART + 4, RLENGTH - 4)] = line[part[4]]
                commands[line[part[4]]]++
                print line[part[4]] "\t" without_root(command)
            }
            next
        }
        /^[^ ].*: #deps / {
            object = substr($0, 1, index($0, ": #deps ") - 1)
            number = object in source_of && /\(VALID\)$/ ? source_of[object] : 0
            if (number) { objects[number]++ }
            next
        }
        NF && number { print number "\t" ($1 in hash ? hash[$1] : "UNKNOWN") }
        END {
            for (source in line) {
                number = line[source]
                if (!objects[number] || objects[number] != commands[number]) { print number "\tUNKNOWN" }
            }
        }' "$scratch/sources" "$scratch/hashes" "$build/compile_commands.json" "$scratch/deps"
}

# keys: "N KEY FILE", a line each, for every source; KEY is none where it is not known. What a key is made
# of stays in keys/N, sorted, because ninja's order is that of its last builds.
keys() {
    local number key file
    local -A unknown=()
    while read -r number; do
        unknown[$number]=yes
    done < <(key_lines | sort -u -t "$(printf '\t')" -k 1,1n -k 2 | awk -F '\t' -v keys="$scratch/keys/" '
        $1 != number { close(keys number); number = $1 }
        $2 == "UNKNOWN" { print number }
        { print $2 >(keys number) }')
    (cd "$scratch/keys" && xargs -a <(seq "$(wc -l <"$scratch/sources")") sha256sum) |
        while read -r key number && read -r file <&3; do
            [ -z "${unknown[$number]-}" ] || key=none
            printf '%s\n' "$number" "$key" "$file"
        done 3<"$scratch/sources"
}

# check N KEY FILE: what clang-tidy says about one file. Its result is not kept where a file that it
# includes has changed meanwhile, because the key is of the text before.
check() {
    local command said status=0 path
    mapfile -t command < <(tidy_command "$3")
    said=$("${command[@]}" "$3" 2>&1) || status=$?
    grep -Ev '^[0-9]+ warnings? (generated|treated)' <<<"$said" | grep . || true
    [ "$status" -eq 0 ] || return 1
    [ "$2" != none ] || return 0
    while read -r _ path; do
        [[ $path = /* || ! $root/$path -nt $scratch/start ]] || return 0
    done <"$scratch/keys/$1"
    : >"$cache/$2"
}
export -f check

if [ $# -eq 0 ]; then
    all_sources
else
    realpath -- "$@"
fi >"$scratch/sources"
ninja -C "$build" --quiet -t deps >"$scratch/deps"
(hashes) >"$scratch/hashes"
keys >"$scratch/all"

: >"$scratch/todo"
known=0
while read -r number && read -r key && read -r file; do
    if [ -e "$cache/$key" ]; then
        known=$((known + 1))
        touch "$cache/$key"
    else
        printf '%s\n' "$number" "$key" "$file" >>"$scratch/todo"
    fi
done <"$scratch/all"
find "$cache" -type f -mtime +30 -delete
echo "tidy: $known of $(wc -l <"$scratch/sources") files were clean before, and have not changed" >&2
xargs -r -a "$scratch/todo" -d '\n' -P "$(nproc)" -n 3 bash -c 'check "$@"' check
