/* Finds a launcher's place in what the command line and the environment say. Pure: the caller looks
 * variables up. Thread safe. */
#ifndef LAUNCH_ENGINE_PLACE_H
#define LAUNCH_ENGINE_PLACE_H

#include "base/status.h"
#include "launch/place.h"

/* What the command line says. */
typedef struct launch_place_flags {
    bool nodes_given;
    bool node_rank_given;
    int64_t nodes;
    int64_t node_rank;
} launch_place_flags;

/* The value of an environment variable; NULL: it is not set. */
typedef const char *launch_variable(void *user, const char *name);

/* The command line comes first, then the engines in the order of their enum. --nodes without
 * --node-rank leaves the node to the engine. BASE_ERR_INVALID: a variable has no number in range,
 * or --nodes is another number than the engine's. */
BASE_MUST_CHECK base_status launch_place_find(const launch_place_flags *flags,
                                              launch_variable *variable, void *user,
                                              launch_place *place, base_error *reterr);

/* "PMIx", "srun", "torchrun", as the record and messages name the engine; "the command line". */
const char *launch_engine_name(launch_engine engine);

/* Appends to an error why the engine is taken to have started the launcher, and how to run without it:
 * its variables may be left over. Nothing for the command line. */
void launch_engine_explain(launch_engine engine, base_error *error);

/* Whether it has a key-value store, by which launchers find each other. */
bool launch_engine_has_store(launch_engine engine);

/* Whether the engine ends all launchers as soon as one fails. The head must be last there. */
bool launch_engine_ends_others(launch_engine engine);

/* "PMIx", "PMI-1, in a job of Slurm": what has started the launcher. */
void launch_place_describe(const launch_place *place, char text[LAUNCH_PLACE_TEXT_BYTES]);

/* How a failed job is started again there: "submit it with sbatch --requeue, …". */
const char *launch_place_again(const launch_place *place);

#endif
