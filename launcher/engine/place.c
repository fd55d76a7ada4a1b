/* Finds which of a job's launchers this one is: one row for each engine. Called by
 * cli/options_hosts.c. */
#include "engine/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "proto/limits.h"

enum { FD_MAX = 1 << 20, PORT_MAX = 65535, MASTER_PORT_DEFAULT = 29500 };

typedef struct search {
    const launch_place_flags *flags;
    launch_variable *variable;
    void *user;
} search;

typedef struct engine_row {
    const char *name;
    const char *marker; /* the variable that shows the engine */
    const char *shown;  /* the same, for people */
    const char *node;
    const char *nodes; /* NULL: the engine does not say in a variable */
    /* What else its place has. NULL: nothing. */
    base_status (*complete)(const search *from, launch_place *place, base_error *reterr);
    const char *again;
    bool has_store;
    bool ends_others;
} engine_row;

static const char *look_up(const search *from, const char *name)
{
    const char *value = from->variable(from->user, name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static base_status read_number(const search *from, const char *name, int64_t most, int64_t *number,
                               base_error *reterr)
{
    const char *text = look_up(from, name);
    char *end = NULL;
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s is not in the environment", name);
    }
    const bool digits = text[0] >= '0' && text[0] <= '9' && strlen(text) < 10;
    *number = digits ? strtol(text, &end, 10) : -1;
    if (!digits || *end != '\0' || *number > most) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s=%.64s in the environment: must be a number up to %" PRId64, name, text,
                         most);
    }
    return BASE_OK;
}

static base_status complete_pmi(const search *from, launch_place *place, base_error *reterr)
{
    int64_t fd = -1;
    const base_status status = read_number(from, "PMI_FD", FD_MAX, &fd, reterr);
    place->pmi_fd = (int)fd;
    return status != BASE_OK || fd > STDERR_FILENO
               ? status
               : base_fail(reterr, BASE_ERR_INVALID,
                           "PMI_FD=%" PRId64 " in the environment: must be no standard descriptor",
                           fd);
}

/* Names the step: "cluster-12.0", and ".1" behind it once it was requeued. The name becomes that of a
 * file. */
static base_status complete_slurm(const search *from, launch_place *place, base_error *reterr)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const char *cluster = look_up(from, "SLURM_CLUSTER_NAME");
    const char *job = look_up(from, "SLURM_JOB_ID");
    const char *restarts = look_up(from, "SLURM_RESTART_COUNT");
    const int length = snprintf(place->step, sizeof place->step, "%s-%s.%s%s%s",
                                cluster != NULL ? cluster : "slurm", job != NULL ? job : "?",
                                look_up(from, "SLURM_STEP_ID"), restarts != NULL ? "." : "",
                                restarts != NULL ? restarts : "");
    if (length >= (int)sizeof place->step || strspn(place->step, allowed) != (size_t)length) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "Slurm's variables name no step: SLURM_JOB_ID=%.32s in cluster %.64s",
                         job != NULL ? job : "", cluster != NULL ? cluster : "");
    }
    return BASE_OK;
}

