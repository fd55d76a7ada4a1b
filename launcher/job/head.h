/* The head's side of a job on several hosts: the launchers of the other hosts (agents), as the head
 * sees them.
 *
 * Agents connect to a ROUTER of their own, at the rendezvous. Ranks of all hosts connect to the
 * launcher's other ROUTER, as on one host. gather.c lets agents enrol, and hands out the job. head.c
 * sends and receives heartbeats, and checks who is lost. head_attempts.c says who takes part. head_messages.c handles what agents say of their
 * ranks. Node 0 is the head itself. One thread. */
#ifndef LAUNCH_HEAD_H
#define LAUNCH_HEAD_H

#include <poll.h>

#include "job/session.h"

typedef struct launch_head launch_head;

/* Reads the job key, and listens at the rendezvous; in a later attempt that is done. session->head is set, and
 * the nodes of ranks are. */
BASE_MUST_CHECK base_status launch_head_open(launch_session *session, base_error *reterr);

/* Waits until all agents have enrolled and taken the job. If the user has ended it,
 * or not all have come in time, something is blamed. */
void launch_head_gather(launch_session *session);

/* Tells all agents to start their ranks. session->bus listens. */
BASE_MUST_CHECK base_status launch_head_begin(launch_session *session,
                                              const uint8_t launcher_public_key[PROTO_KEY_BYTES],
                                              const uint8_t collectives_key[PROTO_KEY_BYTES],
                                              base_error *reterr);

/* How many ranks this host has. */
int launch_head_own_ranks(const launch_head *head);

/* The secret that a node's ranks have their keys from. */
const uint8_t *launch_head_seed(const launch_head *head, int node);

/* Whether each agent's disk has room for the states that its ranks save there before they are fetched. NULL is
 * fine. BASE_ERR_LIMIT names the first host that has not. If an attempt has ended for that host, and none with it has come
 * to a checkpoint since, it is sent away where the job may do without it: `*fails_again` is false then. */
BASE_MUST_CHECK base_status launch_head_check_room(launch_session *session, bool *fails_again,
                                                   base_error *reterr);

/* When an attempt has ended: counts a failure against the host that it is of, and sends that host away if it is not
 * the first in a row and the job may do without it. Where two hosts do not reach each other, says so; another
 * attempt would not, so none follows if the job needs both. NULL is fine. */
void launch_head_judge(launch_session *session);

/* Where to bind the ranks' ROUTER: numeric, or "*". */
const char *launch_head_address(const launch_head *head);

/* Where the head's own ranks connect to: the address by which other hosts know the head. */
void launch_head_own_endpoint(const launch_head *head, const char *bound,
                              char endpoint[PROTO_ENDPOINT_BYTES]);

const char *launch_head_hostname(const launch_head *head, int node);

/* How many ranks run on the host of a node, if several launchers share it. */
int launch_head_local_ranks(const launch_head *head, int node);

/* Handles all messages and events of agents. NULL is fine. */
void launch_head_drain(launch_session *session);

/* Sends heartbeats, and checks silent hosts. Returns when it must be called again. */
int64_t launch_head_due(launch_session *session, int64_t now_ns);

/* What to poll, PROTO_BUS_FDS of them. Nothing without a head. */
void launch_head_polls(const launch_session *session, struct pollfd *polls);

void launch_head_signal(launch_head *head, int node, int rank, int signal_number);

/* Tells the agents that this attempt has ended, and that they are to enrol for the next one. What is kept for
 * that is in options->kept_head: the socket, and nothing of the agents. NULL is fine. */
void launch_head_leave_attempt(launch_session *session);

/* Tells the agents how the job has ended, waits a moment until they have left, and frees. NULL is
 * fine. */
void launch_head_close(launch_session *session, int exit_code, const char *reason);

#endif
