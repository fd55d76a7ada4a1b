/* One job while it runs: what the parts of launch_job_run share.
 *
 * start.c starts the ranks. messages.c, rendezvous.c, exchange.c and finished.c handle their messages. watch.c
 * watches their processes. ending.c decides on the first cause and ends the ranks. job_run.c has the
 * loop. One thread. */
#ifndef LAUNCH_SESSION_H
#define LAUNCH_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/affinity.h"
#include "job/lines.h"
#include "job/oom.h"
#include "job/open_requests.h"
#include "job/outputs.h"
#include "job/screen.h"
#include "job/spawn.h"
#include "job/tail.h"
#include "launch/job_run.h"
#include "proto/bus.h"
#include "proto/digest.h"
#include "record/steps.h"

/* How much a sign of failure explains. The lowest class wins; within a class, the first sign. */
typedef enum launch_blame_class {
    LAUNCH_BLAME_CAUSE = 1,      /* a signal, a rank's own report, a broken protocol */
    LAUNCH_BLAME_UNCLEAR = 2,    /* it exited without giving a reason */
    LAUNCH_BLAME_HOST = 3,       /* its host does not answer any more */
    LAUNCH_BLAME_LOST = 4,       /* its connection has ended; something else will explain why */
    LAUNCH_BLAME_WAITED = 5,     /* a stage waited in vain for the next one, which may wait, too */
    LAUNCH_BLAME_CONNECTING = 6, /* it cannot connect to a peer, which may have died */
    LAUNCH_BLAME_SECONDARY = 7,  /* it reports itself that another rank's failure caused its own */
    LAUNCH_BLAME_ABORTED = 8,    /* it ended after Abort was sent to it */
} launch_blame_class;

/* How far a rank is with its texts. */
typedef struct launch_answering {
    uint64_t tokens;
    uint64_t answered;
    uint64_t prompts;
} launch_answering;

/* What a rank has loaded of a model that is cut between ranks. */
typedef struct launch_loaded {
    bool reported;
    char weight_type[16]; /* of matrices, by name */
    uint64_t weight_bytes;
    uint64_t elements;       /* without padding */
    uint64_t uncut_elements; /* of them in tensors that every rank has whole */
    uint64_t model_elements;
} launch_loaded;

/* How the process of a rank on another host has ended, as its agent says. */
typedef struct launch_remote {
    bool ended;
    bool by_signal;
    int status; /* the exit code, or the signal */
    char reason[PROTO_NAME_BYTES_MAX + 1];
    struct {
        bool saved; /* and not fetched yet */
        uint64_t size_bytes;
        uint8_t sha256[PROTO_DIGEST_BYTES];
    } state;
} launch_remote;

typedef struct launch_rank {
    int node;               /* 0: on this host */
    launch_process process; /* of a rank on another host, the pid alone */
    launch_remote remote;
    bool started;
    bool exited;
    bool joined;
    bool ready;
    bool finished;      /* Finished was received */
    int ended_with;     /* the last signal that was sent in order to end it; 0: none */
    pid_t pid;          /* of the process that joined: the rank's own, or a descendant of the user's
                         * program */
    bool stopped;       /* SIGSTOP or the like */
    int64_t stopped_ns; /* since when */
    int log_fd;
    launch_tail tail; /* of its output, with on_tail */
    int64_t steps_reported;
    int reported_exit_code; /* from its Failed message; -1: none */
    bool failed_unasked;    /* it said that it fails before Abort was sent: it does not hang */
    int unreached;          /* from it, too: the rank that it could not be connected to; -1: none */
    int exit_code;          /* of a rank that exited by itself; 0 until then */
    bool link_ended;        /* no more messages come from it */
    bool unreachable;       /* it had joined, but Abort did not reach it: it was probably dying */
    int64_t exit_due_ns;    /* its process has ended, but messages may still be on the way; 0:
                             * neither */
    uint8_t params_digest[PROTO_DIGEST_BYTES];
    char hostname[BASE_HOSTNAME_BYTES]; /* from its Join */
    launch_answering answering;
    launch_loaded loaded;
    char *flight; /* the received part of its flight record; (flight_bytes) and a NUL */
    size_t flight_bytes;
    bool flight_whole;
    bool flight_asked; /* for it, and it has not been delivered since */
    /* the current exchange */
    bool has_part;
    size_t part_bytes;
    uint8_t part[PROTO_EXCHANGE_BYTES_MAX];
} launch_rank;

