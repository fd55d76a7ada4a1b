#!/usr/bin/env bash
# Runs the GPU tests from a bundle of ./dev gpu-bundle, on a machine that needs neither our packages
# nor a network. docs/GPU.md says what each phase does.
set -uo pipefail

self=$(realpath "$0")
here=$(dirname "$self")
phases=(parity compute-sanitizer gate nccl several faults speed torch profile)
declare -A limits=([parity]=90 [compute-sanitizer]=125 [gate]=20 [nccl]=300 [several]=240 [faults]=190 [speed]=340 [torch]=500 [profile]=150)
skipped=77 no_gpu=9

for file in common correct several faults speed torch profile report; do
    source "$here/phases/$file.sh"
done

usage() {
    cat <<'END'
Usage: tests/gpu/run.sh [OPTION]... [PHASE]...

Phases: parity compute-sanitizer gate nccl several faults speed torch profile (all of them). Three calls
of less than 9 minutes each, and on several GPUs a fourth:
  tests/gpu/run.sh --out results parity compute-sanitizer gate nccl
  tests/gpu/run.sh --out results faults speed
  tests/gpu/run.sh --out results torch profile
  tests/gpu/run.sh --out results several

  --bundle FILE    of ./dev gpu-bundle (build/gpu/bundle.tar.gz)
  --out DIR        for gpu-results.json and gpu-results.md, written anew after each phase, and log/.
                   They keep what earlier calls with the same DIR have found (.)
  --limit SECONDS  for each phase, in place of its own
  --only REGEX     of each phase, the parts alone whose words match; what the phase found before
                   goes. parity's cases and gate have no parts, and run
  --tiny           small shapes and few steps, to try the script itself: its figures mean nothing
  --rebuild        compile the plugin anew, from the sources that this script lies in
  --help           this text

Exits with 1 if a phase failed, 2 if it was called wrongly. A phase without a GPU is skipped.
END
}

# Ends what a phase has left running of the bundle's programs, so that the next one has the GPU.
end_left() {
    local program left=0
    while read -r program; do
        program=${program#/proc/}
        kill -KILL "${program%/exe}" && left=$((left + 1))
    done < <(find /proc -maxdepth 2 -path '/proc/[0-9]*/exe' -lname "$bundle/*") 2>/dev/null
    [ "$left" -eq 0 ] || echo "run.sh: ended $left processes that $1 had left" >&2
}

run_phase() { # NAME; the return value: whether it failed
    local name=$1 seconds=${limit:-${limits[$1]}} status=0 word begun=$SECONDS
    rm -f "$work/$name".* "$out/phases/$name.figures"
    begun_json "$name" 0
    timeout --kill-after=15 "$seconds" bash "$self" --phase "$name" "$work" "$bundle" \
        >"$out/log/$name.log" 2>&1 &
    running=$!
    wait "$running" || status=$?
    running=""
    end_left "$name"
    [ -s "$work/$name.reason" ] || grep -v '^ *$' "$out/log/$name.log" | tail -1 >"$work/$name.reason"
    case $status in
    0) word=passed && echo "${only:+only what matches $only}" >"$work/$name.reason" ;;
    "$skipped" | "$no_gpu") word=skipped ;;
    # 137: it had to be killed. bash can lose a trap whose signal comes while it reads a "$( )", and goes on then.
    124 | 137) word=failed && status=124 && tell_late "$name" "$seconds" ;;
    *) word=failed ;;
    esac
    keep_json "$name" "$word" "$status" $((SECONDS - begun)) "$(tail -1 "$work/$name.reason")"
    printf '%-18s %-8s %s\n' "$name" "$word" "$(tail -1 "$work/$name.reason")"
    write_results
    [ "$word" != failed ]
}

# What has failed before the phase's time was over is told, too.
tell_late() { # NAME SECONDS
    local late="no end after $2 s"
    [ ! -s "$work/$1.parts" ] || late="$late; before that $(join_parts "$1")"
    echo "$late" >"$work/$1.reason"
}

# ---- the two ways in ----

phase_main() { # NAME WORK BUNDLE: under timeout
    phase=$1 work=$2 bundle=$3 bin=$3/bin plugin=$3/lib/ringfence/ringfence-cuda.so
    # timeout has a process group of its own, so it does not hear that the phase has to end.
    trap '[ -z "${running-}" ] || { kill "$running"; wait "$running"; }; exit 143' TERM
    "phase_${phase//-/_}"
}

