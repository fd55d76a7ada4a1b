#!/usr/bin/env bash
# Every program says with --version which build it is: all of one build say the same. And -h is --help.
#   versions.sh PROGRAM...
set -euo pipefail

build=$("$1" --version | sed -n '1s/^launcher (Ringfence) \([0-9.]* (sources [0-9a-f]\{16\})\)$/\1/p')
[ -n "$build" ] || { echo "launcher --version: $("$1" --version)"; exit 1; }
for program in "$@"; do
    name=${program##*/}
    said=$("$program" --version | head -n 1)
    [ "$said" = "$name (Ringfence) $build" ] || { echo "$name: '$said', and launcher is of $build"; exit 1; }
    case $name in
    rank | inference-bench) ;; # not for users: they have no list of options
    *)
        "$program" --help | grep -q -e --version || { echo "$name --help does not name --version"; exit 1; }
        cmp <("$program" --help) <("$program" -h) || { echo "$name -h is not $name --help"; exit 1; }
        ;;
    esac
done
