#!/usr/bin/env bash
# Keeps the pages true. From CTest, and from ./dev docs.
#   check.sh links ROOT            every relative link of every page leads to a file of the project,
#                                  and to a heading that is there
#   check.sh fields ROOT BUILD     docs/RECORD.md explains every field that a record has
#   check.sh errors ROOT           docs/ERRORS.md quotes messages that the sources have
#   check.sh help ROOT BUILD       docs/CLI.md holds what the programs' --help says, of every command;
#                                  docs/COLLECTIVES.md, what the commands of "<!-- prints: -->" print;
#                                  docs/ring.svg is what coll-simulate draws
#   check.sh flags ROOT BUILD      each flag that a page gives to a program stands in its --help
#   check.sh help-write ROOT BUILD puts it there
#   check.sh examples ROOT BUILD [GREP...]
#                                  every ```sh block under a line "<!-- runs -->" runs as written,
#                                  in an empty directory where build/release is BUILD. GREP: arguments of
#                                  grep -E, for some of the pages
set -euo pipefail

what=$1
root=$2
build=${3-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

pages() {
    find "$root" -path "$root/build" -prune -o -path "$root/.?*" -prune -o -path "$root/experiments" \
        -prune -o -name '*.md' -print
}

# anchors PAGE: what leads to its headings, as GitHub names them, and "" for the whole page.
anchors() {
    awk '/^```/ { code = !code }
         /^#+ / && !code {
             sub(/^#+ +/, ""); gsub(/\]\([^)]*\)/, ""); text = tolower($0)
             gsub(/[^[:alnum:]_ -]/, "", text); gsub(/ /, "-", text)
             print text (seen[text]++ ? "-" (seen[text] - 1) : "")
         }
         END { print "" }' "$1"
}

check_links() {
    local page target to bad=0 count=0
    pages | while read -r page; do
        mkdir -p "$scratch/$(dirname "$page")"
        anchors "$page" >"$scratch/$page"
    done
    while read -r page; do
        while read -r target; do
            count=$((count + 1))
            if [ ! -e "$(dirname "$page")/${target%%#*}" ]; then
                echo "${page#"$root"/}: no such file: $target"
                bad=1
            fi
            case $target in
            '#'*) to=$page ;;
            *.md#*) to=$(realpath "$(dirname "$page")/${target%%#*}") ;;
            *) continue ;;
            esac
            if ! grep -qxF -- "${target#*#}" "$scratch/$to"; then
                echo "${page#"$root"/}: no such heading: $target"
                bad=1
            fi
        done < <(grep -oE '\]\([^)]+\)' "$page" | sed 's/^](\(.*\))$/\1/' | grep -vE '^https?:')
    done < <(pages)
    echo "$count links"
    [ "$bad" -eq 0 ] && [ "$count" -gt 0 ]
}

check_fields() {
    "$build/tests/bin/sample-record" "$scratch/record" 2 4
    grep -ohE '"[a-z0-9_]+": ' "$scratch/record/manifest.json" "$scratch/record/timings.jsonl" |
        tr -d '": ' | sort -u >"$scratch/written"
    sed -n '/^## timings.jsonl/,$p' "$root/docs/RECORD.md" | grep -oE '`[a-z0-9_]+`' | tr -d '`' |
        sort -u >"$scratch/explained"
    echo "$(wc -l <"$scratch/written") fields; not explained in docs/RECORD.md:"
    [ -s "$scratch/written" ] && ! comm -23 "$scratch/written" "$scratch/explained" | grep .
}

# A message's words must be found in the sources' strings: two or more in a row, or a long one. Words
# with a digit, a quote or a slash, and those in capitals, are examples of values. Others may be (the
# name of a mode), so that half of the words is enough.
check_errors() {
    find "$root"/{base,proto,collectives,budget-service,rank,launcher} -name '*.[ch]' -print0 |
        xargs -0 perl -0777 -ne 'while (m{/\*.*?\*/|\x27(?:[^\x27\\]|\\.)+\x27
                |"((?:[^"\\]|\\.)*)"(\s*(?:PRI\w+\s*)?(?="))?}gsx) {
            print $1, defined $2 ? "" : "\n" if defined $1;
        }' | sed "s/\\\\\"/'/g" >"$scratch/strings"
    sed -n '/^## What you see/,/^### What stays behind/p' "$root/docs/ERRORS.md" | grep '^| `' |
        sed 's/ | .*//' | grep -oE '`[^`]+`' | tr -d '`' | tr '"' "'" |
        sed -E 's/\([^)]*\)//g; s/^rank [0-9]+ *:?//' >"$scratch/messages"
    awk 'function value(word) { return word ~ /[0-9\/…\047]/ || word ~ /^[A-Z_.]+[:,]?$/ }
         NR == FNR { strings = strings $0 "\n"; next }
         { count = split($0, words, " "); found = 0; all = 0
           for (i = 1; i <= count; i = end + 1) {
               end = i
               if (value(words[i])) continue
               run = words[i]
               known = index(strings, run) > 0 && (length(run) > 5 || count < 4)
               while (end < count && !value(words[end + 1]) &&
                      index(strings, run " " words[end + 1]) > 0) {
                   run = run " " words[++end]; known = 1
               }
               all += end - i + 1
               found += known ? end - i + 1 : 0
           }
           if (2 * found < all) { print "not in the sources: " $0; bad = 1 } }
         END { exit bad }' "$scratch/strings" "$scratch/messages" || return
    echo "$(wc -l <"$scratch/messages") messages"
    [ -s "$scratch/messages" ]
}

