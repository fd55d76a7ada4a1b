/* How the launchers of a job get each other's keys, and learn where the head listens.
 *
 * - A job key: all launchers have the file, and derive all keys from it. The command line or the
 *   engine names the head's address.
 * - A key-value store of the engine: each launcher makes a pair of its own and puts the public half
 *   into the store; the head puts its addresses there as well.
 * - Slurm without such a store: the head writes a job key, and its addresses, into a file of the
 *   shared home directory that is named after the step, and removes it when all have joined.
 *
 * One thread. It has secrets: close wipes them. */
#ifndef LAUNCH_ENGINE_BOOTSTRAP_H
#define LAUNCH_ENGINE_BOOTSTRAP_H

#include "engine/address.h"
#include "engine/store.h"
#include "launch/hosts.h"
#include "proto/job_key.h"

typedef struct launch_bootstrap {
    const launch_hosts_options *hosts;
    char run_id[PROTO_RUN_ID_BYTES];
    proto_keypair own;
    uint8_t (*public_keys)[PROTO_KEY_BYTES]; /* (hosts->nodes); an agent has the head's alone */
    /* where the head is: numeric */
    base_addresses addresses;
    int port;
    base_question *question;       /* for the addresses of --rendezvous; NULL: none is open */
    const launch_store_kind *kind; /* NULL: no store */
    void *store;                   /* NULL: not open any more */
    proto_job_key key;             /* of the file */
    char file[BASE_PATH_BYTES];    /* Slurm's, in the home directory; empty: none */
} launch_bootstrap;

/* Gets this launcher's pair. The head gets the public keys of all, too. An agent with a store also
 * learns where the head listens. Blocks until all launchers have come; `wait` says for how long.
 * Close it also after a failure. */
BASE_MUST_CHECK base_status launch_bootstrap_open(const launch_hosts_options *hosts,
                                                  const launch_wait *wait,
                                                  launch_bootstrap *bootstrap, base_error *reterr);

/* Whether the head listens where --rendezvous says; else at any address and port. */
bool launch_bootstrap_has_address(const launch_bootstrap *bootstrap);

/* The head: tells the agents at which port it listens. */
BASE_MUST_CHECK base_status launch_bootstrap_publish(launch_bootstrap *bootstrap, int port,
                                                     const launch_wait *wait, base_error *reterr);

/* Finds out anew where the head is, or is to listen. BASE_ERR_NOTFOUND: not yet known, or no such host.
 * BASE_ERR_TIMEOUT: no name server has answered by the end of `wait`; the next call waits on.
 * BASE_ERR_ABORTED: a signal asks for the end. */
BASE_MUST_CHECK base_status launch_bootstrap_locate(launch_bootstrap *bootstrap,
                                                    const launch_wait *wait, base_error *reterr);

/* Nobody needs what the head has published any more. */
void launch_bootstrap_withdraw(launch_bootstrap *bootstrap);

void launch_bootstrap_close(launch_bootstrap *bootstrap);

#endif
