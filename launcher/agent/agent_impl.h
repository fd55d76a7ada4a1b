/* What the files of an agent share. Private to them. */
#ifndef LAUNCH_AGENT_IMPL_H
#define LAUNCH_AGENT_IMPL_H

#include <control.pb-c.h>
#include <poll.h>
#include <stdbool.h>

#include "agent/agent.h"
#include "agent/files.h"
#include "engine/bootstrap.h"
#include "job/affinity.h"
#include "job/oom.h"
#include "job/spawn.h"
#include "proto/bus.h"

typedef enum agent_state {
    AGENT_CALLING,  /* trying to reach the head */
    AGENT_ENROLLED, /* the head has this host's Enroll */
    AGENT_WAITING,  /* this attempt goes on without it */
    AGENT_FETCHING, /* has the job, and gets its files */
    AGENT_PREPARED, /* waiting for the others */
    AGENT_RUNNING,
    AGENT_ENDING, /* ends its ranks, because the head is gone or the job is over */
} agent_state;

/* What a rank has saved. */
typedef struct agent_state_file {
    bool known; /* whether it has */
    bool saved;
    uint64_t size_bytes;
    uint8_t sha256[PROTO_DIGEST_BYTES];
    launch_hashing *hashing;
} agent_state_file;

typedef struct agent_rank {
    launch_process process;
    int lease_fd; /* in a mode that may cost money; -1: it has not come */
    agent_state_file state;
    bool started;
    bool exited;
    int last_reads[2]; /* of stdout and stderr since it ended: the head counts with so many */
} agent_rank;

/* A rank's output that the head's queue had no room for. */
typedef struct agent_pending {
    bool waits;
    int index;
    int fd_number;
    bool last;
    size_t bytes;
    uint8_t data[PROTO_PRINTED_BYTES_MAX];
} agent_pending;

/* The agent's part of the job. */
typedef struct agent_part {
    proto_job job; /* with paths below this host's --root */
    int first_rank;
    int ranks;
    int world_size;
    int64_t host_timeout_ns;
    bool may_leave;                /* the job may go on without this host */
    bool tried_again;              /* after a failure of this attempt there may be another */
    char ports[BASE_PORTS_BYTES];  /* where its ranks may listen; empty: anywhere */
    char keyring[BASE_PATH_BYTES]; /* of this host, in a mode that may cost money */
} agent_part;

typedef struct launch_agent {
    const launch_options *options;
    const char *rank_path;
    agent_state state;
    bool again; /* AGENT_ENDING: when its ranks have ended, it enrols for the next attempt */
    int exit_code;
    int signal_fd;
    /* the head */
    launch_bootstrap bootstrap;
    char head_address[BASE_NUMERIC_BYTES]; /* numeric, of this attempt or connection */
    int attempt;
    proto_bus *bus; /* NULL between two attempts */
    bool connected;
    bool waits;         /* the user was told that there is no head yet */
    bool refused;       /* the head has said so */
    bool put_off;       /* it has refused this host for now */
    base_error trouble; /* of the last attempt */
    int64_t call_ns;    /* when the next attempt is due */
    int64_t retry_ms;   /* after the next one that fails */
    int64_t join_deadline_ns;
    int64_t last_message_ns;
    int64_t heartbeat_due_ns;
    int64_t seen_ns;  /* when the loop last came by */
    bool more;        /* messages wait that were not handled yet */
    bool silent;      /* the user has been warned */
    bool asked;       /* the user has asked for the end, and the head was told */
    int asked_signal; /* the first; 0: there was none */
    int64_t asked_ns;
    bool sent;
    agent_files files;
    /* the ranks */
    agent_part part;
    int job_fd;
    int lifeline_fd;
    launch_affinity affinity;
    launch_oom oom;
    agent_rank *ranks; /* (part.ranks) */
    agent_pending pending;
    uint64_t printed_bytes; /* that its ranks have printed and the head was sent, */
    uint64_t taken_bytes;   /* and for which the head had room */
    int64_t kill_ns;        /* AGENT_ENDING: when what still runs is killed */
} launch_agent;

typedef Ringfence__Control__Envelope envelope_type;

/* Sends to the head. False: there is no room now. A head that is gone shows otherwise. */
bool agent_send(launch_agent *agent, ProtobufCMessage *body);

/* Ends this agent, because it cannot go on. The head gets the reason. */
void agent_give_up(launch_agent *agent, const base_error *why);

/* Ends what runs here: politely, and soon not. The agent then exits with this code. */
void agent_end_ranks(launch_agent *agent, int exit_code);

/* The same, but then the agent enrols with the head again. */
void agent_end_attempt(launch_agent *agent);

/* ---- messages.c ---- */

/* Handles a message of the head. */
void agent_handle(launch_agent *agent, const envelope_type *envelope);

/* ---- enroll.c ---- */

/* Where the head is looked for, for messages: what was given, a file, or the last address. */
const char *agent_head_name(const launch_agent *agent);

/* Makes the next attempt to reach the head, if it is due. Returns when to call again. After the
 * join timeout the agent ends. */
int64_t agent_call(launch_agent *agent, int64_t now_ns);

/* Forgets the attempt that has ended, none of whose ranks runs any more, and calls the head for the next one. */
void agent_call_again(launch_agent *agent);

/* An event of the connection. */
void agent_event(launch_agent *agent, const proto_bus_event *event);

/* The head has refused this host, but may take it later. */
void agent_refused_for_now(launch_agent *agent, const char *reason);

/* ---- local_ranks.c ---- */

/* Makes room for the ranks of agent->part, none of which runs; frees it. */
BASE_MUST_CHECK base_status agent_make_ranks(launch_agent *agent, base_error *reterr);
void agent_drop_ranks(launch_agent *agent);

/* Keeps what a rank of this host needs at its gate. Another host's is ignored. */
BASE_MUST_CHECK base_status agent_take_lease(launch_agent *agent,
                                             const Ringfence__Control__Lease *lease,
                                             base_error *reterr);

/* Starts the ranks of this host, and is AGENT_RUNNING. If it fails, some may be running. */
BASE_MUST_CHECK base_status agent_start_ranks(launch_agent *agent,
                                              const Ringfence__Control__Begin *begin,
                                              base_error *reterr);

enum { AGENT_POLLS_PER_RANK = 3 };

void agent_rank_polls(const launch_agent *agent, struct pollfd *polls);
void agent_rank_events(launch_agent *agent, const struct pollfd *polls);

/* After a SIGCHLD: reports ranks that were stopped or continued. */
void agent_rank_stops(launch_agent *agent);

/* Signals a rank of this host (-1: all). */
void agent_rank_signal(launch_agent *agent, int index, int signal_number);

bool agent_ranks_run(const launch_agent *agent);

/* Kills and reaps what runs, and frees. */
void agent_ranks_close(launch_agent *agent);

/* ---- states.c ---- */

/* Finds out, a step at a time, whether an ended rank has saved its state. */
BASE_MUST_CHECK base_status agent_state_look(launch_agent *agent, int index, bool *known,
                                             base_error *reterr);

/* Sends a chunk of a rank's state. */
BASE_MUST_CHECK base_status agent_state_send(launch_agent *agent,
                                             const Ringfence__Control__Fetch *fetch,
                                             base_error *reterr);

#endif
