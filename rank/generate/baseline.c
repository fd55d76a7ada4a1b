/* --baseline: runs the two phases that a tensor-parallel run is compared with. Called by mode.c.
 *
 * While rank 0 works alone, the other ranks sleep in a broadcast of one word. Rank 0 repeats it
 * between its steps, before it could time out. */
#include "generate/baseline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "generate/alone.h"
#include "generate/free_memory.h"
#include "ringfence/coll_error.h"

typedef struct phase_run {
    const rank_generate_options *tp; /* those of the tensor-parallel phase, with the communicator */
    rank_phase *phase;
    size_t first; /* prompt i of this rank is number first + i * stride */
    size_t stride;
    rank_alone alone;
    base_status status; /* of a callback */
    base_error error;
} phase_run;

bool rank_baseline_fits(uint64_t model_bytes, int copies, uint64_t free_bytes,
                        char reason[BASE_ERROR_MESSAGE_BYTES])
{
    const uint64_t needed = model_bytes + model_bytes / 8; /* the weights and scratch memory */
    reason[0] = '\0';
    if (free_bytes / (uint64_t)copies >= needed) {
        return true;
    }
    (void)snprintf(reason, BASE_ERROR_MESSAGE_BYTES,
                   "%d whole %s of %" PRIu64 " MB do not fit into the %" PRIu64
                   " MB of memory that are free",
                   copies, copies == 1 ? "model" : "models", needed >> 20, free_bytes >> 20);
    return false;
}

/* The ranks of a host share its memory; each device has its own. */
static bool has_room(const rank_generate_options *options, int ranks,
                     char reason[BASE_ERROR_MESSAGE_BYTES])
{
    const rank_device *device = options->device;
    const uint64_t model_bytes =
        rank_model_param_count(options->config) * rank_type_bytes(options->type);
    return device->backend->free_bytes == NULL
               ? rank_baseline_fits(model_bytes, ranks, rank_free_memory_bytes(""), reason)
               : rank_baseline_fits(model_bytes, 1, device->backend->free_bytes(device->queue),
                                    reason);
}

/* Whether every rank has room for a whole model; else says why not. */
static base_status all_have_room(const rank_generate_options *options, bool *all,
                                 char reason[BASE_ERROR_MESSAGE_BYTES], base_error *reterr)
{
    coll_error error;
    int32_t mine = has_room(options, coll_comm_size(options->comm), reason) ? 1 : 0;
    int32_t least = 0;
    const base_status status =
        coll_to_base(coll_all_reduce(options->comm, &mine, &least, 1, COLL_INT32, COLL_MIN, &error),
                     &error, reterr);
    *all = least != 0;
    if (status == BASE_OK && mine > least) {
        (void)snprintf(reason, BASE_ERROR_MESSAGE_BYTES,
                       "a whole model does not fit into the memory that another rank has free");
    }
    return status;
}

/* should_stop of rank 0 while it works alone. Called before each step. */
static bool keep_waiting(void *user)
{
    phase_run *run = user;
    if (run->status == BASE_OK) {
        run->status = rank_alone_tick(&run->alone, &run->error);
    }
    const bool asked = run->tp->should_stop != NULL && run->tp->should_stop(run->tp->stop_user);
    return run->status != BASE_OK || asked;
}

static void take_timing(void *user, const rank_answer *answer)
{
    phase_run *run = user;
    rank_timing *timing = &run->phase->timings[run->first + answer->index * run->stride];
    if (run->status == BASE_OK) {
        run->status = rank_timing_of(answer, timing, &run->error);
    }
}

/* Answers this rank's prompts with a model of its own. */
static base_status answer_alone(phase_run *run, const rank_generate_options *options,
                                const char *const *prompts, size_t count, base_error *reterr)
{
    rank_generate_report report = {.steps = 0};
    const char **mine = calloc(count + 1, sizeof *mine);
    size_t mine_count = 0;
    if (mine == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for prompts");
    }
    for (size_t i = run->first; i < count; i += run->stride) {
        mine[mine_count++] = prompts[i];
    }
    rank_generate_options timing = *options;
    timing.on_answer = take_timing;
    timing.answer_user = run;
    base_status status = rank_generate(&timing, mine, mine_count, &report, reterr);
    free(mine);
    if (status == BASE_OK && run->status != BASE_OK) {
        *reterr = run->error;
        status = run->status;
    }
    run->phase->tokens = (double)report.sampled;
    run->phase->seconds = (double)report.step_ns / 1e9;
    return status;
}

