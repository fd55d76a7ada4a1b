# What the phases of tests/gpu/run.sh share. Sourced by it. The variables are its own: phase, work,
# bundle, bin, plugin, out, tiny.

# ---- what a phase says: its last words are the reason, its figures go into the results ----

figure() { # NAME NUMBER
    [[ $2 =~ ^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$ ]] || fail "$1 is no number: $2"
    printf '%s %s\n' "$1" "$2" >>"$out/phases/$phase.figures"
}

end() { # STATUS REASON
    printf '%s\n' "$2" >"$work/$phase.reason"
    exit "$1"
}

fail() { end 1 "$*"; }
skip() { end "$skipped" "$*"; }

# Runs it. Without a GPU the phase ends with the program's own exit code and line; another failure
# is the phase's, and so is that code where needs_gpu has seen a GPU.
must() {
    local status=0
    "$@" >"$work/$phase.last" 2>&1 || status=$?
    cat "$work/$phase.last"
    [ "$status" -ne 0 ] || return 0
    local line
    line=$(grep -v '^ *$' "$work/$phase.last" | tail -1)
    if [ "$status" -eq "$no_gpu" ] && [ -z "${has_gpu-}" ]; then
        printf '%s\n' "$line" >"$work/$phase.reason"
        exit "$no_gpu"
    fi
    fail "$(basename "$1") ended with $status: $line"
}

# Runs it. It has to end with this code, and to say this.
must_refuse() { # CODE WORDS COMMAND...
    local code=$1 words=$2 status=0
    shift 2
    "$@" >"$work/$phase.last" 2>&1 || status=$?
    cat "$work/$phase.last"
    [ "$status" -eq "$code" ] || fail "$(basename "$1") ended with $status, not $code: $(tail -1 "$work/$phase.last")"
    grep -qF -- "$words" "$work/$phase.last" || fail "$(basename "$1") did not say: $words"
}

# One of two words: with --tiny the second.
pick() { # FULL TINY
    if [ -n "$tiny" ]; then echo "$2"; else echo "$1"; fi
}

# Runs a function in a shell of its own, for so many seconds at most. Whether it fails or not, the
# phase goes on; end_parts names those that failed. The results have its figures at once.
part() { # SECONDS FUNCTION ARGUMENTS...
    local seconds status=0
    seconds=$(pick "$1" $((5 * $1))) # small shapes are for the emulator
    shift
    [[ "$*" =~ $only ]] || return 0
    parts_run=$((${parts_run-0} + 1))
    echo "== $*"
    rm -f "$work/$phase.reason"
    timeout --kill-after=10 "$seconds" bash "$self" --part "$phase" "$work" "$bundle" "$@" &
    running=$!
    wait "$running" || status=$?
    running=""
    [ "$status" -eq 0 ] || tell_part "$status" "$seconds" "$@" | tee -a "$work/$phase.parts"
    rm -f "$work/$phase.reason"
    begun_json "$phase" "$SECONDS"
    write_results
}

tell_part() { # STATUS SECONDS FUNCTION ARGUMENTS...
    local status=$1 seconds=$2 why
    shift 2
    why=$(tail -1 "$work/$phase.reason" 2>/dev/null)
    case $status in 124 | 137) why="no end after $seconds s" ;; esac
    printf '%s: %s\n' "$*" "${why:-ended with $status}"
}

join_parts() { paste -sd '|' "$work/$1.parts" | sed 's/|/; /g'; } # PHASE

end_parts() {
    [ -z "$only" ] || [ "${parts_run-0}" -gt 0 ] || skip "it has no part that matches $only"
    [ ! -s "$work/$phase.parts" ] || fail "$(join_parts "$phase")"
}

# Takes "NAME NUMBER" lines of what ran last.
take_figures() { # [PREFIX]
    local name value
    while read -r name value; do
        figure "${1-}$name" "$value"
    done < <(grep -E '^[a-z][a-z0-9_]* -?[0-9][0-9.e+-]*$' "$work/$phase.last")
}

# ---- programs ----

# A real budget-service, with 1 dollar that nothing here may spend.
start_service() {
    export BUDGET_SERVICE_DIR=$work/$phase.budget
    local secret=$work/$phase.secret ready=$work/$phase.ready i
    (umask 077 && head -c 24 /dev/urandom | base64 >"$secret")
    must "$bin/budget-service" init --passphrase-file "$secret"
    "$bin/budget-service" serve --passphrase-file "$secret" >"$ready" &
    service=$!
    trap 'kill "$service"; wait "$service"' EXIT
    for ((i = 0; i < 100; i++)); do
        grep -q ready "$ready" && break
        sleep 0.1
    done
    must "$bin/budget-service" account create gpu --cap 1.00
}

# A job on this machine's own GPU: through the gate, with a token of its own.
gpu_job() { "$bin/launcher" "$@" --authorize local --account gpu --quiet; }
train_job() { gpu_job --mode ddp-nccl --no-scaling "$@"; }
answer_job() { gpu_job --mode tp-nccl --ignore-eos "$@"; }
needs_gpu() { must "$bin/launcher" gpus && has_gpu=yes; }
measure() { must "$bin/gpu-measure" "$@"; }

# The same programs with a plugin around the plugin, in the bundle's directory of this name.
install_around() { # NAME
    local around=$bundle/$1
    mkdir -p "$around/bin"
    cp "$bin/launcher" "$bin/rank" "$around/bin/"
    ln -sf "$bundle"/lib/*.so* "$around/lib/"
    ln -sfn "$bundle/share" "$around/share"
    ln -sfn "$bin/cuda" "$around/bin/cuda"
}

manifest_figure() { # FILE KEY: the first such key's number
    sed -n "s/^ *\"$2\": \([0-9.e+-]*\),*\$/\1/p" "$1" | head -1
}

reference_flags() { cat "$bundle/reference/flags"; }
reference_steps() { sed 's/.*--steps \([0-9]*\).*/\1/' "$bundle/reference/flags"; }

# Whether this mode has this precision; not all have all.
takes_precision() { # MODE PRECISION FLAGS...
    "$bin/launcher" --mode "$1" --ranks 1 --precision "$2" "${@:3}" --write-job "$work/precision.json" >/dev/null 2>&1
}

# ---- GPT-2, drawn by seed ----

# A directory with room for so many GB of files: memory if there is enough of it, else the disk.
roomy() { # GB
    local place
    for place in /dev/shm "$work"; do
        [ "$(df -Pk "$place" 2>/dev/null | awk 'NR == 2 { print int($4 / 1048576) }')" -ge "$(pick "$1" 0)" ] || continue
        mktemp -d "$place/ringfence-gpu.XXXXXX" && return
    done
    return 1
}

# Data whose sentences have 1024 tokens, and a checkpoint with GPT-2's vocabulary of this shape, in
# $drawn. It goes when the phase or part ends.
draw_gpt2() { # GB SHAPE...
    drawn=$(roomy "$1") || fail "there is no room for a checkpoint of $1 GB"
    trap 'rm -rf "$drawn"; [ -z "${service-}" ] || { kill "$service"; wait "$service"; }' EXIT
    shift
    local tokens
    tokens=$(pick 1024 64)
    measure data "$bundle/share/ringfence/tokenizer.json" "$drawn" "$tokens"
    [ -z "$tiny" ] || set -- --vocab-size 30000 --width 32 --layers 1 --heads 2 --context "$tokens"
    must "$bin/random-checkpoint" "$drawn" "$drawn/tokenizer.json" "$@"
}