/* The pid by which messages name a rank. Its peers use the same one. A user's program runs below a
 * subreaper, so the process that joined comes before the process that was started. */
static inline pid_t launch_rank_pid(const launch_rank *rank)
{
    return rank->joined ? rank->pid : rank->process.pid;
}

/* Whether its process has ended. What it has saved may still be on the way. */
static inline bool launch_rank_has_ended(const launch_rank *rank)
{
    return rank->exited || rank->remote.ended || rank->exit_due_ns != 0;
}

/* Whether the rank has begun to answer prompts: its model is in memory. */
static inline bool launch_rank_is_answering(const launch_rank *rank)
{
    return rank->loaded.reported || rank->answering.tokens > 0;
}

/* Requests that come while the job runs. */
typedef struct launch_feeding {
    launch_open_requests requests;
    bool ended;           /* no more come */
    bool readable;        /* the feed's descriptor */
    bool held;            /* `request` waits until there is room for it */
    int drain_signal;     /* 0: the feed was not asked to end */
    int64_t drain_due_ns; /* then what still runs is cancelled, */
    bool drained;         /* or, where it has been, killed */
    proto_request request;
} launch_feeding;

/* The first cause, as far as it is known. */
typedef struct launch_cause {
    launch_blame_class blame; /* 0: nothing has failed */
    int rank;
    int exit_status; /* unless the rank itself exits with another code */
    bool fails_again;
    int node;    /* the host whose own failure it is; 0: the head's, or that is not known */
    bool waited; /* for the whole of --timeout */
    base_error error;
} launch_cause;

typedef struct launch_session {
    const launch_job_options *options;
    launch_job_result *result;
    const proto_job *job;
    const char *root; /* of JOB.json's relative paths; "": none */
    int world_size;
    int local_count;          /* ranks on this host: the first ones */
    launch_rank *ranks;       /* (world_size) */
    struct launch_head *head; /* the other hosts; NULL: there are none */
    launch_screen screen;
    launch_lines *lines;
    launch_steps *steps;    /* the options', or else own_steps */
    launch_steps own_steps; /* of a job without a record */
    launch_affinity affinity;
    proto_bus *bus;
    int job_fd;      /* memfd of JOB.json */
    int lifeline_fd; /* the end of the pipe that nobody writes to */
    int master_port; /* of a user's program, held by master_port_fd; 0: there is none */
    int master_port_fd;
    int signal_fd;
    launch_oom oom;
    int64_t started_ns;
    int64_t join_deadline_ns;
    int64_t ready_deadline_ns; /* from the roster on, while training has not begun */
    int joined_count;
    int ready_count;
    int exited_count;
    int started_count;
    int part_count; /* ranks that have given their part of the exchange */
    uint64_t exchange_sequence;
    launch_outputs outputs;
    bool over;           /* the result is complete */
    bool pausing;        /* rank 0 was asked to end all at the next checkpoint, */
    bool asked_to_pause; /* or was so before, and then told otherwise */
    bool is_short;       /* of hosts, so that this attempt does not begin, and a smaller one may */
    launch_feeding feeding;
    bool warned_of_growth;      /* of the loss */
    bool streaming;             /* stdout shows the beginning of a text whose end has not come */
    int64_t answering_since_ns; /* 0: no rank has reported its texts yet */
    int64_t
        flights_due_ns; /* when those are delivered that have come; 0: nobody has asked for any */
    bool refused_warned;
    bool sent; /* something was sent outside launch_messages_drain */
    /* how the job ends */
    launch_cause cause;
    int64_t abort_due_ns;  /* BASE_NO_DEADLINE: nothing has failed */
    int64_t abort_sent_ns; /* 0: not yet */
    bool termed;
    bool killed;
    int asked_signal; /* by which the user has asked for the end, here; 0: not yet */
    int64_t asked_ns;
    bool explained;  /* … and was told why that takes long */
    int stop_signal; /* Ctrl-C or SIGTERM, once */
    int64_t progress_due_ns;
    int64_t progress_step; /* for plain lines: the next step to print */
} launch_session;

