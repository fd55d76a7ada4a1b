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
out_lacks() { ! grep -qF -- "$1" out || fail "out has $1"; }

# expect CODE COMMAND...: runs it, expects this exit code (bad: any but 0); out and err hold what it said.
expect() {
    local expected=$1 got=0
    shift
    "$@" >out 2>err </dev/null || got=$?
    if [ "$expected" = bad ]; then
        [ "$got" -ne 0 ] || fail "this must not be done: $*"
    else
        [ "$got" -eq "$expected" ] || fail "exit $got, not $expected: $*"
    fi
}

# budget CODE ARGUMENTS...: the same for budget-service. With --json it says one object.
budget() {
    expect "$1" budget-service "${@:2}"
    case " $* " in
    *" --json "*) [ "$(wc -l <out)" -eq 1 ] && grep -q '^{.*}$' out || fail "not one object: $*" ;;
    esac
}

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
    read -rt 120 -u 3 ready || { cp log err && : >out && fail "serve is not ready"; }
}
