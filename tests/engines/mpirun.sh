#!/bin/sh
# Jobs under mpirun of MPICH (PMI-1) and of Open MPI (PMIx), on two hosts. Called by ctest with the
# programs' directory and mpich or openmpi. docs/DEPLOY.md has the same commands.
# shellcheck disable=SC1091,SC2154
. "$(dirname "$0")/common.sh"
kind=$2

case $kind in
mpich)
    command -v mpiexec.hydra >/dev/null || skip "no mpiexec.hydra (Debian: mpich)"
    by=PMI-1
    passes=
    engine=mpiexec.hydra
    # By mpirun, which ends the head at once; or the head's proxy, which it tells so, finds that mpirun has gone already. Its
    # code is that of what it has heard last.
    lost="RUNNING AT host-1\|HYD_pmcd_pmip_control_cmd_cb"
    lost_code=any
    mpirun() {
        on 0 mpiexec.hydra -launcher rsh -launcher-exec "$dir/remote" -hosts host-0,host-1 -ppn 1 "$@"
    }
    here() {
        on 0 mpiexec.hydra "$@"
    }
    ;;
openmpi)
    command -v mpirun.openmpi >/dev/null || skip "no mpirun.openmpi (Debian: openmpi-bin)"
    ldconfig -p | grep -q 'libpmix\.so\.2 ' || skip "no libpmix.so.2 (Debian: libpmix2)"
    by=PMIx
    passes="-x MASTER_ADDR"
    engine=mpirun.openmpi
    lost="host host-1 (node 1) is lost\|on node host-1" # by the head, or by mpirun if that is faster
    lost_code=137
    mpirun() {
        on 0 mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent "$dir/remote" \
            --host host-0,host-1 --map-by node "$@"
    }
    here() {
        on 0 mpirun.openmpi --allow-run-as-root --oversubscribe "$@"
    }
    ;;
esac

make_hosts
train_alone
trains "$kind" "$by" mpirun -n 2
programs "$kind" mpirun -n 2
gated "$kind" mpirun -n 2
if [ $by = PMI-1 ]; then
    adds_up "$kind" mpirun -n 2
fi
# shellcheck disable=SC2086
meets "$kind" mpirun -n 2 $passes
leaves_a_fence "$kind: a signal in a fence" here -n 2
killed_at_random "$kind" "$engine" mpirun -n 2
killed_at_random "$kind on one host" "$engine" here -n 2
ends "$kind: a rank dies" rank 137 "rank 1 .*was ended by SIGKILL .*host host-1, node 1" mpirun -n 2
ends "$kind: a launcher dies" launcher "$lost_code" "$lost" mpirun -n 2
finish