/* Where this attempt's steps begin in session->steps; once all ranks are ready. */
static inline size_t launch_session_first_index(const launch_session *session)
{
    return (size_t)(session->result->first_step - session->steps->first);
}

/* ---- start.c ---- */

/* JOB.json in a sealed memory file: session->job_fd. */
BASE_MUST_CHECK base_status launch_start_job_file(launch_session *session, base_error *reterr);

/* Makes all keys, listens, and starts all ranks. If it fails, some ranks may be running. */
BASE_MUST_CHECK base_status launch_start_ranks(launch_session *session, base_error *reterr);

/* ---- result.c ---- */

/* Fills the result when all ranks have ended. */
BASE_MUST_CHECK base_status launch_result_fill(launch_session *session, base_error *reterr);

/* Hands on the last output of each rank of a job that has failed. */
void launch_result_deliver_tails(const launch_session *session);

/* After a step: warns once of a new model whose loss has grown by half. */
void launch_result_watch_growth(launch_session *session);

/* Warns of a training whose loss grew, although nothing failed, if nothing has been said of it. */
void launch_result_warn_of_growth(launch_session *session);

/* ---- lease.c ---- */

/* Redeems the job's lease, if it has one. The paid time begins here, so all hosts must be there. */
void launch_job_redeem(launch_session *session);

/* Ends the job when its lease is over. Returns when that is. The ranks' own timers come a moment
 * later, or while the launcher is stopped. */
int64_t launch_job_lease_due(launch_session *session, int64_t now_ns);

/* ---- ending.c ---- */

/* Notes a failure of a rank (-1: of the launcher itself), and begins to end the job. exit_status is
 * the job's, unless the rank exits by itself with another code. True: it is the first cause now. */
bool launch_blame(launch_session *session, launch_blame_class blame, int rank, int exit_status,
                  const char *format, ...) BASE_PRINTF(5, 6);

/* The same of a failure that is its host's own: one of the process or of what it runs on, and none that another
 * rank's may have caused. */
#define LAUNCH_BLAME_OWN(session, blame, rank, ...)                                                \
    do {                                                                                           \
        if (launch_blame(session, blame, rank, __VA_ARGS__)) {                                     \
            (session)->cause.node = (session)->ranks[rank].node;                                   \
        }                                                                                          \
    } while (0)

/* Sends Abort, SIGTERM and SIGKILL when each is due. Returns when it must be called again. */
int64_t launch_end_ranks(launch_session *session, int64_t now_ns);

/* Ends all ranks at once, without a word to them. */
void launch_kill_ranks(launch_session *session, int64_t now_ns);

/* The user asks for the end, at one of the launchers: `again` at the same one. The first time the
 * job ends in order. Again at one launcher ends it at once. */
void launch_stop(launch_session *session, int signal_number, bool again);

/* Cancels what still runs when a feed that was asked to end has had its time, and kills ranks that do not end
 * LAUNCH_DRAINED_MS later. Returns when it must be called again. */
int64_t launch_stop_drain_due(launch_session *session, int64_t now_ns);

/* Says once, if a job that was asked to end does not, that ranks wait for a reader of what they print. */
void launch_stop_explain(launch_session *session, int64_t now_ns);

/* Sends a signal to a rank's process group, on whichever host it is. */
void launch_rank_signal(launch_session *session, int index, int signal_number);

/* ---- messages.c ---- */

/* Handles all messages and events that have come. */
void launch_messages_drain(launch_session *session);

/* ---- rendezvous.c ---- */

/* Blames the ranks that have not joined, or are not ready, in time. Returns when the next of these
 * deadlines is. */
int64_t launch_rendezvous_deadlines(launch_session *session, int64_t now_ns);

struct Ringfence__Control__Flight;
struct Ringfence__Control__Envelope;

/* ---- feed.c ---- */

/* Takes requests from the feed, as long as there are any and rank 0 may have more. */
void launch_feed_step(launch_session *session);

