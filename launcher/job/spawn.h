/* Starting one rank's process.
 *
 * The child dies with the launcher (PR_SET_PDEATHSIG), leads a process group of its own, has
 * the signals the launcher was given, /dev/null as input, pipes as output, and of all descriptors
 * only the four that it inherits on purpose. A program of the user's stands under a subreaper
 * (subreaper.h), which is the child then. One thread. */
#ifndef LAUNCH_SPAWN_H
#define LAUNCH_SPAWN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"
#include "base/status.h"

typedef struct launch_spawn_options {
    const char *rank_path; /* what is run */
    char *const *program;  /* its arguments, if it is the user's program; NULL: the rank */
    int rank;
    int world_size;
    int threads;
    const cpu_set_t *cpus; /* NULL: not bound */
    const char *root;      /* of the job's relative paths; "": none */
    const char *address;   /* the control socket's: "127.0.0.1", "40123" */
    const char *port;
    int job_fd; /* readable, at its start; these four stay the caller's */
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

/* On failure nothing is running. On success the caller closes the three descriptors and reaps. */
BASE_MUST_CHECK base_status launch_spawn(const launch_spawn_options *options,
                                         launch_process *process, base_error *reterr);

/* Sends a signal to the whole process group. SIGKILL to a subreaper's makes it end all that its
 * program has started. */
void launch_process_signal(const launch_process *process, int signal_number);

enum { LAUNCH_VARIABLES = 16, LAUNCH_VARIABLE_BYTES = BASE_PATH_BYTES + 32 };

/* What a rank gets on top of the launcher's own environment: "NAME=VALUE"; the count. */
int launch_spawn_variables(const launch_spawn_options *options,
                           char variables[LAUNCH_VARIABLES][LAUNCH_VARIABLE_BYTES]);

#endif
