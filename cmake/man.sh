#!/bin/sh
# Prints a page for man(1), made of what PROGRAM --help prints, and PROGRAM COMMAND --help for each of its commands:
# those that its help lists ("  account create ACCOUNT  ..."), and COMMANDs. Run by RingfenceInstall.cmake.
#   man.sh VERSION PROGRAM [COMMAND...]
set -eu

version=$1 program=$2
shift 2
help=$("$program" --help)
commands=$(printf '%s\n' "$help" | awk '/^  [a-z]/ {
    line = $1
    for (i = 2; $i ~ /^[a-z]+$/ && index($0, line " " $i) == 3; i++)
        line = line " " $i
    print line
}')
{
    printf '%s\n' "$help"
    for command in "$@"; do
        printf '@%s\n' "$command"
        "$program" "$command" --help
    done
    printf '%s\n' "$commands" | while read -r command; do
        [ -z "$command" ] || {
            printf '@%s\n' "$command"
            # shellcheck disable=SC2086 # a command may be two words
            "$program" $command --help
        }
    done
} | awk -v name="$(basename "$program")" -v version="$version" -f "$(dirname "$0")/man.awk"
