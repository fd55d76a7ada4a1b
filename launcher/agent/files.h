/* The files of an agent's ranks. Private to launcher/agent.
 *
 * CACHE/files has what was fetched from a head, by SHA-256, and CACHE/files/DIGEST.part what was not
 * fetched to its end. CACHE/runs/BOOT.RUN-NODE-PID is the directory of one agent: its ranks find the job's
 * files below it (proto_job_relocate), as links, and write their states there. It goes when the
 * agent ends; that of a killed one, when the next agent begins. */
#ifndef LAUNCH_AGENT_FILES_H
#define LAUNCH_AGENT_FILES_H

#include <control.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "job/transfer.h"
#include "proto/job.h"
#include "proto/pin.h"

struct launch_agent;

/* Where a file is looked for. */
typedef enum agent_place {
    AGENT_LOOK_HERE, /* where the head has it, below this host's --root */
    AGENT_LOOK_CACHED,
    AGENT_FETCH,
} agent_place;

typedef struct agent_files {
    int count;
    proto_file *files;            /* (count); paths are those where they were found */
    proto_job placed;             /* with the paths that the ranks use */
    char cached[BASE_PATH_BYTES]; /* CACHE/files */
    char run[BASE_PATH_BYTES];    /* CACHE/runs/BOOT.RUN-NODE-PID; empty: there is none */
    int run_fd;                   /* the lock, CACHE/runs/BOOT.RUN-NODE-PID.lock */
    int index;                    /* of the file that is looked for; count: all are found */
    agent_place place;
    launch_hashing *hashing;
    launch_incoming *incoming;
    bool again;   /* it was fetched once, and was wrong */
    bool changed; /* the head's file is not the job's any more */
    /* for the user */
    bool fetches;
    int fetched_files;
    uint64_t fetched_bytes;
    uint64_t total_bytes;
    uint64_t have_bytes; /* of the files before index */
    int64_t since_ns;
    int64_t show_ns;
} agent_files;

/* ---- files.c ---- */

/* Takes the list of the job's files. agent->part.job has its paths below this host's --root. */
BASE_MUST_CHECK base_status agent_files_open(struct launch_agent *agent,
                                             const Ringfence__Control__Assign *assign,
                                             base_error *reterr);

/* Does a step. *all: the ranks have all files now. *next_ns: when to call again. */
BASE_MUST_CHECK base_status agent_files_step(struct launch_agent *agent, int64_t now_ns, bool *all,
                                             int64_t *next_ns, base_error *reterr);

/* Takes a chunk. */
BASE_MUST_CHECK base_status agent_files_chunk(struct launch_agent *agent,
                                              const Ringfence__Control__Chunk *chunk,
                                              base_error *reterr);

/* Bytes of the job's files that are on this host. */
uint64_t agent_files_have(const agent_files *files);

/* What the disk has free where ranks save their states. False: they save none here, or it is not known. */
bool agent_files_room(const agent_files *files, uint64_t *bytes);

/* Frees, and removes the agent's directory. Partial files stay. */
void agent_files_close(agent_files *files);

/* ---- run_directory.c ---- */

/* Makes the agent's directory, and removes those of agents that were killed. */
BASE_MUST_CHECK base_status agent_run_directory(const struct launch_agent *agent,
                                                agent_files *files, base_error *reterr);

void agent_run_directory_remove(const agent_files *files);

#endif