# with_output PAGE: the page, each block after "<!-- help: COMMAND -->" filled from COMMAND --help, and
# after "<!-- prints: COMMAND -->" from COMMAND.
with_output() {
    local line program words
    while IFS= read -r line; do
        printf '%s\n' "$line"
        [[ $line =~ ^'<!-- '(help|prints)': '(.*)' -->'$ ]] || continue
        read -ra words <<<"${BASH_REMATCH[2]}"
        [ "${BASH_REMATCH[1]}" = prints ] || words+=(--help)
        program=$build/bin/${words[0]}
        [ "${words[0]}" != dev ] || program=$root/dev
        printf '```text\n%s\n```\n' "$("$program" "${words[@]:1}")"
        # The block that stands there now is left out: up to its closing fence.
        IFS= read -r line && [ "$line" = '```text' ] || return
        while IFS= read -r line && [ "$line" != '```' ]; do :; done
    done <"$1"
}

# draw_ring DIRECTORY: the picture in README.md and docs/COLLECTIVES.md.
draw_ring() {
    "$build/bin/coll-simulate" all_reduce --algorithm ring --ranks 4 --trace --plot "$1/ring.svg" >/dev/null
}

# help_of "PROGRAM SUBCOMMAND": what it says with --help, asked once.
help_of() {
    local file=$scratch/help-${1// /-} words
    read -ra words <<<"$1"
    if [ ! -e "$file" ] && [ "$1" = dev ]; then
        "$root/dev" --help >"$file"
    elif [ ! -e "$file" ]; then
        "$build/bin/${words[0]}" "${words[@]:1}" --help >"$file" || return
    fi
    cat "$file"
}

# Every command that budget-service lists has its block.
check_commands() {
    local command bad=0 count=0
    while read -r command; do
        count=$((count + 1))
        if ! grep -qxF "<!-- help: budget-service $command -->" "$root/docs/CLI.md"; then
            echo "docs/CLI.md has no help of budget-service $command"
            bad=1
        fi
    done < <(help_of budget-service | sed -nE 's/^  ([a-z-]+( [a-z-]+)?)( [A-Z]+)*  +[^ ].*/\1/p')
    echo "$count commands"
    [ "$bad" -eq 0 ] && [ "$count" -gt 0 ]
}

check_flags() {
    local page command flag bad=0 count=0
    mapfile -t all < <(pages)
    while IFS=$'\t' read -r page command flag; do
        count=$((count + 1))
        if ! help_of "$command" | grep -E -- "(^|[^a-z-])$flag([^a-z-]|$)" >/dev/null; then
            echo "$page: $command has no $flag"
            bad=1
        fi
    done < <(perl "$root/tests/docs/commands.pl" "$root" "${all[@]}" | sort -u)
    echo "$count flags"
    [ "$bad" -eq 0 ] && [ "$count" -gt 0 ]
}

# Each page's blocks run in one directory, one after the other. A training that an earlier block has run, word for
# word, has left its model there.
run_examples() { # [GREP...]
    local page count=0
    [ $# -gt 0 ] || set -- .
    while read -r page; do
        grep -q '^<!-- runs -->$' "$page" || continue
        rm -rf "$scratch/run" && mkdir -p "$scratch/run/build"
        ln -s "$build" "$scratch/run/build/release"
        echo "trap 'jobs -p | xargs -r kill || :' EXIT" >"$scratch/script"
        awk '/^<!-- runs -->$/ { armed = 1; next }
             armed && /^```sh$/ { inside = 1; armed = 0; next }
             inside && /^```$/ { inside = 0; next }
             inside && /^launcher .*--steps .*--out / && seen[$0]++ { next }
             inside' "$page" >>"$scratch/script"
        echo "== ${page#"$root"/}"
        (cd "$scratch/run" && bash -euxo pipefail "$scratch/script" </dev/null)
        count=$((count + 1))
    done < <(pages | grep -E "$@")
    echo "$count pages with examples"
    [ "$count" -gt 0 ]
}

case $what in
links) check_links ;;
fields) check_fields ;;
errors) check_errors ;;
help)
    check_commands || exit 1
    for page in CLI COLLECTIVES; do
        with_output "$root/docs/$page.md" >"$scratch/$page.md"
        diff -u "$root/docs/$page.md" "$scratch/$page.md" || {
            echo "docs/$page.md is not what the programs print: run ./dev docs"
            exit 1
        }
    done
    draw_ring "$scratch"
    cmp "$root/docs/ring.svg" "$scratch/ring.svg" || {
        echo "docs/ring.svg is not what coll-simulate draws: run ./dev docs"
        exit 1
    }
    ;;
help-write)
    for page in CLI COLLECTIVES; do
        with_output "$root/docs/$page.md" >"$scratch/$page.md"
        cp "$scratch/$page.md" "$root/docs/$page.md"
    done
    draw_ring "$root/docs"
    ;;
flags) check_flags ;;
examples) run_examples "${@:4}" ;;
*) exit 2 ;;
esac
