# For tests of programs beside a budget service of their own: sourced, it goes into an empty directory,
# which is removed at the end with the service. What a command said lies in out and err.

scratch=$(mktemp -d)
service=""
finish() {
    [ -z "$service" ] || kill "$service" 2>/dev/null || true
    wait
    rm -rf "$scratch"
}
trap finish EXIT
cd "$scratch"
umask 077
unset CREDENTIALS_DIRECTORY XDG_STATE_HOME BUDGET_SERVICE_DIR
export HOME=$scratch

fail() {
    printf 'FAILED: %s\n-- out\n%s\n-- err\n%s\n' "$*" "$(cat out)" "$(cat err)" >&2
    exit 1
}
out_has() { for what; do grep -qF -- "$what" out || fail "out has no $what"; done; }
err_has() { for what; do grep -qF -- "$what" err || fail "err has no $what"; done; }

stop_service() {
    kill "$service"
    wait "$service" || fail "serve ended with $?"
    service=""
}

# start_service FLAGS...: waits for the one line that says that it is ready, or for the end of its output.
start_service() {
    exec 3< <(exec budget-service serve "$@" 2>log </dev/null)
    service=$!
    ready=""
    read -rt 30 -u 3 ready || { cp log err && : >out && fail "serve is not ready"; }
}
