#!/bin/sh
# Jobs under Slurm: two slurmd and one slurmctld of this script's own, on this machine, without
# systemd or control groups. Called by ctest with the programs' directory. docs/DEPLOY.md has the
# same commands.
# shellcheck disable=SC1091,SC2154
. "$(dirname "$0")/common.sh"

for tool in munged slurmctld slurmd srun sbatch scancel scontrol sinfo ss; do
    command -v $tool >/dev/null || skip "no $tool (Debian: slurm-wlm munge iproute2)"
done
[ "$(id -u)" = 0 ] || skip "slurmd needs root"

# Three ports on which nobody listens now.
free_ports() {
    port=$((20000 + $$ % 10000))
    found=0
    while [ $found -lt 3 ]; do
        if [ -z "$(ss -ltnH "sport = :$port")" ]; then
            echo $port
            found=$((found + 1))
        fi
        port=$((port + 1))
    done
}

start_slurm() {
    host=$(hostname -s)
    mkdir "$dir/state" "$dir/log"
    dd if=/dev/urandom of="$dir/munge.key" bs=128 count=1 2>/dev/null
    chmod 600 "$dir/munge.key"
    munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.sock" \
        --pid-file="$dir/munge.pid" --log-file="$dir/log/munged" --seed-file="$dir/munge.seed" \
        --num-threads 1 >/dev/null 2>&1 &
    daemons=$!
    # shellcheck disable=SC2046
    set -- $(free_ports)
    cat >"$dir/slurm.conf" <<END
ClusterName=ringfence
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$1
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock
CredType=cred/munge
MpiDefault=none
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld
SlurmdLogFile=$dir/log/slurmd-%n
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
ReturnToService=2
KillWait=20
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$2 CPUs=2
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$3 CPUs=2
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:8
END
    export SLURM_CONF="$dir/slurm.conf"
    until_within 60 test -S "$dir/munge.sock" || skip "munged does not start"
    slurmctld -D >/dev/null 2>&1 &
    daemons="$daemons $!"
    slurmd -D -N n1 >/dev/null 2>&1 &
    daemons="$daemons $!"
    slurmd -D -N n2 >/dev/null 2>&1 &
    slurmd2=$!
    daemons="$daemons $slurmd2"
    until_within 60 two_idle || skip "slurmctld and slurmd do not start here"
}

two_idle() {
    [ "$(sinfo -h -o '%D %t' 2>/dev/null)" = "2 idle" ]
}

gone() {
    [ -z "$(squeue -h 2>/dev/null)" ]
}

queued_again() {
    [ "$(squeue -h -o %t)" = PD ]
}

no_file() {
    if [ -z "$(ls "$HOME/.ringfence")" ]; then
        ok "$1: no file is left to meet by"
    else
        fail "$1: files are left to meet by: $(ls "$HOME/.ringfence")"
    fi
}

# A script as DEPLOY.md has it.
submit() {
    cat >"$dir/job.sbatch" <<END
#!/bin/sh
#SBATCH --nodes 2 --ntasks-per-node 1
#SBATCH --signal=USR1@60
srun --kill-on-bad-exit launcher --steps 1000000 $small --out batch
END
    : >"$dir/said"
    job=$(cd work && sbatch --parsable --output "$dir/said" "$dir/job.sbatch")
}

runs() {
    submit
    until_within 20 says "^step 1/" || fail "sbatch: it does not run"
}

stopped_politely() {
    until_within 20 gone || fail "$1: the job does not end"
    if grep -q "\"message\": \"stopped by $2 after step" work/batch/manifest.json &&
        [ -f work/batch/state-rank-1.safetensors ]; then
        ok "$1: states and record are saved"
    else
        fail "$1: no record of a job stopped by $2"
    fi
    assert_none_left "$1"
    no_file "$1"
}

start_slurm
train_alone
trains srun srun srun --mpi=none -N 2
no_file srun
trains pmi2 "PMI-1, in a job of Slurm" srun --mpi=pmi2 -N 2
if srun -N 1 --mpi=pmix true 2>/dev/null; then # two nodes of one host are too many for it
    trains pmix "PMIx, in a job of Slurm" srun --mpi=pmix -N 1 -n 2 --overcommit
else
    echo "NOT CHECKED: srun --mpi=pmix, because Slurm finds no libpmix.so (Debian: libpmix-dev)"
fi
programs srun srun --mpi=none -N 2
adds_up pmi2 srun --mpi=pmi2 -N 2
MASTER_PORT=$(free_ports | head -n 1)
export MASTER_PORT
meets srun srun --mpi=none -N 2
unset MASTER_PORT

runs
scancel "$job"
stopped_politely scancel SIGTERM
runs
scancel --signal=USR1 "$job.0"
stopped_politely "a signal before the time limit" SIGUSR1

# --kill-on-bad-exit would end the others; the head must still come to its record
starts srun --kill-on-bad-exit -N 2
until_within 20 says "^step 1/" || fail "srun: it does not run"
# shellcheck disable=SC2046
kill -9 $(left rank | tail -n 1) || fail "a rank dies: there is none"
wait $!
got=$?
if [ $got = 137 ] && says "was ended by SIGKILL .*\[host " &&
    grep -q '"exit_status": 137' work/long/manifest.json; then
    ok "a rank dies: it is named, in the record too"
else
    fail "a rank dies: it is not named, or the exit code is $got"
fi
assert_none_left "a rank dies"

runs
scontrol update NodeName=n2 State=DOWN Reason=test
if until_within 20 queued_again; then
    ok "a node is taken down: the job is queued again"
else
    fail "a node is taken down: the job is not queued again"
fi
scancel "$job"
assert_none_left "a node is taken down"
scontrol update NodeName=n2 State=RESUME 2>/dev/null # Slurm may have done so already
until_within 60 two_idle || fail "n2 does not come back"

# a killed srun leaves its step to Slurm, which ends it after InactiveLimit
killed_at_random srun launcher srun --mpi=none -N 2
if (cd work && srun -N 2 launcher --mode gate-check --max-restarts 1) >"$dir/said" 2>&1; then
    fail "--max-restarts is not refused"
elif says "max-restarts .*requeue"; then
    ok "--max-restarts is refused, and says how Slurm does it"
else
    fail "--max-restarts: not the words"
fi
finish
