/* Starts one rank on this host, with what it inherits. Called by start.c for the ranks of the head
 * or of the only host, and by agents. One thread. */
#ifndef LAUNCH_START_LOCAL_H
#define LAUNCH_START_LOCAL_H

#include <stdbool.h>
#include <stddef.h>

#include "job/affinity.h"
#include "job/spawn.h"
#include "proto/key.h"

typedef struct launch_local_rank {
    const char *rank_path;
    char *const *program; /* NULL: the rank program */
    const char *root;
    const char *files; /* as in spawn.h */
    const char *interface;
    int rank;
    int world_size;
    int local_rank;
    int local_world_size;
    int threads;
    int host_timeout_ms;   /* as in spawn.h */
    const cpu_set_t *cpus; /* NULL: not bound */
    bool bind_to_gpu;      /* as in spawn.h */
    const char *ports;     /* as in spawn.h */
    int master_port;       /* 0: the control socket's */
    int job_fd;            /* of launch_start_job_bytes; these descriptors stay the caller's */
    int lifeline_fd;
    int lease_fd; /* -1: none */
    const proto_key_file *key;
} launch_local_rank;

/* A sealed memory file with JOB.json. The caller closes *fd. */
BASE_MUST_CHECK base_status launch_start_job_bytes(const void *job, size_t job_bytes, int *fd,
                                                   base_error *reterr);

/* If it fails, nothing is running. */
BASE_MUST_CHECK base_status launch_start_local(const launch_local_rank *options,
                                               launch_process *process, base_error *reterr);

#endif
