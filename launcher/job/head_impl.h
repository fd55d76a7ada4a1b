/* What the files of the head share. Private to them. */
#ifndef LAUNCH_HEAD_IMPL_H
#define LAUNCH_HEAD_IMPL_H

#include <control.pb-c.h>

#include "base/exitcode.h"
#include "engine/bootstrap.h"
#include "job/head.h"
#include "job/transfer.h"

enum { LAUNCH_WHY_BYTES = 256 };

typedef enum launch_node_state {
    LAUNCH_NODE_ABSENT = 0,
    LAUNCH_NODE_WAITING,  /* this attempt goes on without it */
    LAUNCH_NODE_ENROLLED, /* it has the job */
    LAUNCH_NODE_PREPARED, /* and has taken it */
    LAUNCH_NODE_BEGUN,    /* its ranks run */
    LAUNCH_NODE_LOST,     /* whatever it says now is ignored */
    LAUNCH_NODE_LEFT,     /* after the end */
} launch_node_state;

/* Whether an attempt ends at its next checkpoint for a host that waits. */
typedef enum launch_node_trust {
    LAUNCH_NODE_TRUSTED = 0,
    LAUNCH_NODE_TRIED, /* one has ended for it, and none with it has come to a checkpoint since */
    LAUNCH_NODE_UNSTEADY, /* and it was lost before that: so none ends for it any more */
} launch_node_trust;

/* The launcher of one host. */
typedef struct launch_node {
    launch_node_state state;
    char hostname[BASE_HOSTNAME_BYTES];
    char boot_id[PROTO_NAME_BYTES_MAX + 1];
    uint64_t pid_namespace;
    uint64_t net_namespace;
    int64_t pid;
    char head_address[BASE_NUMERIC_BYTES]; /* by which it knows the head */
    int first_rank;
    int ranks; /* 0: this attempt goes on without it */
    uint8_t seed[PROTO_KEY_BYTES];
    int64_t last_message_ns;
    int64_t heartbeat_due_ns;
    int64_t joined_ns;
    int64_t awaited_until_ns;          /* while it is absent and agents gather */
    char why_absent[LAUNCH_WHY_BYTES]; /* in this attempt; "": it has not been there */
    uint64_t printed_bytes;            /* that its ranks have printed, */
    uint64_t taken_bytes;              /* and for which it has been given room again */
    bool returning;                    /* it was told to enrol again, and has not yet */
    bool lost;                         /* with the attempt before, and it has not come again */
    bool present; /* it was there when an attempt began to do with fewer hosts */
    bool left; /* its user has taken it out of the job, or it was awaited in vain: so it is not */
    launch_node_trust trust;
    /* since an attempt with it came past a checkpoint: */
    int faults; /* attempts that have failed by it, */
    int cuts;   /* and those in which its ranks could not be connected */
    bool
        sent_away; /* its launcher ends with this attempt, if it is there, and the next begins without it */
    bool asked;  /* its user has asked for the end */
    bool silent; /* the user has been warned */
    /* files */
    uint64_t files_bytes; /* that it looks for; 0: it has none to look for */
    uint64_t have_bytes;
    bool knows_room;
    uint64_t room_bytes;       /* on its disk, for what its ranks save */
    int state_rank;            /* whose state is fetched */
    launch_incoming *incoming; /* NULL: none is fetched now */
} launch_node;

struct launch_head {
    const launch_hosts_options *options;
    launch_bootstrap bootstrap;
    proto_bus *bus;
    char address[BASE_NUMERIC_BYTES]; /* bound; "*": all */
    char others[256];                 /* that the name means as well: ", not at …"; "": none */
    int node_count;
    int ranks_per_node; /* of a job with all of them */
    launch_node *nodes; /* (node_count); nodes[0] is the head */
    int64_t seen_ns;    /* when the loop last came by */
    int64_t slept_ns;   /* when it last came by after the head had stood still; 0: never */
    int64_t show_files_ns;
    int64_t
        lost_until_ns; /* so long those are awaited that the attempt before has lost, if there are enough */
    bool more;         /* messages wait that were not handled yet */
    bool has_event; /* `event` waits until these are */
    proto_bus_event event;
    int64_t farewell_ns; /* the user has ended it: agents that return are told so, up to then */
    bool gathering;
    bool refused_warned;
};

