/* One job while it runs: what the parts of launch_job_run share.
 *
 * start.c starts the ranks, rendezvous.c (and exchange.c) hear what they say, watch.c sees what
 * becomes of their processes, ending.c decides on the first cause and ends the others, job_run.c
 * has the loop. One thread. */
#ifndef LAUNCH_SESSION_H
#define LAUNCH_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/affinity.h"
#include "job/lines.h"
#include "job/outputs.h"
#include "job/screen.h"
#include "job/spawn.h"
#include "launch/job_run.h"
#include "proto/bus.h"
#include "proto/digest.h"
#include "record/steps.h"

/* How much a sign of failure explains; the lowest wins, then the first. */
typedef enum launch_blame_class {
    LAUNCH_BLAME_CAUSE = 1,     /* a signal, a rank's own report, a broken protocol */
    LAUNCH_BLAME_UNCLEAR = 2,   /* left without a word */
    LAUNCH_BLAME_LOST = 3,      /* its connection has ended, which something will explain */
    LAUNCH_BLAME_SECONDARY = 4, /* says itself that it only suffers from another */
    LAUNCH_BLAME_ABORTED = 5,   /* went after it had been told to */
} launch_blame_class;

/* How far a rank has come with its texts. */
typedef struct launch_answering {
    uint64_t tokens;
    uint64_t answered;
    uint64_t prompts;
} launch_answering;

typedef struct launch_rank {
    launch_process process;
    bool started;
    bool exited;
    bool joined;
    bool ready;
    bool finished;      /* Finished was heard */
    int ended_with;     /* the last signal that was sent to end it; 0: none */
    pid_t pid;          /* who joined: the process itself, or a program's descendant */
    bool stopped;       /* SIGSTOP or the like */
    int64_t stopped_ns; /* since when */
    int log_fd;
    int64_t steps_reported;
    int reported_exit_code; /* of a Failed; -1: none */
    int exit_code;          /* it left with, by itself; 0 so far */
    bool link_ended;        /* nothing more comes from it */
    bool unreachable;       /* had joined, and could not be told to end: likely it was dying */
    int64_t exit_due_ns;    /* its process is gone, its last words may be on the way; 0: neither */
    uint8_t params_digest[PROTO_DIGEST_BYTES];
    /* its join, for the roster */
    char hostname[BASE_HOSTNAME_BYTES];
    char boot_id[PROTO_NAME_BYTES_MAX + 1];
    uint64_t pid_namespace;
    uint64_t net_namespace;
    uint32_t cpus;
    launch_answering answering;
    char *flight; /* its flight record, as far as it came; (flight_bytes) and a NUL */
    size_t flight_bytes;
    bool flight_whole;
    /* the exchange under way */
    bool has_part;
    size_t part_bytes;
    uint8_t part[PROTO_EXCHANGE_BYTES_MAX];
} launch_rank;

/* The pid to name a rank by, which its peers know it by as well: of who joined, before that of what
 * was started (a program of the user's runs below a subreaper). */
static inline pid_t launch_rank_pid(const launch_rank *rank)
{
    return rank->joined ? rank->pid : rank->process.pid;
}

/* The first cause, as far as it is known. */
typedef struct launch_cause {
    launch_blame_class blame; /* 0: nothing has failed */
    int rank;
    int exit_status; /* unless the rank itself leaves with another code */
    base_error error;
} launch_cause;

typedef struct launch_session {
    const launch_job_options *options;
    launch_job_result *result;
    const proto_job *job;
    const char *root; /* of JOB.json's relative paths; "": none */
    int world_size;
    launch_rank *ranks; /* (world_size) */
    launch_screen screen;
    launch_lines *lines;
    launch_steps steps;
    launch_affinity affinity;
    proto_bus *bus;
    int job_fd;      /* memfd of JOB.json */
    int lifeline_fd; /* the end that nobody writes to */
    int signal_fd;
    int kmsg_fd;       /* the kernel's log from here on, to tell out-of-memory kills */
    int64_t oom_kills; /* of the control group, before */
    int64_t started_ns;
    int64_t join_deadline_ns;
    int64_t ready_deadline_ns; /* from the roster on, while training has not begun */
    int joined_count;
    int ready_count;
    int finished_count;
    int exited_count;
    int started_count;
    int part_count; /* ranks that have given their part of the exchange */
    uint64_t exchange_sequence;
    launch_outputs outputs;
    bool streaming;             /* a text stands on stdout without its end */
    int64_t answering_since_ns; /* 0: no rank has said how far it is */
    bool flights_asked;
    bool refused_told;
    bool sent; /* something was sent outside launch_rendezvous_drain */
    /* the end */
    launch_cause cause;
    int64_t abort_due_ns;  /* BASE_NO_DEADLINE: nothing has failed */
    int64_t abort_sent_ns; /* 0: not yet */
    bool termed;
    bool killed;
    int stop_signal; /* Ctrl-C or SIGTERM, once */
    int64_t progress_due_ns;
    int64_t progress_step; /* plain lines: the next step to tell */
} launch_session;

