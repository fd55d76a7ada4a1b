/* Starts one rank on this host, with what it inherits. Called by start.c for the ranks of the head
 * or of the only host, and by agents. One thread. */
#ifndef LAUNCH_START_LOCAL_H
#define LAUNCH_START_LOCAL_H

#include <stddef.h>

#include "job/spawn.h"
#include "proto/key.h"

/* A sealed memory file with JOB.json. The caller closes *fd. */
BASE_MUST_CHECK base_status launch_start_job_bytes(const void *job, size_t job_bytes, int *fd,
                                                   base_error *reterr);

/* Starts a rank with this key. Of the options, address, port and key_fd are set here; job_fd is of
 * launch_start_job_bytes. master_port 0: the control socket's. If it fails, nothing is running. */
BASE_MUST_CHECK base_status launch_start_local(launch_spawn_options options,
                                               const proto_key_file *key, int master_port,
                                               launch_process *process, base_error *reterr);

#endif
