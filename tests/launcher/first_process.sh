#!/usr/bin/env bash
# Process 1 of a container, here of a PID namespace, ends by SIGTERM, SIGINT and SIGHUP before it has a loop
# that takes signals: while it reads a file. (env, as a shell lets what
# it starts with an ampersand ignore SIGINT.)
#   first_process.sh LAUNCHER
set -euo pipefail

launcher=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unshare --pid --fork true 2>/dev/null || { echo "there can be no PID namespace here"; exit 77; }

mkfifo "$scratch/pipe"
for signal in TERM INT HUP; do
    code=0
    env --default-signal unshare --pid --fork "$launcher" --job "$scratch/pipe" >/dev/null 2>"$scratch/err" &
    exec 9>"$scratch/pipe" # the launcher has opened it
    kill -s "$signal" $(cat /proc/$!/task/$!/children)
    exec 9>&-
    wait $! || code=$?
    [ "$code" -eq $((128 + $(kill -l "$signal"))) ] || { echo "exit code $code after SIG$signal"; cat "$scratch/err"; exit 1; }
done
