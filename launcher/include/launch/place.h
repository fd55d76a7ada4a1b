/* A launcher's place among those of one job: how many there are, and which of them it is. Either
 * the command line says so, or the engine that has started them: mpirun, Slurm, torchrun,
 * Kubernetes. */
#ifndef LAUNCH_PLACE_H
#define LAUNCH_PLACE_H

#include <stdbool.h>
#include <stdint.h>

enum { LAUNCH_RENDEZVOUS_BYTES = 300, LAUNCH_STEP_BYTES = 128, LAUNCH_PLACE_TEXT_BYTES = 64 };

/* In the order in which they are looked for. */
typedef enum launch_engine {
    LAUNCH_ENGINE_NONE, /* the command line alone */
    LAUNCH_ENGINE_PMIX, /* mpirun of Open MPI, srun --mpi=pmix */
    LAUNCH_ENGINE_PMI,  /* PMI-1: mpirun of MPICH and Intel MPI, srun --mpi=pmi2 */
    LAUNCH_ENGINE_SLURM,
    LAUNCH_ENGINE_TORCHRUN,
    LAUNCH_ENGINE_KUBERNETES,
    LAUNCH_ENGINE_VARIABLES, /* RANK and WORLD_SIZE */
    LAUNCH_ENGINE_LAST = LAUNCH_ENGINE_VARIABLES,
} launch_engine;

typedef struct launch_place {
    launch_engine engine;
    int64_t nodes; /* launchers of the job; 0: the engine's key-value store knows */
    int64_t node;
    int pmi_fd;    /* PMI-1: the connection to the engine; else -1 */
    bool in_slurm; /* whichever engine it is, it runs in a job of Slurm */
    char rendezvous[LAUNCH_RENDEZVOUS_BYTES]; /* as the engine names it; empty: it does not */
    char step[LAUNCH_STEP_BYTES]; /* Slurm's name of the step, "cluster-12.0"; else empty */
} launch_place;

#endif
