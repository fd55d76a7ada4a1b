/* Which CPUs a job's ranks run on.
 *
 * A job claims a CPU by binding an abstract Unix socket that is named after the CPU's number. Only
 * one process can have a name, and the kernel releases the name when that process ends, however it
 * ends. So two jobs on one host (one network namespace) never bind to the same CPU, and nothing is
 * left behind. Jobs in other containers are not seen: there ranks are bound only if the container has
 * a part of the machine's CPUs (docker run --cpuset-cpus). One thread. */
#ifndef LAUNCH_AFFINITY_H
#define LAUNCH_AFFINITY_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct launch_affinity {
    int allowed;     /* CPUs this process may run on */
    int quota;       /* CPUs' worth of time the cgroup allows, rounded up; 0: no limit */
    bool bound;      /* cpus is valid: every rank has CPUs of its own */
    int claim_count; /* sockets held */
    int *claims;     /* (claim_count) */
    int *cpus;       /* (ranks × cpus_per_rank) */
    int cpus_per_rank;
    bool given; /* the engine has bound this launcher: its ranks share those CPUs */
    cpu_set_t given_cpus;
    bool taken;        /* other jobs have the CPUs, so this job is not bound */
    char why_not[128]; /* why the job is not bound */
} launch_affinity;

typedef enum launch_affinity_how {
    LAUNCH_AFFINITY_LOOK, /* claim nothing: a dry run */
    LAUNCH_AFFINITY_CLAIM,
    LAUNCH_AFFINITY_ENGINE, /* the same, but CPUs that an engine has bound this launcher to stay as
                             * they are: then all ranks have all of them */
} launch_affinity_how;

/* Claims cpus_per_rank CPUs for each of `ranks`, one per core as long as there are cores. If there
 * are not enough, the job stays unbound, and why_not has the reason. */
BASE_MUST_CHECK base_status launch_affinity_init(launch_affinity *affinity, int ranks,
                                                 int cpus_per_rank, launch_affinity_how how,
                                                 base_error *reterr);
void launch_affinity_fini(launch_affinity *affinity);

/* The CPUs of one rank. The job must be bound. */
void launch_affinity_set(const launch_affinity *affinity, int rank, cpu_set_t *set);

/* A set as messages have it: a bit per CPU. */
void launch_cpus_unpack(const uint8_t *bits, size_t bytes, cpu_set_t *set);

#endif
