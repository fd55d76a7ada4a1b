#!/usr/bin/env bash
# Shows a job of compose.yml: starts it, prints what the head says, and takes it down when the head has ended.
# Called by ./dev docker up; the record is in experiments/docker/head.
#   docker/up.sh [FLAGS]        FLAGS are the head's, as in --steps 500
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
state=${RINGFENCE_STATE:-$here/../experiments/docker}
export RINGFENCE_FLAGS="$*"
"$here/prepare.sh" "$state"
compose=(docker-compose)
! docker compose version >/dev/null 2>&1 || compose=(docker compose)
compose+=(--env-file "$state/env" -f "$here/compose.yml")

trap '"${compose[@]}" down -t 5' EXIT
"${compose[@]}" up -d || { "${compose[@]}" logs --no-color head || true; exit 1; }
"${compose[@]}" logs --no-color -f head agent-1 & # ends when both have
code=$(docker wait "$("${compose[@]}" ps -q head)")
# without its head an agent waits until its --join-timeout
[ "$code" -eq 0 ] || "${compose[@]}" stop agent-1
wait $!
exit "$code"
