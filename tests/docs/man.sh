#!/usr/bin/env bash
# The manual pages that the build has made: each renders without a warning, and has all flags and commands of --help.
#   man.sh BUILD      Ends with 77 where there is no groff.
set -euo pipefail

build=$1
command -v groff >/dev/null || {
    echo "skipped: there is no groff (groff-base)"
    exit 77
}
pages=("$build"/man/*.1)
[ -s "${pages[0]}" ]
for page in "${pages[@]}"; do
    name=$(basename "$page" .1)
    text=$(groff -man -Tascii -P-bcou -rLL=200n -ww "$page" 2>&1)
    if grep -n 'warning:\|error:' <<<"$text"; then
        echo "$page: groff warns"
        exit 1
    fi
    for section in NAME SYNOPSIS DESCRIPTION "SEE ALSO"; do
        grep -qx "$section" <<<"$text" || {
            echo "$page has no $section"
            exit 1
        }
    done
    grep -q "^ *$name - [a-z]" <<<"$text" || {
        echo "$page does not say in a line what $name is"
        exit 1
    }
    # Entries of help stand in a line of their own, or in front of what they mean.
    count=0
    while read -r entry; do
        grep -qE -- "^ +$entry([ ,]|$)" <<<"$text" || {
            echo "$page has no entry $entry"
            exit 1
        }
        count=$((count + 1))
    done < <("$build/bin/$name" --help | sed -nE 's/^  (-?-?[a-z][a-z0-9-]*).*/\1/p')
    [ "$count" -gt 2 ]
done
grep -q '^LAUNCHER PLAN$' < <(groff -man -Tascii -P-bcou "$build/man/launcher.1")
grep -q '^BUDGET-SERVICE ACCOUNT CREATE$' < <(groff -man -Tascii -P-bcou "$build/man/budget-service.1")
echo "${#pages[@]} pages: right"
