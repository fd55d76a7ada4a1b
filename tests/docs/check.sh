#!/usr/bin/env bash
# Keeps the pages true. From CTest, and from ./dev docs.
#   check.sh links ROOT            every relative link of every page leads to a file of the project
#   check.sh fields ROOT BUILD     docs/RECORD.md explains every field that a record has
#   check.sh help ROOT BUILD       docs/CLI.md holds what the programs' --help says
#   check.sh help-write ROOT BUILD puts it there
#   check.sh examples ROOT BUILD   every ```sh block under a line "<!-- runs -->" runs as written,
#                                  in an empty directory where build/release is BUILD
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

check_links() {
    local page target bad=0 count=0
    while read -r page; do
        while read -r target; do
            count=$((count + 1))
            if [ ! -e "$(dirname "$page")/${target%%#*}" ]; then
                echo "${page#"$root"/}: no such file: $target"
                bad=1
            fi
        done < <(grep -oE '\]\([^)]+\)' "$page" | sed 's/^](\(.*\))$/\1/' | grep -vE '^(https?:|#)')
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

# with_help PAGE: the page, each block after "<!-- help: COMMAND -->" filled from COMMAND --help.
with_help() {
    local line program words
    while IFS= read -r line; do
        printf '%s\n' "$line"
        [[ $line =~ ^'<!-- help: '(.*)' -->'$ ]] || continue
        read -ra words <<<"${BASH_REMATCH[1]}"
        program=$build/bin/${words[0]}
        [ "${words[0]}" != dev ] || program=$root/dev
        printf '```text\n%s\n```\n' "$("$program" "${words[@]:1}" --help)"
        # The block that stands there now is left out: up to its closing fence.
        IFS= read -r line && [ "$line" = '```text' ] || return
        while IFS= read -r line && [ "$line" != '```' ]; do :; done
    done <"$1"
}

# Each page's blocks run in one directory, one after the other.
run_examples() {
    local page count=0
    while read -r page; do
        grep -q '^<!-- runs -->$' "$page" || continue
        rm -rf "$scratch/run" && mkdir -p "$scratch/run/build"
        ln -s "$build" "$scratch/run/build/release"
        echo "trap 'jobs -p | xargs -r kill' EXIT" >"$scratch/script"
        awk '/^<!-- runs -->$/ { armed = 1; next }
             armed && /^```sh$/ { inside = 1; armed = 0; next }
             inside && /^```$/ { inside = 0; next }
             inside' "$page" >>"$scratch/script"
        echo "== ${page#"$root"/}"
        (cd "$scratch/run" && bash -euxo pipefail "$scratch/script" </dev/null)
        count=$((count + 1))
    done < <(pages)
    echo "$count pages with examples"
    [ "$count" -gt 0 ]
}

case $what in
links) check_links ;;
fields) check_fields ;;
help)
    with_help "$root/docs/CLI.md" >"$scratch/CLI.md"
    diff -u "$root/docs/CLI.md" "$scratch/CLI.md" || {
        echo "docs/CLI.md is not what --help says: run ./dev docs"
        exit 1
    }
    ;;
help-write)
    with_help "$root/docs/CLI.md" >"$scratch/CLI.md"
    cp "$scratch/CLI.md" "$root/docs/CLI.md"
    ;;
examples) run_examples ;;
*) exit 2 ;;
esac
