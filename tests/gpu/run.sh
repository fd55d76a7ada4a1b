#!/usr/bin/env bash
# Runs the GPU tests from a bundle of ./dev gpu-bundle, on a machine that needs neither our packages
# nor a network. docs/GPU.md says what each phase does.
set -uo pipefail

self=$(realpath "$0")
here=$(dirname "$self")
phases=(parity compute-sanitizer gate nccl faults speed torch)
declare -A limits=([parity]=60 [compute-sanitizer]=60 [gate]=20 [nccl]=150 [faults]=120 [speed]=390 [torch]=480)
skipped=77 no_gpu=9

for file in common correct faults speed torch report; do
    source "$here/phases/$file.sh"
done

usage() {
    cat <<'END'
Usage: tests/gpu/run.sh [OPTION]... [PHASE]...

Phases: parity compute-sanitizer gate nccl faults speed torch (all of them). Three calls of less than
9 minutes each:
  tests/gpu/run.sh --out results parity compute-sanitizer gate nccl
  tests/gpu/run.sh --out results faults speed
  tests/gpu/run.sh --out results torch

  --bundle FILE    of ./dev gpu-bundle (build/gpu/bundle.tar.gz)
  --out DIR        for gpu-results.json and gpu-results.md, written anew after each phase, and log/.
                   They keep what earlier calls with the same DIR have found (.)
  --limit SECONDS  for each phase, in place of its own
  --rebuild        compile the plugin anew, from the sources that this script lies in
  --help           this text

Exits with 1 if a phase failed, 2 if it was called wrongly. A phase without a GPU is skipped.
END
}

run_phase() { # NAME; the return value: whether it failed
    local name=$1 seconds=${limit:-${limits[$1]}} status=0 word begun=$SECONDS
    rm -f "$work/$name".*
    rm -f "$out/phases/$name.figures"
    timeout --kill-after=10 "$seconds" bash "$self" --phase "$name" "$work" "$bundle" \
        >"$out/log/$name.log" 2>&1 || status=$?
    [ -s "$work/$name.reason" ] || tail -1 "$out/log/$name.log" >"$work/$name.reason"
    case $status in
    0) word=passed && : >"$work/$name.reason" ;;
    "$skipped" | "$no_gpu") word=skipped ;;
    124 | 137) word=failed && echo "no end after $seconds s" >"$work/$name.reason" ;;
    *) word=failed ;;
    esac
    ! [ -e "$work/$name.figures" ] || cp "$work/$name.figures" "$out/phases/"
    phase_json "$name" "$word" "$status" $((SECONDS - begun)) >"$out/phases/$name.json"
    printf '%-18s %-8s %s\n' "$name" "$word" "$(tail -1 "$work/$name.reason")"
    write_results
    [ "$word" != failed ]
}

# ---- the two ways in ----

phase_main() { # NAME WORK BUNDLE: under timeout
    phase=$1 work=$2 bundle=$3 bin=$3/bin plugin=$3/lib/ringfence/ringfence-cuda.so
    unset LD_LIBRARY_PATH # rank takes CUDA's libraries from where it looks itself
    # timeout has a process group of its own, so it does not hear that the phase has to end.
    trap '[ -z "${running-}" ] || { kill "$running"; wait "$running"; }; exit 143' TERM
    "phase_${phase//-/_}"
}

part_main() { # PHASE WORK BUNDLE FUNCTION ARGUMENTS...: of a phase that has begun
    phase=$1 work=$2 bundle=$3 bin=$3/bin plugin=$3/lib/ringfence/ringfence-cuda.so has_gpu=yes
    shift 3
    "$@"
}

# NCCL and cublasLt as PyTorch's environment has them, where the loader looks: cuda/ beside rank.
link_cuda() {
    local from
    mkdir -p "$bundle/bin/cuda"
    from=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null) || return 0
    find "$from/nvidia" \( -name 'libcublasLt.so.1[23]' -o -name 'libnccl.so.2' \) \
        -exec ln -sf -t "$bundle/bin/cuda" {} + 2>/dev/null
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
        --help | -h) usage && exit ;;
        -*) usage >&2 && exit 2 ;;
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
    cat "$out/gpu-results.md"
    exit "$failed"
}

case ${1-} in
--phase) phase_main "${@:2}" ;;
--part) part_main "${@:2}" ;;
*) main "$@" ;;
esac