/* ---- start.c ---- */

/* JOB.json in a sealed memory file: session->job_fd. */
BASE_MUST_CHECK base_status launch_start_job_file(launch_session *session, base_error *reterr);

/* Makes all keys, listens, starts all ranks. On failure some may be running. */
BASE_MUST_CHECK base_status launch_start_ranks(launch_session *session, base_error *reterr);

/* ---- ending.c ---- */

/* Notes a sign of failure of a rank (-1: of the launcher itself) and starts the end of the job.
 * exit_status: the job's, unless the rank leaves by itself with a code of its own. */
void launch_blame(launch_session *session, launch_blame_class blame, int rank, int exit_status,
                  const char *format, ...) BASE_PRINTF(5, 6);

/* Sends abort, SIGTERM and SIGKILL as they fall due; the next time it is to be called. */
int64_t launch_end_ranks(launch_session *session, int64_t now_ns);

/* The user has asked for the end: politely once, then at once. */
void launch_stop(launch_session *session, int signal_number);

/* ---- rendezvous.c ---- */

/* Takes and answers every message and event that waits. */
void launch_rendezvous_drain(launch_session *session);

/* Blames the ranks that have not joined, or are not ready, in time;
 * when the next of these is due. */
int64_t launch_rendezvous_deadlines(launch_session *session, int64_t now_ns);

struct Ringfence__Control__Flight;

/* ---- flights.c ---- */

/* Takes a piece of a rank's flight record. False: it breaks the protocol. */
bool launch_flights_hear(launch_session *session, int rank,
                         const struct Ringfence__Control__Flight *flight);

/* SIGUSR1: asks every rank for its record. */
void launch_flights_ask(launch_session *session);

/* Hands over what has come: when all that were asked have answered, or (`last`) after a failure. */
void launch_flights_deliver(launch_session *session, bool last);

/* ---- watch.c ---- */

/* What a rank's pipe holds now; closes it at its end. `last`: nothing more is waited for. */
void launch_watch_output(launch_session *session, int index, int fd_number, bool last);

/* A rank's process has ended: takes the rest of its output, reaps, judges. One that left by itself
 * may have said why: it is judged once its connection has ended too, or a moment later. */
void launch_watch_exit(launch_session *session, int index);

/* Judges those whose last words were waited for; when the next is due. */
int64_t launch_watch_exits_due(launch_session *session, int64_t now_ns);

/* Ctrl-Z: stops the ranks, which are in process groups of their own, then the launcher; lets them
 * go on when it is continued. Blocks for so long; the launcher's own deadlines move by that. */
void launch_watch_pause(launch_session *session);

/* Looks for stopped and continued processes, after a SIGCHLD. */
void launch_watch_stops(launch_session *session, int64_t now_ns);

/* Blames ranks that have been stopped for longer than the job's timeout; when the next is due. */
int64_t launch_watch_stop_deadlines(launch_session *session, int64_t now_ns);

/* " (rank 1, pid 43, is stopped: …)" for each rank that is stopped or traced now; else "". */
void launch_watch_describe_stops(const launch_session *session, char *text, size_t size_bytes);

/* ---- progress.c ---- */

/* On a terminal: draws the progress line anew, at most every LAUNCH_PROGRESS_MS. */
void launch_progress_update(launch_session *session, int64_t now_ns, bool last);

/* Elsewhere: a line for the first step, each tenth of the job, and the last step. After each step
 * that a rank has reported. */
void launch_progress_step(launch_session *session);

#endif
