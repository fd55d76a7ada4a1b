# For tests of models through the launcher: sourced with BIN and SCRATCH, it goes into SCRATCH, which is empty but for
# the folder shape, for the config.json of a model that is drawn.
set -euo pipefail

PATH=$1:$PATH
rm -rf "$2"
mkdir -p "$2/shape"
cd "$2"

fail() {
    echo "$(basename "$0" .sh): $*"
    exit 1
}
ids() { tr -d ' \n' <"$1" | grep -oE '"(prompt_)?token_ids":\[[0-9,]*\]'; }
tokens() { ids "$1/results.json"; }
said() { tr -d ' \n' <"$1" | grep -oE "\"$2\":[0-9.]*" | head -1 | cut -d: -f2; }
refused() { # WHAT COMMAND...: which fails, and says so
    local what=$1
    shift
    "$@" >out 2>err && fail "not refused: $*"
    grep -q -- "$what" err || fail "$*: not refused with \"$what\", but: $(cat err)"
}
changed() { # MODEL CHANGE: makes the directory changed, a copy with another config.json
    rm -rf changed
    cp -r "$1" changed
    sed -i "$2" changed/config.json
}
refused_changed() { # MODEL WHAT CHANGE
    changed "$1" "$3"
    refused "$2" launcher --mode tp-cpu --checkpoint changed --prompt hello --quiet --no-bind --out none
}
plan_has_parameters() { # RECORD ARGUMENTS...: launcher plan knows how many it has
    launcher plan "${@:2}" --json >plan.json || fail "no plan"
    [ -n "$(said plan.json parameters)" ] && [ "$(said plan.json parameters)" = "$(said "$1/results.json" parameters)" ] ||
        fail "$(said plan.json parameters) parameters are planned, not $(said "$1/results.json" parameters)"
}
# A server of a model, and its end. Who serves says `trap '[ -z "$server" ] || kill "$server"' EXIT`.
server=
serve_model() { # MODEL ARGUMENTS...
    launcher --mode tp-cpu --checkpoint "$1" --serve 127.0.0.1:0 --quiet --no-bind --overwrite --out served "${@:2}" >serve.log 2>&1 &
    server=$!
    for _ in $(seq 600); do
        [ ! -s served/serve.url ] || break
        kill -0 "$server" || fail "the server ended: $(cat serve.log)"
        sleep 0.1
    done
}
end() {
    kill "$server"
    wait "$server" || fail "the server ended with $?: $(cat serve.log)"
    server=
}