/* Runs rank 0 alone. *state is its last broadcast. */
static base_status run_single(phase_run *run, const char *const *prompts, size_t count,
                              rank_alone_state *state, base_error *reterr)
{
    rank_generate_options options = *run->tp;
    base_error broadcast_error = {0};
    options.comm = NULL;
    options.index_first = 0;
    options.index_stride = 1;
    options.should_stop = keep_waiting;
    options.stop_user = run;
    const base_status status = answer_alone(run, &options, prompts, count, reterr);
    *state = status == BASE_OK           ? RANK_ALONE_DONE
             : status == BASE_ERR_MEMORY ? RANK_ALONE_NO_ROOM
                                         : RANK_ALONE_FAILED;
    if (run->status != BASE_OK) {
        return status; /* the other ranks have gone */
    }
    const base_status broadcast = rank_alone_end(&run->alone, *state, &broadcast_error);
    if (status == BASE_OK && broadcast != BASE_OK) {
        *reterr = broadcast_error;
        return broadcast;
    }
    return status;
}

/* A barrier: no rank begins before all have loaded and are warm. */
static base_status meet(void *user, const rank_generate_report *memory, base_error *reterr)
{
    coll_error error;
    (void)memory;
    const phase_run *run = user;
    int32_t here = 1;
    int32_t all = 0;
    return coll_to_base(
        coll_all_reduce(run->tp->comm, &here, &all, 1, COLL_INT32, COLL_SUM, &error), &error,
        reterr);
}

/* Gives rank 0 the results of all ranks: sums where one rank has the value, and the longest
 * time. */
static base_status merge(coll_comm *comm, rank_phase *phase, size_t count, base_error *reterr)
{
    coll_error error;
    base_status status =
        coll_to_base(coll_all_reduce(comm, phase->timings, phase->timings,
                                     count * RANK_TIMING_DOUBLES, COLL_FLOAT64, COLL_SUM, &error),
                     &error, reterr);
    if (status == BASE_OK) {
        status = coll_to_base(coll_all_reduce(comm, &phase->tokens, &phase->tokens, 1, COLL_FLOAT64,
                                              COLL_SUM, &error),
                              &error, reterr);
    }
    if (status == BASE_OK) {
        status = coll_to_base(coll_all_reduce(comm, &phase->seconds, &phase->seconds, 1,
                                              COLL_FLOAT64, COLL_MAX, &error),
                              &error, reterr);
    }
    return status;
}

static base_status run_replicas(phase_run *run, const char *const *prompts, size_t count,
                                base_error *reterr)
{
    rank_generate_options options = *run->tp;
    options.comm = NULL;
    options.index_first = run->first;
    options.index_stride = run->stride;
    options.on_warm = meet;
    options.warm_user = run;
    const base_status status = answer_alone(run, &options, prompts, count, reterr);
    return status == BASE_OK ? merge(run->tp->comm, run->phase, count, reterr) : status;
}

static base_status run_both(const rank_generate_options *options, const char *const *prompts,
                            size_t count, rank_baseline *baseline, base_error *reterr)
{
    const int rank = coll_comm_rank(options->comm);
    const int ranks = coll_comm_size(options->comm);
    phase_run single = {
        .tp = options, .phase = &baseline->single, .stride = 1, .alone = {.comm = options->comm}};
    phase_run replicas = {.tp = options,
                          .phase = &baseline->replicas,
                          .first = (size_t)rank,
                          .stride = (size_t)ranks};
    rank_alone_state state = RANK_ALONE_WAIT;
    bool room = false;
    base_status status = all_have_room(options, &room, baseline->reason, reterr);
    if (status != BASE_OK || !room) {
        return status;
    }
    if (rank != 0) {
        status = rank_alone_sleep(options->comm, &state, reterr);
    } else {
        base_error error = {0};
        status = run_single(&single, prompts, count, &state, &error);
        if (state == RANK_ALONE_NO_ROOM) {
            memcpy(baseline->reason, error.message, sizeof baseline->reason);
            status = BASE_OK;
        } else if (status != BASE_OK && reterr != NULL) {
            *reterr = error;
        }
    }
    if (status == BASE_OK && state == RANK_ALONE_FAILED) {
        return base_fail(reterr, BASE_ERR_PEER, "rank 0 failed in --baseline");
    }
    return status == BASE_OK && state == RANK_ALONE_DONE
               ? run_replicas(&replicas, prompts, count, reterr)
               : status;
}

base_status rank_baseline_run(const rank_generate_options *options, const char *const *prompts,
                              size_t count, rank_baseline *baseline, base_error *reterr)
{
    *baseline = (rank_baseline){.reason = ""};
    baseline->single.timings = calloc(count + 1, sizeof *baseline->single.timings);
    baseline->replicas.timings = calloc(count + 1, sizeof *baseline->replicas.timings);
    if (baseline->single.timings == NULL || baseline->replicas.timings == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for --baseline");
    }
    return run_both(options, prompts, count, baseline, reterr);
}

void rank_baseline_fini(rank_baseline *baseline)
{
    free(baseline->single.timings);
    free(baseline->replicas.timings);
    *baseline = (rank_baseline){.reason = ""};
}
