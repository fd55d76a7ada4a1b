/* An engine's key-value store, by which the launchers of a job tell each other how to meet: PMI-1
 * (engine/pmi.c) or PMIx (engine/pmix.c). One thread.
 *
 * What one launcher has put, all may get once all have passed the next fence. Whoever can read or
 * write the store can read or write what the engine's own processes do: so it carries no secrets,
 * and public keys in it are as trustworthy as the engine. */
#ifndef LAUNCH_ENGINE_STORE_H
#define LAUNCH_ENGINE_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "launch/place.h"

enum {
    LAUNCH_STORE_KEY_BYTES = 64,
    LAUNCH_STORE_VALUE_BYTES = 1024, /* with the final NUL; PMI-1 has no more */
};

/* Whether the signal asks a launcher for the end: SIGINT, SIGTERM or SIGHUP, and in a job of Slurm
 * SIGUSR1, too. */
bool launch_signal_ends(int number, bool in_slurm);

/* When waiting ends. */
typedef struct launch_wait {
    int64_t deadline_ns;
    int signal_fd; /* of launch_signals_open: a signal that ends a job ends it; -1: none */
    bool in_slurm; /* of launch_place */
    int *ended_by; /* is set to the signal that ended it; NULL: nobody asks */
} launch_wait;

/* A store as an engine offers it. `state` is what open has made. */
typedef struct launch_store_kind {
    base_status (*open)(const launch_place *place, const launch_wait *wait, void **state,
                        base_error *reterr);
    /* How many launchers there are. */
    base_status (*size)(void *state, int64_t *size, base_error *reterr);
    base_status (*put)(void *state, const char *key, const char *value, base_error *reterr);
    base_status (*fence)(void *state, const launch_wait *wait, base_error *reterr);
    base_status (*get)(void *state, int node, const char *key, char value[LAUNCH_STORE_VALUE_BYTES],
                       base_error *reterr);
    void (*close)(void *state);
} launch_store_kind;

extern const launch_store_kind launch_store_pmi;
extern const launch_store_kind launch_store_pmix;

/* The engine's store; NULL: it has none. */
const launch_store_kind *launch_store_of(launch_engine engine);

/* BASE_OK: the descriptor can be read. BASE_ERR_TIMEOUT: the deadline has passed.
 * BASE_ERR_ABORTED: a signal asks for the end. */
BASE_MUST_CHECK base_status launch_store_wait(int fd, const launch_wait *wait, base_error *reterr);

#endif
