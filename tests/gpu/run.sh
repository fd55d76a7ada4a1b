#!/usr/bin/env bash
# Runs the GPU tests from a bundle of ./dev gpu-bundle, on a machine that needs neither our packages
# nor a network. docs/GPU.md says what each phase does.
#   tests/gpu/run.sh [--bundle FILE] [--out DIR] [--limit SECONDS] [--rebuild] [PHASE...]
# --rebuild compiles the plugin anew, from the sources that this script lies in.
# Each phase runs under timeout. DIR/gpu-results.json is written anew after each one, and keeps what
# earlier calls with the same DIR have found. Exits with 1 if a phase failed.
set -uo pipefail

self=$(realpath "$0")
here=$(dirname "$self")
phases=(parity compute-sanitizer gate nccl faults speed torch)
declare -A limits=([parity]=60 [compute-sanitizer]=60 [gate]=20 [nccl]=70 [faults]=60 [speed]=70 [torch]=150)
skipped=77 no_gpu=9

# ---- what a phase says: its last words are the reason, its figures go into the results ----

figure() { # NAME NUMBER
    [[ $2 =~ ^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$ ]] || fail "$1 is no number: $2"
    printf '%s %s\n' "$1" "$2" >>"$work/$phase.figures"
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

# ---- what phases share ----

# NCCL and cublasLt as PyTorch's environment has them, where the loader looks: cuda/ beside rank.
link_cuda() {
    local from
    mkdir -p "$bundle/bin/cuda"
    from=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null) || return 0
    find "$from/nvidia" \( -name 'libcublasLt.so.1[23]' -o -name 'libnccl.so.2' \) \
        -exec ln -sf -t "$bundle/bin/cuda" {} + 2>/dev/null
}

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
gpu_job() { "$bin/launcher" "$@" --authorize local --account gpu --no-scaling --no-plots --quiet; }
needs_gpu() { must "$bin/launcher" gpus && has_gpu=yes; }

# The losses of the first steps of a record, one a line.
losses() { # DIRECTORY STEPS
    sed -n 's/^{"step": \([0-9]*\), "rank": 0, .*"loss_global": \([^,]*\),.*/\1 \2/p' "$1/timings.jsonl" |
        sort -n | awk -v steps="$2" '$1 < steps { print $2 }'
}

# The largest relative difference of two curves. They have to be as long as they should.
curve_difference() { # DIRECTORY STEPS
    paste <(losses "$bundle/reference" "$2") <(losses "$1" "$2") |
        awk -v steps="$2" 'NF == 2 { n++; d = ($1 - $2) / $1; d = d < 0 ? -d : d; most = d > most ? d : most }
            END { if (n != steps) exit 1; printf "%.3g\n", most }'
}

check_curve() { # FIGURE DIRECTORY STEPS
    local difference
    difference=$(curve_difference "$2" "$3") || fail "$2 does not have $3 losses"
    figure "$1" "$difference"
    awk -v d="$difference" 'BEGIN { exit !(d <= 1e-4) }' || fail "$1: losses differ by $difference from the CPU's"
}

# A process of the bundle's rank program.
rank_pid() {
    local process
    for process in /proc/[0-9]*; do
        [ "$process/exe" -ef "$bin/rank" ] && echo "${process#/proc/}" && return
    done
    return 1
}

manifest_figure() { # FILE KEY: the first such key's number
    sed -n "s/^ *\"$2\": \([0-9.e+-]*\),*\$/\1/p" "$1" | head -1
}

reference_flags() { cat "$bundle/reference/flags"; }
reference_steps() { sed 's/.*--steps \([0-9]*\).*/\1/' "$bundle/reference/flags"; }

# ---- the phases ----

phase_parity() {
    local status=0
    needs_gpu
    "$bin/gpu-parity" "$plugin" >"$work/parity.last" 2>&1 || status=$?
    cat "$work/parity.last"
    [ "$status" -eq 0 ] || fail "$(grep -m1 'FAILED' "$work/parity.last" || tail -1 "$work/parity.last")"
    figure cases "$(grep -c '^\[       OK' "$work/parity.last")"
}

phase_compute_sanitizer() {
    local tool kind
    needs_gpu
    tool=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) || skip "there is no compute-sanitizer"
    for kind in memcheck racecheck; do
        must "$tool" --tool "$kind" --error-exitcode 86 "$bin/gpu-parity" "$plugin" layernorm \
            layernorm_grad embed product_packed product_leaves attention attention_cached cross_entropy \
            optimizer
    done
}

