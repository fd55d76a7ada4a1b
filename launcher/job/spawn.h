/* Starts one rank's process.
 *
 * The child dies with the launcher (PR_SET_PDEATHSIG) and leads a process group of its own. It has
 * the signal settings that the launcher was started with, /dev/null as input and pipes as output.
 * Of all descriptors it inherits only the four below. A user's program runs under a subreaper
 * (subreaper.h), and the child is then the subreaper. One thread. */
#ifndef LAUNCH_SPAWN_H
#define LAUNCH_SPAWN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"
#include "base/status.h"

typedef struct launch_spawn_options {
    const char *rank_path; /* the program */
    char *const *program;  /* arguments of a user's program; NULL: the rank program */
    int rank;
    int world_size;
    int local_rank;
    int local_world_size; /* ranks on this host */
    int threads;
    int host_timeout_ms;   /* silence of another host until the rank takes it for lost */
    const cpu_set_t *cpus; /* NULL: not bound */
    bool bind_to_gpu;      /* the rank binds itself to the CPUs near its GPU, if it has one */
    const char *root;      /* of the job's relative paths; "": none */
    const char *files;     /* where this host has the job's files (proto_job_relocate); "": where
                            * the job says */
    const char *interface; /* this host's --interface, in place of the job's; "": the job's */
    const char *ports;     /* of this host's ranks: "29500-29599"; "": any */
    const char *address;   /* MASTER_ADDR: the control socket's, "127.0.0.1" */
    const char *port; /* MASTER_PORT: "40123"; of a user's program, one where rank 0 may listen */
    int job_fd;       /* readable, at its start; these four descriptors stay the caller's */
    int key_fd;
    int lifeline_fd;
    int lease_fd; /* for the gate of a mode that may cost money; -1: none */
} launch_spawn_options;

typedef struct launch_process {
    pid_t pid;
    bool has_subreaper; /* pid is a subreaper, the program runs below it */
    int pidfd;
    int out_fd; /* what it writes to stdout and stderr: non-blocking */
    int err_fd;
} launch_process;

/* If it fails, nothing is running. If it succeeds, the caller closes the three descriptors and
 * reaps the process. */
BASE_MUST_CHECK base_status launch_spawn(const launch_spawn_options *options,
                                         launch_process *process, base_error *reterr);

/* Sends a signal to the whole process group. SIGKILL for a subreaper makes it end everything that
 * its program has started. */
void launch_process_signal(const launch_process *process, int signal_number);

/* Waits for the process, ends what is left of its group, and closes pidfd. */
void launch_process_reap(launch_process *process);

enum { LAUNCH_VARIABLES = 18, LAUNCH_VARIABLE_BYTES = BASE_PATH_BYTES + 32 };

/* The variables that a rank gets besides the launcher's own environment, as "NAME=VALUE". Returns
 * how many. */
int launch_spawn_variables(const launch_spawn_options *options,
                           char variables[LAUNCH_VARIABLES][LAUNCH_VARIABLE_BYTES]);

#endif