/* What to wait for before the next step; -1: nothing. */
int launch_feed_fd(const launch_session *session);

/* Handles what a rank says about requests. False: it breaks the protocol. */
bool launch_feed_handle(launch_session *session, int rank,
                        const struct Ringfence__Control__Envelope *envelope);

/* Tells the feed that the model is loaded. */
void launch_feed_ready(const launch_session *session);

/* Asks the feed to end. False: it cannot, or was asked before. */
bool launch_feed_drain(launch_session *session, int signal_number);

/* Ends the requests at a time when none is open. False: some are. */
bool launch_feed_end(launch_session *session);

/* At the end: says of all that were not answered that they failed, or were never accepted. */
void launch_feed_abandon(launch_session *session);

/* ---- flights.c ---- */

/* Takes a piece of a rank's flight record. False: the rank breaks the protocol. */
bool launch_flights_add(launch_session *session, int rank,
                        const struct Ringfence__Control__Flight *flight);

/* SIGUSR1: asks every rank for its record. */
void launch_flights_request(launch_session *session);

/* Delivers the records: once every rank that was asked has answered, or at the end (`last`), after a failure or
 * if they were asked for. */
void launch_flights_deliver(launch_session *session, bool last);

/* Delivers them without the ranks that do not answer, and names those. Returns when to call again. */
int64_t launch_flights_deliver_due(launch_session *session, int64_t now_ns);

/* ---- watch.c ---- */

/* Reads what a rank's pipe holds now, and closes the pipe at its end. `last`: no more output is
 * waited for. */
void launch_watch_output(launch_session *session, int index, int fd_number, bool last);

/* Takes what a rank has printed; `last`: its stream has ended. */
void launch_watch_printed(launch_session *session, int index, int fd_number, const char *data,
                          size_t bytes, bool last);

/* A rank was stopped by a signal, or continues (0). */
void launch_watch_halted(launch_session *session, int index, int signal_number, int64_t now_ns);

/* Handles the end of a rank's process: reads the rest of its output, reaps it, and decides what its
 * end means. A rank that exited by itself may have sent a reason. So the decision waits until its
 * connection has ended too, but only a moment. */
void launch_watch_exit(launch_session *session, int index);

/* Does the same for ranks whose last messages were waited for. Returns when the next one is due. */
int64_t launch_watch_exits_due(launch_session *session, int64_t now_ns);

/* Ctrl-Z: stops the ranks, which are in process groups of their own, and then the launcher.
 * Continues the ranks when the launcher is continued. Blocks in between, and moves the launcher's
 * own deadlines by that time. */
void launch_watch_pause(launch_session *session);

/* Notes which processes were stopped or continued. Called after a SIGCHLD. */
void launch_watch_stops(launch_session *session, int64_t now_ns);

/* Blames ranks that have been stopped for longer than the job's timeout. Returns when the next is
 * due. */
int64_t launch_watch_stop_deadlines(launch_session *session, int64_t now_ns);

/* The rank that has been stopped for half of the job's timeout or longer, so that it is for this one that others
 * have waited in vain; PROTO_NO_RANK: there is none. */
int launch_watch_find_stopped(const launch_session *session, int64_t now_ns);

/* For how long nobody has read standard output, once that is long enough to be said; else 0. */
int64_t launch_watch_unread_ns(int64_t now_ns);

/* " (rank 1, pid 43, is stopped: …)" for each rank that is stopped or traced now, and whether ranks wait
 * because nobody reads what they print; else "". */
void launch_watch_describe_stops(const launch_session *session, char *text, size_t size_bytes);

/* ---- progress.c ---- */

/* On a terminal: draws the progress line anew, at most every LAUNCH_PROGRESS_MS. */
void launch_progress_update(launch_session *session, int64_t now_ns, bool last);

/* Elsewhere: prints a line for the first step, each tenth of the job, and the last step. Called
 * after each step that a rank has reported. */
void launch_progress_step(launch_session *session);

/* Prints what --eval-every found after the step, as a line that stays, if this report is the last one of it. */
void launch_progress_heldout(launch_session *session, const launch_step *step);

#endif
