#!/bin/sh
# Runs a job on a rented instance, and brings its record back: the command for budget-service rent, which sets the variables below.
#   budget-service rent TOKEN ... -- on-instance.sh [-i KEY] [--root DIR] JOB.json [-- FLAGS]
# JOB.json is that of the token, FLAGS are for the launcher there (--quiet, --no-scaling). KEY is the secret key for ssh; without it ssh
# looks for one. DIR is the --root that JOB.json was written with. The exit code is the job's.
# The instance gets the programs of the launcher in $PATH, the job's files at the paths that they have here, the token and its receipts:
# it cannot reach the budget service, and gets no key that could ask for money. The record comes to the job's --out here.
# Ctrl-C is passed on to the launcher there. Needs ssh, jq and GNU tar here; there a glibc as new as this one's, and for a job on a GPU
# its driver, cublasLt and NCCL.
set -euf

usage() {
    sed -n '3s/^# *//p' "$0" >&2
    exit 2
}

say() { printf 'on-instance: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

key="" root=""
while [ $# -gt 0 ]; do
    case $1 in
    -i) key=${2:?-i takes the file of a key} && shift 2 ;;
    --root) root=$(cd "${2:?--root takes a directory}" && pwd) && shift 2 ;;
    -*) usage ;;
    *) break ;;
    esac