/* MASTER_ADDR, and MASTER_PORT + `added`. */
static base_status name_master(const search *from, int64_t added, launch_place *place,
                               base_error *reterr)
{
    const char *address = look_up(from, "MASTER_ADDR");
    int64_t port = MASTER_PORT_DEFAULT;
    if (address == NULL) {
        return BASE_OK;
    }
    if (look_up(from, "MASTER_PORT") != NULL) {
        const base_status status =
            read_number(from, "MASTER_PORT", PORT_MAX - added, &port, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    const bool brackets = strchr(address, ':') != NULL && address[0] != '[';
    (void)snprintf(place->rendezvous, sizeof place->rendezvous, "tcp://%s%s%s:%" PRId64,
                   brackets ? "[" : "", address, brackets ? "]" : "", port + added);
    return BASE_OK;
}

/* torchrun's own store listens at MASTER_PORT. */
static base_status complete_torchrun(const search *from, launch_place *place, base_error *reterr)
{
    return name_master(from, 1, place, reterr);
}

static base_status complete_variables(const search *from, launch_place *place, base_error *reterr)
{
    return name_master(from, 0, place, reterr);
}

static const engine_row rows[] = {
    [LAUNCH_ENGINE_NONE] = {.name = "the command line", .again = "start all launchers again"},
    [LAUNCH_ENGINE_PMIX] = {"PMIx", "PMIX_RANK", "PMIX_RANK is set", "PMIX_RANK", NULL, NULL,
                            "run mpirun again", true, true},
    [LAUNCH_ENGINE_PMI] = {"PMI-1", "PMI_FD", "PMI_FD is set", "PMI_RANK", "PMI_SIZE", complete_pmi,
                           "run mpirun again", true, true},
    [LAUNCH_ENGINE_SLURM] = {"srun", "SLURM_STEP_ID", "SLURM_STEP_ID is set", "SLURM_PROCID",
                             "SLURM_STEP_NUM_TASKS", complete_slurm, NULL, false, true},
    [LAUNCH_ENGINE_TORCHRUN] = {"torchrun", "GROUP_RANK", "GROUP_RANK is set", "RANK", "WORLD_SIZE",
                                complete_torchrun, "torchrun --max-restarts does that", false,
                                false},
    [LAUNCH_ENGINE_KUBERNETES] = {"Kubernetes", "JOB_COMPLETION_INDEX",
                                  "JOB_COMPLETION_INDEX is set", "JOB_COMPLETION_INDEX", NULL, NULL,
                                  "delete the Job, and apply it again with a new key", false,
                                  false},
    [LAUNCH_ENGINE_VARIABLES] = {"RANK and WORLD_SIZE", "WORLD_SIZE", "RANK and WORLD_SIZE are set",
                                 "RANK", "WORLD_SIZE", complete_variables,
                                 "start all launchers again", false, false},
};
_Static_assert(sizeof rows / sizeof rows[0] == LAUNCH_ENGINE_LAST + 1, "a row for each engine");

const char *launch_engine_name(launch_engine engine)
{
    return rows[engine].name;
}

void launch_engine_explain(launch_engine engine, base_error *error)
{
    if (engine != LAUNCH_ENGINE_NONE) {
        base_text_append(error->message, sizeof error->message, " (%s; to run alone: --nodes 1)",
                         rows[engine].shown);
    }
}

bool launch_engine_has_store(launch_engine engine)
{
    return rows[engine].has_store;
}

bool launch_engine_ends_others(launch_engine engine)
{
    return rows[engine].ends_others;
}

void launch_place_describe(const launch_place *place, char text[LAUNCH_PLACE_TEXT_BYTES])
{
    (void)snprintf(text, LAUNCH_PLACE_TEXT_BYTES, "%s%s", rows[place->engine].name,
                   place->in_slurm && place->engine != LAUNCH_ENGINE_SLURM ? ", in a job of Slurm"
                                                                           : "");
}

const char *launch_place_again(const launch_place *place)
{
    return place->in_slurm ? "Slurm does that: sbatch --requeue, or scontrol requeue JOB"
                           : rows[place->engine].again;
}

/* Whether the engine has started this launcher as one of several. */
static bool is_there(const search *from, launch_engine engine)
{
    const char *marker = look_up(from, rows[engine].marker);
    if (engine ==
        LAUNCH_ENGINE_KUBERNETES) { /* an index alone may number jobs that know nothing of each other */
        return marker != NULL && from->flags->nodes_given;
    }
    if (engine ==
        LAUNCH_ENGINE_VARIABLES) { /* scripts have a WORLD_SIZE of 1, or a RANK, at hand */
        return marker != NULL && strcmp(marker, "1") != 0 && look_up(from, "RANK") != NULL;
    }
    return marker != NULL;
}

static base_status take_row(const search *from, launch_engine engine, launch_place *place,
                            base_error *reterr)
{
    const engine_row *row = &rows[engine];
    int64_t nodes = 0;
    base_status status = BASE_OK;
    place->engine = engine;
    if (row->nodes != NULL) {
        status = read_number(from, row->nodes, PROTO_NODES_MAX, &nodes, reterr);
    }
    place->nodes = nodes;
    if (status == BASE_OK) {
        status = read_number(from, row->node, PROTO_NODES_MAX - 1, &place->node, reterr);
    }
    if (status == BASE_OK && row->nodes != NULL && place->node >= place->nodes) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s=%" PRId64 " with %s=%" PRId64, row->node,
                           place->node, row->nodes, place->nodes);
    }
    if (status == BASE_OK && row->complete != NULL) {
        status = row->complete(from, place, reterr);
    }
    if (status == BASE_OK && from->flags->nodes_given && row->nodes != NULL &&
        from->flags->nodes != place->nodes) {
        status = base_fail(reterr, BASE_ERR_INVALID,
                           "--nodes %" PRId64 ", but %s has started %" PRId64
                           " (with --node-rank, the command line alone decides)",
                           from->flags->nodes, row->name, place->nodes);
    }
    if (from->flags->nodes_given && row->nodes == NULL) {
        place->nodes = from->flags->nodes;
    }
    return status;
}

base_status launch_place_find(const launch_place_flags *flags, launch_variable *variable,
                              void *user, launch_place *place, base_error *reterr)
{
    const search from = {.flags = flags, .variable = variable, .user = user};
    *place = (launch_place){.nodes = flags->nodes,
                            .node = flags->node_rank,
                            .pmi_fd = -1,
                            .in_slurm = look_up(&from, "SLURM_JOB_ID") != NULL};
    /* a launcher that a rank of another launcher has started stands alone */
    if (flags->node_rank_given || (flags->nodes_given && flags->nodes == 1) ||
        look_up(&from, "RINGFENCE_JOB_FD") != NULL) {
        return BASE_OK;
    }
    for (int engine = LAUNCH_ENGINE_PMIX; engine <= LAUNCH_ENGINE_LAST; engine++) {
        if (is_there(&from, (launch_engine)engine)) {
            base_error error = {.message = ""};
            const base_status status = take_row(&from, (launch_engine)engine, place, &error);
            if (status != BASE_OK) {
                launch_engine_explain((launch_engine)engine, &error);
                (void)base_fail(reterr, status, "%s", error.message);
            }
            return status;
        }
    }
    return BASE_OK;
}
