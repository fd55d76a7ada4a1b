/* A job on several hosts: each has a launcher. That of node 0 is the head: it reads the job's flags,
 * lets all find each other, and writes the record. The others are agents: they start the ranks of
 * their own hosts, and watch them for the head. */
#ifndef LAUNCH_HOSTS_H
#define LAUNCH_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/ports.h"
#include "base/status.h"
#include "launch/place.h"
#include "proto/limits.h"

enum {
    LAUNCH_HEARTBEAT_MS = 1000,   /* between two heartbeats of head and agents */
    LAUNCH_SILENCE_MS = 5 * 1000, /* a host that says nothing so long is shown */
    LAUNCH_HOST_TIMEOUT_MS = 15 * 1000,
    LAUNCH_HOST_TIMEOUT_MIN_MS = 3 * 1000,
    LAUNCH_SLEPT_MS = 2 * 1000, /* a launcher whose own loop stood still so long judges nobody */
    LAUNCH_HOSTS_CAUSE_WAIT_MS = 1000, /* a failure's cause on another host shows so late */
    LAUNCH_RETRY_MIN_MS = 10,          /* between the first two attempts to reach the head */
    LAUNCH_RETRY_MS = 200,             /* between two later ones */
    LAUNCH_RESOLVE_MS = 200, /* an attempt waits so long for a name server; the next goes on */
    LAUNCH_FAREWELL_MS = 2 * 1000,     /* the head waits so long for agents to leave */
    LAUNCH_FILES_SHOWN_MS = 10 * 1000, /* between two lines about files that are fetched */
    LAUNCH_MESSAGES_AT_ONCE = 64, /* of other launchers, until signals and pipes are looked at */
};

/* Of each flag of a job, and last of the program behind -- (job/flag_digests.h). */
typedef struct launch_flag_digests {
    uint8_t bytes[PROTO_FLAG_DIGESTS_MAX][PROTO_FLAG_DIGEST_BYTES];
    int count;
} launch_flag_digests;

typedef struct launch_hosts_options {
    launch_place place; /* nodes and node_rank are its own, too */
    void *store; /* of the engine, open until the launchers have met: an engine ends the others
                         * if one exits meanwhile; NULL: none */
    bool nodes_given;
    bool node_rank_given;
    int64_t nodes; /* 1: this launcher alone */
    int64_t node_rank;
    int64_t ranks_per_node;                   /* 0: not given */
    int64_t min_nodes;                        /* with which the job may go on; 0: with all alone */
    char rendezvous[LAUNCH_RENDEZVOUS_BYTES]; /* "tcp://host:port", as given; empty: not given */
    char job_key[BASE_PATH_BYTES];            /* the file; empty: not given */
    int64_t host_timeout_ms;
    char ports[BASE_PORTS_BYTES]; /* --listen-ports, "29500-29599", valid; empty: any */
    char cache[BASE_PATH_BYTES];  /* of files fetched from the head; empty: the default */
    bool has_flags;               /* the command line has flags of the job */
    launch_flag_digests flag_digests;
} launch_hosts_options;

#endif