done
[ $# -ge 1 ] || usage
job=$1
shift
[ $# -eq 0 ] || [ "$1" = -- ] || usage
[ $# -eq 0 ] || shift
rent=${RINGFENCE_RENT_DIR:?budget-service rent sets it: give it this script as its command}
at=${RINGFENCE_USER:?budget-service rent sets it}@${RINGFENCE_HOST:?budget-service rent sets it}
port=${RINGFENCE_PORT:?budget-service rent sets it}
for program in launcher budget-service ssh tar jq; do
    command -v "$program" >/dev/null || die "there is no $program in the path here"
done
[ "$(jq '.instances | length' "$rent/instances.json")" = 1 ] ||
    die "this script is for one instance, because instances of most vendors do not reach each other: authorize with --instances 1"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# there COMMAND: on the instance. The host key is taken at first sight, and must be the same from then on.
there() {
    ssh ${key:+-i} ${key:+"$key"} -p "$port" -o BatchMode=yes -o LogLevel=ERROR -o ConnectTimeout=10 \
        -o ServerAliveInterval=15 -o ServerAliveCountMax=8 -o StrictHostKeyChecking=accept-new -o GlobalKnownHostsFile=/dev/null \
        -o UserKnownHostsFile="\"$rent/known_hosts\"" -- "$at" "$1"
}

# named JQ_PATHS: the paths that the job has there, as they are on both hosts.
named() {
    jq -r "[$1][] | select(. != null and . != \"\")" "$job" | while IFS= read -r path; do
        case $path in
        /*) printf '%s\n' "$path" ;;
        *) printf '%s/%s\n' "${root:?the job has paths below the --root that it was written with: give it to this script, too}" "$path" ;;
        esac
    done
}

# of DIRECTORY NAME...: those that are there.
of() {
    directory=$1
    shift
    for name; do
        [ ! -e "$directory/$name" ] || printf '%s\n' "$directory/$name"
    done
}

# job_files: what the job reads.
job_files() {
    named '.data.train, .data.heldout, .data.tokenizer, .infer.prompts'
    named '.model.checkpoint, .model.draft' | while IFS= read -r checkpoint; do
        of "$checkpoint" config.json generation_config.json tokenizer_config.json chat_template.jinja model.safetensors.index.json
        if [ -e "$checkpoint/model.safetensors.index.json" ]; then
            jq -r '.weight_map[]' "$checkpoint/model.safetensors.index.json" | sort -u | sed "s|^|$checkpoint/|"
        else
            printf '%s\n' "$checkpoint/model.safetensors"
        fi
    done
    named '.model.adapter' | while IFS= read -r adapter; do
        of "$adapter" generation_config.json adapter_config.json adapter_model.safetensors
    done
    [ "$(jq '.train.resume // false' "$job")" = false ] || [ ! -d "$out" ] || printf '%s\n' "$out"
}

# pack: all that the job needs, in $scratch/ringfence and $scratch/files.
pack() {
    programs=$(dirname "$(dirname "$(readlink -f "$(command -v launcher)")")")
    "$(dirname "$0")/bundle.sh" "$programs" "$scratch/ringfence" launcher rank
    cp "$job" "$scratch/ringfence/JOB.json"
    job_files >"$scratch/files"
    while IFS= read -r path; do
        [ -r "$path" ] || die "the job names $path, which cannot be read here"
    done <"$scratch/files"
    # A mode that may cost money passes the gate; these do not, and take no token.
    case $(jq -r .job.mode "$job") in
    ddp-cpu | pp-cpu | tp-cpu | generate) gate="" ;;
    *)
        gate="--token token --receipts receipts --keyring keyring.json"
        budget-service redeem "$rent/token" --ranks "$(jq .job.world_size "$job")" --attempt 1 --out "$rent" >&2
        mkdir "$scratch/ringfence/receipts"
        set +f
        cp "$rent"/rank-*.receipt "$rent/job.key" "$scratch/ringfence/receipts/"
        set -f
        cp "$rent/token" "$scratch/ringfence/token"
        cp "${BUDGET_SERVICE_DIR:?budget-service rent sets it}/keyring.json" "$scratch/ringfence/"
        ;;
    esac
    chmod -R go= "$scratch/ringfence"
}

# reach: waits until the instance answers ssh.
reach() {
    say "waiting for ssh at $at, port $port"
    until=$(($(date +%s) + 300))
    until there true </dev/null 2>"$scratch/ssh"; do
        [ "$(date +%s)" -lt "$until" ] ||
            die "$at does not answer ssh at port $port within 300 s: $(tail -n 1 "$scratch/ssh")"
        sleep 1
    done
}

copy_there() {
    say "copying the programs and $(wc -l <"$scratch/files") files of the job"
    tar -C "$scratch" -czf - ringfence | there 'umask 077 && tar -xzf - --no-same-owner' || die "the programs were not copied"
    [ ! -s "$scratch/files" ] || sed 's|^|.|' "$scratch/files" | tar -C / -chzf - -T - |
        there 'tar -C / -xzf - --no-same-owner' || die "the job's files were not copied"
    there 'ringfence/bin/launcher --version' </dev/null >"$scratch/version" 2>&1 ||
        die "the programs do not run there, $(tail -n 1 "$scratch/version"). The image must have $(getconf GNU_LIBC_VERSION), or a newer one"
}

# quoted WORD...: for a shell.
quoted() {
    for word; do
        printf " '%s'" "$(printf '%s\n' "$word" | sed "s/'/'\\\\''/g")"
    done
}

# run FLAGS...: the job, whose output comes as it is made. Sets code.
run() {
    told=yes
    trap 'told=no' INT TERM HUP
    there "cd ringfence && echo \$\$ >pid && exec bin/launcher --job JOB.json $gate ${root:+--root$(quoted "$root")}$(quoted "$@")" \
        </dev/null &
    running=$!
    while :; do # a signal ends wait, and not the job
        code=0
        wait "$running" || code=$?
        while [ "$told" = no ] && kill -0 "$running" 2>/dev/null; do # it may not have begun there yet
            if there "kill -INT \$(cat ringfence/pid)" </dev/null 2>/dev/null; then told=yes; else sleep 1; fi
        done
        kill -0 "$running" 2>/dev/null || break
    done
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    [ "$code" -ne 255 ] || say "ssh has ended with 255: the connection was lost, or the job's exit code is 255"
}

# bring_back: the record. One that is here already is moved, as the launcher does.
bring_back() {
    [ -n "$out" ] || return 0
    there "test -d$(quoted "$out")" </dev/null || {
        say "there is no record of the job at $out there"
        return 0
    }
    rm -rf "$out.part"
    mkdir -p "$out.part"
    there "tar -C$(quoted "$out") -czf - ." </dev/null | tar -C "$out.part" -xzf - --no-same-owner || return 1
    number=1
    while [ -e "$out.$number" ]; do number=$((number + 1)); done
    [ ! -e "$out" ] || mv "$out" "$out.$number" || return 1
    mv "$out.part" "$out" || return 1
    say "record: $out"
}

out=$(named .output.directory)
pack
reach
copy_there
run "$@"
if ! bring_back; then
    say "the record was not copied"
    [ "$code" -ne 0 ] || code=1
fi
exit "$code"
