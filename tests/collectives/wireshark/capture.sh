#!/usr/bin/env bash
# Runs a command, and captures what goes over lo meanwhile.
#   capture.sh FILE COMMAND...
# For dissector.sh, in a network namespace of its own.
set -euo pipefail
file=$1
shift
ip link set lo up
rm -f "$file" "$file.log" # of a capture before
touch "$file.log"
dumpcap -q -i lo -B 64 -w "$file" 2>>"$file.log" &
capturing=$!
trap 'kill "$capturing" 2>/dev/null || true' EXIT # also if the command fails
trap 'exit 1' TERM INT
until grep -q '^File:' "$file.log"; do # it says so when it captures
    kill -0 "$capturing" || { cat "$file.log" >&2 && exit 1; }
    sleep 0.05
done
"$@"
# What is still in the kernel's ring comes within a moment: a last packet shows that all before it were written.
until tail -c 4096 "$file" | grep -q "the last packet"; do
    echo "the last packet" >/dev/udp/127.0.0.1/9 || true
    sleep 0.05
done
kill -INT "$capturing"
wait "$capturing"