typedef Ringfence__Control__Envelope envelope_type;

/* "host b (node 1)" */
#define NODE_FORMAT           "host %s (node %d)"
#define NODE_ARGS(head, node) (head)->nodes[node].hostname, (node)

/* Sends to an agent. Nobody needs to know if it fails: an agent that is gone shows otherwise. */
void head_send(launch_head *head, int node, ProtobufCMessage *body);

/* Whether the job may go on without this host. */
bool head_may_lose(const launch_session *session, int node);

/* The ranks of all agents on the host of a node. */
int head_ranks_beside(const launch_head *head, int node);

/* Gives a node up: its ranks count as ended. The format says what has happened to the host. */
void head_lose(launch_session *session, int node, const char *what);

/* ---- head_attempts.c ---- */

/* Decides which nodes have which ranks in this attempt. */
void head_share_out(launch_session *session);

/* Whether the job may still get enough hosts, without those that their users have taken out. */
bool head_may_do_without(const launch_session *session);

/* Whether the hosts that are there are as many as the job may do with. */
bool head_has_enough(const launch_session *session);

/* Whether all hosts that are awaited were taken out by their users. */
bool head_waits_in_vain(const launch_session *session);

/* Ends this attempt before it begins, so that the job is shared out among the hosts that are there. False: these
 * are not enough. */
bool head_do_with_fewer(launch_session *session);

/* Whether the attempt that runs is to end at its next checkpoint, because it would have more ranks with hosts that
 * wait. */
bool head_wants_pause(const launch_session *session);

/* Tells rank 0 so, and if it is so no longer. */
void head_ask_for_pause(launch_session *session);

/* Whether this attempt has taken a step behind a checkpoint of its own. */
bool head_has_come_further(const launch_session *session);

/* ---- head_end.c ---- */

/* Says how the job, or this attempt alone (`again`), has ended. */
void head_say_end(launch_head *head, int exit_code, const char *reason, bool again);

/* Fetches no state any more. */
void head_drop_incoming(launch_head *head);

/* ---- gather.c ---- */

/* An agent presents itself. */
void head_enroll(launch_session *session, int node, const Ringfence__Control__Enroll *enroll);

/* The user ends the job before all hosts have joined. */
void head_stop_gathering(launch_session *session, int signal_number);

/* Refuses a launcher that is not in the job, and says why: to it, and here. */
void head_refuse(launch_session *session, int node, const char *hostname, const base_error *why);

/* A second launcher connects as a node that is here already, or was. */
void head_refuse_second(launch_session *session, int node);

/* An agent has gone while agents gather (`why`). Another launcher may take its place. */
void head_leave(launch_session *session, int node, const char *why);

/* ---- head_files.c ---- */

/* Sends what an agent has asked for. False: it may not. */
bool head_send_chunk(launch_session *session, int node, const Ringfence__Control__Fetch *fetch);

/* Shows how far agents are with the job's files. */
void head_show_files(launch_session *session, int node,
                     const Ringfence__Control__Heartbeat *heartbeat);

/* Fetches the states of a node's ended ranks, one after the other. A rank whose state is here has
 * exited (launch_watch_exit). */
void head_fetch_states(launch_session *session, int node);

/* Takes a part of a state. False: it was not asked for. */
bool head_take_chunk(launch_session *session, int node, const Ringfence__Control__Chunk *chunk);

/* Fetches no more states: the job is ended at once. */
void head_drop_states(launch_session *session, int node);

/* ---- lease.c: for jobs that may cost money ---- */

/* Sends an agent the leases of its own ranks. */
BASE_MUST_CHECK base_status head_send_leases(launch_session *session, int node, base_error *reterr);

/* Says what the loss of a host means for the money, if ranks ran there. */
void head_say_unseen(launch_session *session, int node);

/* ---- head_faults.c ---- */

/* Whether a host that was sent away is not let in now: while hosts gather that are enough, or may be soon. */
bool head_keeps_away(const launch_session *session, int node);

/* ---- head_messages.c ---- */

void head_handle(launch_session *session, int node, const envelope_type *envelope);

#endif