part_main() { # PHASE WORK BUNDLE FUNCTION ARGUMENTS...: of a phase that has begun
    phase=$1 work=$2 bundle=$3 bin=$3/bin plugin=$3/lib/ringfence/ringfence-cuda.so has_gpu=yes
    shift 3
    "$@"
}

# Where Python's packages lie, among them NCCL and cublasLt for PyTorch.
python_packages() {
    python3 - 2>/dev/null <<'END'
import importlib.util, os, sysconfig
print(sysconfig.get_paths()["purelib"])
torch = importlib.util.find_spec("torch")
if torch is not None and torch.origin is not None:
    print(os.path.dirname(os.path.dirname(torch.origin)))
END
}

# CUDA's libraries, where the loader looks: cuda/ beside rank. The driver's may be known to
# LD_LIBRARY_PATH alone, which rank does not follow. NCCL needs libnvidia-ml, too.
link_cuda() {
    local from places name
    mkdir -p "$bundle/bin/cuda"
    while read -r from; do
        find -L "$from/nvidia" \( -name 'libcublasLt.so.1[23]' -o -name 'libnccl.so.2' -o -name 'libcupti.so.13' \) \
            -exec ln -sf -t "$bundle/bin/cuda" {} + 2>/dev/null
    done < <(python_packages | sort -u)
    IFS=: read -ra places <<<"${LD_LIBRARY_PATH-}"
    for from in "${places[@]}"; do
        for name in libcuda.so.1 libnvidia-ml.so.1; do
            [ ! -e "$from/$name" ] || ln -sf -t "$bundle/bin/cuda" "$(realpath "$from")/$name"
        done
    done
    cat "$bundle"/bin/cuda/*.so* >/dev/null 2>&1 # limits are not for reading them from the disk
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

check_regex() {
    local status=0
    [[ x =~ $only ]] 2>/dev/null || status=$?
    [ "$status" -lt 2 ] || die "--only: $only is no regular expression"
}

main() {
    local wanted=() name failed=0
    archive=$here/../../build/gpu/bundle.tar.gz out=. limit="" only="" anew="" tiny="" running=""
    while [ $# -gt 0 ]; do
        case $1 in
        --bundle) archive=${2-} && shift ;;
        --out) out=${2-} && shift ;;
        --limit) limit=${2-} && shift ;;
        --only) only=${2-} && shift && check_regex ;;
        --only=*) only=${1#--only=} && check_regex ;;
        --rebuild) anew=yes ;;
        --tiny) tiny=yes ;;
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
    work=$(realpath "$work") bundle=$work/bundle
    trap 'end_left "the script"; rm -rf "$work"' EXIT
    trap 'cut_off' TERM INT HUP
    { mkdir -p "$out" && out=$(realpath "$out") && unpack_results && mkdir -p "$out/log" "$out/phases"; } ||
        die "cannot write to $out"
    export out tiny only
    tar -xzf "$archive" -C "$work" || die "$archive cannot be unpacked"
    [ -z "$anew" ] || rebuild >"$out/log/rebuild.log" 2>&1 ||
        die "the plugin cannot be built: $(tail -1 "$out/log/rebuild.log")"
    "$bundle/bin/launcher" --version >/dev/null || die "the bundle's programs do not run here"
    link_cuda
    "$bundle/bin/launcher" gpus 2>&1 | head -2 | tr -s ' \n' ' ' >"$work/gpus"
    for name in "${wanted[@]-${phases[@]}}"; do
        run_phase "$name" || failed=1
    done
    pack_results
    cat "$out/gpu-results.md"
    exit "$failed"
}

# The script has to end: so does the phase, and what it has found so far is written.
cut_off() {
    [ -z "$running" ] || { kill "$running"; wait "$running"; }
    write_results
    pack_results
    exit 143
}

# All of an OUT in one file. An OUT that has this file alone goes on where it ended.
pack_results() { tar -czf "$out/gpu-results.tar.gz" -C "$out" phases log gpu-results.json gpu-results.md; }
unpack_results() {
    [ -e "$out/phases" ] || [ ! -e "$out/gpu-results.tar.gz" ] || tar -xzf "$out/gpu-results.tar.gz" -C "$out"
}

case ${1-} in
--phase) phase_main "${@:2}" ;;
--part) part_main "${@:2}" ;;
*) main "$@" ;;
esac