# No GPU is needed: whoever has no right to it is refused before anything is touched.
phase_gate() {
    start_service
    must_refuse 6 "needs a token" "$bin/launcher" --mode ddp-nccl --ranks 1 --out "$work/none"
    must "$bin/launcher" --mode gate-check --ranks 2 --authorize local --account gpu
    must "$bin/launcher" --mode gate-check --ranks 2 --write-job "$work/gate.json"
    must "$bin/launcher" --mode gate-check --ranks 1 --write-job "$work/other.json"
    must "$bin/budget-service" authorize once 0 --vendor local --account gpu --job "$work/gate.json" \
        --out "$work/once.token"
    must_refuse 6 "token" "$bin/launcher" --job "$work/other.json" --token "$work/once.token"
    must "$bin/launcher" --job "$work/gate.json" --token "$work/once.token"
    must_refuse 6 "token" "$bin/launcher" --job "$work/gate.json" --token "$work/once.token"
}

phase_nccl() {
    local steps few
    steps=$(reference_steps)
    few=$((steps < 20 ? steps : 20)) # all that two ranks on one GPU may do
    needs_gpu
    start_service
    must gpu_job --mode ddp-nccl --ranks 1 $(reference_flags) --out "$work/one"
    check_curve curve_difference "$work/one" "$steps"
    must gpu_job --mode ddp-nccl --ranks 1 $(reference_flags) --exact --out "$work/exact"
    check_curve exact_curve_difference "$work/exact" "$steps"
    # Half the micro-batches on each of two ranks: a test arrangement, both on one GPU, never timed.
    must gpu_job --mode ddp-nccl --ranks 2 --share-gpu $(reference_flags) --micro-batches 1 --steps $few \
        --out "$work/two"
    check_curve two_ranks_curve_difference "$work/two" "$few"
    must gpu_job --mode tp-nccl --ranks 1 --checkpoint "$bundle/reference" --ignore-eos --max-new-tokens 16 \
        --prompts "$bundle/share/ringfence/prompts.txt" --out "$work/answers"
    must "$bin/coll-bench" all_reduce --transport nccl --ranks 1 -b 4 -e 64M -f 16 -- --account gpu
}

# A rank that is killed, and one that stands still, end the job with a named cause; and the GPU is
# free again.
phase_faults() {
    needs_gpu
    start_service
    local free_before free_after signal pid launcher status
    free_before=$("$bin/launcher" gpus --json | manifest_figure /dev/stdin memory_free_bytes)
    for signal in KILL STOP; do
        # Enough work that it is under way for seconds, once NCCL has begun and the ranks have said so.
        "$bin/launcher" --authorize local --account gpu --no-plots --mode ddp-nccl --ranks 2 --share-gpu \
            $(reference_flags) --micro-batches 256 --steps 20 --timeout 5 --out "$work/$signal" >"$work/faults.last" 2>&1 &
        launcher=$!
        pid=""
        while kill -0 "$launcher" 2>/dev/null && [ -z "$pid" ]; do
            { grep -q 'rank 1: .*GPU-' "$work/faults.last" && pid=$(rank_pid); } || sleep 0.1
        done
        [ -n "$pid" ] || fail "there was no rank to send SIG$signal to: $(tail -1 "$work/faults.last")"
        kill "-$signal" "$pid"
        status=0
        wait "$launcher" || status=$?
        cat "$work/faults.last"
        [ "$status" -ne 0 ] || fail "the job went on without the rank that got SIG$signal"
        grep -q 'rank [01]' "$work/faults.last" || fail "no rank is named after SIG$signal"
        figure "exit_after_SIG$signal" "$status"
    done
    free_after=$("$bin/launcher" gpus --json | manifest_figure /dev/stdin memory_free_bytes)
    figure memory_lost_bytes $((free_before - free_after))
    [ $((free_before - free_after)) -le $((64 << 20)) ] || fail "the GPU's memory is not free again"
}

phase_speed() {
    needs_gpu
    start_service
    must gpu_job --mode ddp-nccl --ranks 1 --steps 500 --out "$work/speed"
    figure minigpt_tokens_per_sec "$(manifest_figure "$work/speed/manifest.json" tokens_per_sec_1proc)"
    must "$bin/coll-bench" all_reduce --transport nccl --ranks 1 -b 4 -e 1G -f 8 -- --account gpu
}

phase_torch() {
    needs_gpu
    python3 -c 'import torch' 2>/dev/null || skip "python3 here has no torch"
    must python3 "$here/torch_peer.py" --model "$here/../peers/train_torch.py"
    while read -r name value; do
        figure "$name" "$value"
    done < <(grep -E '^[a-z_]+ [0-9.]+$' "$work/torch.last")
}

# ---- results ----

json_text() {
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    printf '"%s"' "$(tr -d '\000-\037' <<<"$text")"
}

