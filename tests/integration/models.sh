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
refused_changed() { # MODEL WHAT CHANGE: with another config.json
    rm -rf changed
    cp -r "$1" changed
    sed -i "$3" changed/config.json
    launcher --mode tp-cpu --checkpoint changed --prompt hello --quiet --no-bind --out none >out 2>err && fail "not refused: $3"
    grep -q -- "$2" err || fail "not refused with \"$2\", but: $(cat err)"
}