phase_json() { # NAME STATUS CODE SECONDS
    local name value comma=""
    printf '{"phase": "%s", "status": "%s", "exit_code": %d, "seconds": %d, "reason": ' "$1" "$2" "$3" "$4"
    json_text "$(tail -1 "$work/$1.reason" 2>/dev/null)"
    printf ', "figures": {'
    while read -r name value; do
        printf '%s"%s": %s' "$comma" "$name" "$value"
        comma=", "
    done < <(cat "$work/$1.figures" 2>/dev/null)
    printf '}}\n'
}

write_results() {
    local name comma="" gpus
    gpus=$("$bundle/bin/launcher" gpus 2>&1 | head -2 | tr '\n' ' ')
    {
        printf '{"commit": %s, "date": "%s", "gpus": %s, "phases": [\n' \
            "$(json_text "$(cat "$bundle/commit" 2>/dev/null)")" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(json_text "$gpus")"
        for name in "${phases[@]}"; do
            [ -e "$out/phases/$name.json" ] || continue
            printf '%s' "$comma"
            cat "$out/phases/$name.json"
            comma=", "
        done
        printf ']}\n'
    } >"$out/gpu-results.json.new"
    mv "$out/gpu-results.json.new" "$out/gpu-results.json"
}

run_phase() { # NAME; the return value: whether it failed
    local name=$1 seconds=${limit:-${limits[$1]}} status=0 word begun=$SECONDS
    rm -f "$work/$name".*
    timeout --kill-after=10 "$seconds" bash "$self" --phase "$name" "$work" "$bundle" \
        >"$out/log/$name.log" 2>&1 || status=$?
    [ -s "$work/$name.reason" ] || tail -1 "$out/log/$name.log" >"$work/$name.reason"
    case $status in
    0) word=passed && : >"$work/$name.reason" ;;
    "$skipped" | "$no_gpu") word=skipped ;;
    124 | 137) word=failed && echo "no end after $seconds s" >"$work/$name.reason" ;;
    *) word=failed ;;
    esac
    phase_json "$name" "$word" "$status" $((SECONDS - begun)) >"$out/phases/$name.json"
    printf '%-18s %-8s %s\n' "$name" "$word" "$(tail -1 "$work/$name.reason")"
    write_results
    [ "$word" != failed ]
}

# ---- the two ways in ----

phase_main() { # NAME WORK BUNDLE: under timeout
    phase=$1 work=$2 bundle=$3 bin=$3/bin plugin=$3/lib/ringfence/ringfence-cuda.so
    unset LD_LIBRARY_PATH # rank takes CUDA's libraries from where it looks itself
    "phase_${phase//-/_}"
}

rebuild() {
    PATH=$PATH:/usr/local/cuda/bin cmake -S "$here/bundle" -B "$work/rebuild" \
        -DRINGFENCE_BUNDLE="$bundle" -DRINGFENCE_SOURCE="$(realpath "$here/../..")" &&
        PATH=$PATH:/usr/local/cuda/bin cmake --build "$work/rebuild" --parallel &&
        cp "$work/rebuild/lib/ringfence/ringfence-cuda.so" "$bundle/lib/ringfence/"
}

die() {
    printf 'run.sh: %s\n' "$*" >&2
    exit 2
}

main() {
    local wanted=() name failed=0
    archive=$here/../../build/gpu/bundle.tar.gz out=. limit="" anew=""
    while [ $# -gt 0 ]; do
        case $1 in
        --bundle) archive=${2-} && shift ;;
        --out) out=${2-} && shift ;;
        --limit) limit=${2-} && shift ;;
        --rebuild) anew=yes ;;
        -*) die "it takes --bundle FILE, --out DIR, --limit SECONDS, --rebuild and phases: ${phases[*]}" ;;
        *)
            [ -n "${limits[$1]-}" ] || die "there is no phase $1 (there are: ${phases[*]})"
            wanted+=("$1")
            ;;
        esac
        shift
    done
    [ -r "$archive" ] || die "there is no $archive: ./dev gpu-bundle makes it"
    work=$(mktemp -d "${TMPDIR:-/tmp}/ringfence-gpu.XXXXXX") || die "no temporary directory"
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$out/log" "$out/phases" || die "cannot write to $out"
    out=$(realpath "$out")
    tar -xzf "$archive" -C "$work" || die "$archive cannot be unpacked"
    bundle=$work/bundle
    [ -z "$anew" ] || rebuild >"$out/log/rebuild.log" 2>&1 ||
        die "the plugin cannot be built: $(tail -1 "$out/log/rebuild.log")"
    "$bundle/bin/launcher" --version >/dev/null || die "the bundle's programs do not run here"
    link_cuda
    for name in "${wanted[@]-${phases[@]}}"; do
        run_phase "$name" || failed=1
    done
    exit "$failed"
}

if [ "${1-}" = --phase ]; then
    phase_main "${@:2}"
else
    main "$@"
fi
