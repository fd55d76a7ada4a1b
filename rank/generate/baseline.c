/* --baseline: runs the two phases that a tensor-parallel run is compared with, and then all three in
 * turns. Called by mode.c.
 *
 * While rank 0 works alone, the other ranks sleep (alone.h). */
#include "generate/baseline.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/free_memory.h"
#include "checkpoint/shards.h"
#include "generate/alone.h"
#include "ringfence/coll_error.h"

static const double ROUNDS_S = 5; /* no round begins later */

typedef struct phase_run {
    const rank_generate_options *tp; /* those of the tensor-parallel phase, with the communicator */
    rank_pass *pass;
    size_t first; /* prompt i of this rank is number first + i * stride */
    size_t stride;
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

static uint64_t whole_bytes(const rank_device *device, const rank_model_config *config,
                            rank_type type)
{
    const rank_tp one = {.ranks = 1,
                         .vocab_count = RANK_TP_LEAVES * rank_tp_leaf_width(config->vocab_size)};
    return rank_shards_plan(
        &(rank_shards_options){.config = config, .device = device, .tp = &one, .type = type});
}

/* What a rank that has the whole model needs for its weights. */
static uint64_t model_bytes_of(const rank_generate_options *options)
{
    const rank_draft_model *draft = options->draft;
    return whole_bytes(options->device, options->config, options->type) +
           (draft != NULL ? whole_bytes(options->device, &draft->config, draft->type) : 0);
}

/* The ranks of a host share its memory; each device has its own. */
static bool has_room(const rank_generate_options *options, int ranks,
                     char reason[BASE_ERROR_MESSAGE_BYTES])
{
    const rank_device *device = options->device;
    const uint64_t model_bytes = model_bytes_of(options);
    return device->backend->free_bytes == NULL
               ? rank_baseline_fits(model_bytes, ranks, base_free_memory_bytes(""), reason)
               : rank_baseline_fits(model_bytes, 1, device->backend->free_bytes(device->queue),
                                    reason);
}

/* Whether every rank has room for a whole model; else says why not. */
static base_status all_have_room(const rank_generate_options *options, bool *all,
                                 char reason[BASE_ERROR_MESSAGE_BYTES], base_error *reterr)
{
    int32_t mine = has_room(options, coll_comm_size(options->comm), reason) ? 1 : 0;
    int32_t least = 0;
    const base_status status = (base_status)coll_all_reduce(
        options->comm, &mine, &least, 1, COLL_INT32, COLL_MIN, coll_error_of(reterr));
    *all = least != 0;
    if (status == BASE_OK && mine > least) {
        (void)snprintf(reason, BASE_ERROR_MESSAGE_BYTES,
                       "a whole model does not fit into the memory that another rank has free");
    }
    return status;
}

static void take_timing(void *user, const rank_answer *answer)
{
    phase_run *run = user;
    rank_timing *timing = &run->pass->timings[run->first + answer->index * run->stride];
    if (run->status == BASE_OK) {
        run->status = rank_timing_of(answer, timing, &run->error);
    }
}

/* Answers this rank's prompts. */
static base_status answer_prompts(phase_run *run, const rank_generate_options *options,
                                  const char *const *prompts, size_t count, base_error *reterr)
{
    rank_generate_report report = {.graphs = 0};
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
    run->pass->tokens = (double)report.costs.sampled;
    run->pass->seconds = (double)report.costs.step_ns / 1e9;
    return status;
}

/* Runs rank 0 alone. *state is its last broadcast. */
static base_status run_single(phase_run *run, const char *const *prompts, size_t count,
                              rank_alone_state *state, base_error *reterr)
{
    rank_generate_options options = *run->tp;
    rank_alone alone = {.comm = run->tp->comm, .timeout_ns = run->tp->timeout_ns};
    base_error broadcast_error = {0};
    options.comm = NULL;
    options.alone = &alone;
    options.index_first = 0;
    options.index_stride = 1;
    const base_status status = answer_prompts(run, &options, prompts, count, reterr);
    *state = status == BASE_OK           ? RANK_ALONE_DONE
             : status == BASE_ERR_MEMORY ? RANK_ALONE_NO_ROOM
                                         : RANK_ALONE_FAILED;
    const base_status broadcast = rank_alone_end(&alone, *state, &broadcast_error);
    if (status == BASE_OK && broadcast != BASE_OK) {
        *reterr = broadcast_error;
        return broadcast;
    }
    return status;
}

/* A barrier: no rank begins before all have loaded and are warm. */
static base_status meet(void *user, const rank_generate_report *memory, base_error *reterr)
{
    (void)memory;
    const phase_run *run = user;
    int32_t here = 1;
    int32_t all = 0;
    return (base_status)coll_all_reduce(run->tp->comm, &here, &all, 1, COLL_INT32, COLL_SUM,
                                        coll_error_of(reterr));
}

/* Gives rank 0 the results of all ranks: sums where one rank has the value, and the longest
 * time. */
static base_status merge(coll_comm *comm, rank_pass *pass, size_t count, base_error *reterr)
{
    base_status status = (base_status)coll_all_reduce(comm, pass->timings, pass->timings,
                                                      count * RANK_TIMING_DOUBLES, COLL_FLOAT64,
                                                      COLL_SUM, coll_error_of(reterr));
    if (status == BASE_OK) {
        status = (base_status)coll_all_reduce(comm, &pass->tokens, &pass->tokens, 1, COLL_FLOAT64,
                                              COLL_SUM, coll_error_of(reterr));
    }
    if (status == BASE_OK) {
        status = (base_status)coll_all_reduce(comm, &pass->seconds, &pass->seconds, 1, COLL_FLOAT64,
                                              COLL_MAX, coll_error_of(reterr));
    }
    return status;
}

/* The comparison; the same on every rank but for the results. */
typedef struct comparison {
    const rank_generate_options *tp;
    const char *const *prompts;
    size_t count;
    rank_baseline *baseline;
    rank_pass again; /* the pass of a later round */
    int64_t began_ns;
} comparison;

/* *ran: there was room for a whole model. */
static base_status run_alone(const comparison *c, rank_pass *pass, bool *ran, base_error *reterr)
{
    phase_run single = {.tp = c->tp, .pass = pass, .stride = 1};
    rank_alone_state state = RANK_ALONE_WAIT;
    base_status status = BASE_OK;
    if (coll_comm_rank(c->tp->comm) != 0) {
        status = rank_alone_sleep(c->tp->comm, &state, reterr);
    } else {
        base_error error = {0};
        status = run_single(&single, c->prompts, c->count, &state, &error);
        if (state == RANK_ALONE_NO_ROOM) {
            memcpy(c->baseline->reason, error.message, sizeof c->baseline->reason);
            status = BASE_OK;
        } else if (status != BASE_OK && reterr != NULL) {
            *reterr = error;
        }
    }
    *ran = state == RANK_ALONE_DONE;
    return status == BASE_OK && state == RANK_ALONE_FAILED
               ? base_fail(reterr, BASE_ERR_PEER, "rank 0 failed in --baseline")
               : status;
}

static base_status run_together(const comparison *c, rank_pass *pass, base_error *reterr)
{
    phase_run run = {.tp = c->tp,
                     .pass = pass,
                     .first = (size_t)coll_comm_rank(c->tp->comm),
                     .stride = (size_t)coll_comm_size(c->tp->comm)};
    rank_generate_options options = *c->tp;
    options.comm = NULL;
    options.index_first = run.first;
    options.index_stride = run.stride;
    options.on_warm = meet;
    options.warm_user = &run;
    const base_status status = answer_prompts(&run, &options, c->prompts, c->count, reterr);
    return status == BASE_OK ? merge(c->tp->comm, pass, c->count, reterr) : status;
}

/* The tensor-parallel phase of a later round. */
static base_status run_cut(const comparison *c, rank_pass *pass, base_error *reterr)
{
    phase_run cut = {.tp = c->tp, .pass = pass, .stride = 1};
    return answer_prompts(&cut, c->tp, c->prompts, coll_comm_rank(c->tp->comm) == 0 ? c->count : 0,
                          reterr);
}

static void note_round(rank_phase *phase, int round, double per_token_ms, double tokens,
                       double seconds)
{
    phase->per_token_ms[round] = per_token_ms;
    phase->tokens_per_s[round] = seconds > 0 ? tokens / seconds : (double)NAN;
    phase->timed_s += seconds;
}

static void note_pass(const comparison *c, rank_phase *phase, const rank_pass *pass)
{
    note_round(phase, c->baseline->rounds, rank_timing_per_token_ms(pass->timings, c->count),
               pass->tokens, pass->seconds);
    for (size_t i = 0; phase->first.timings != NULL && i < c->count; i++) {
        rank_timing *first = &phase->first.timings[i];
        first->digest = pass->timings[i].digest == first->digest ? first->digest : (double)NAN;
    }
}

/* The pass that the phase's next round fills. */
static rank_pass *next_pass(comparison *c, rank_phase *phase)
{
    if (c->baseline->rounds == 0) {
        return &phase->first;
    }
    memset(c->again.timings, 0, c->count * sizeof *c->again.timings);
    return &c->again;
}

/* One round: the tensor-parallel phase, unless it has run, and the other two. *ran: it was a whole one. */
static base_status run_round(comparison *c, bool *ran, base_error *reterr)
{
    rank_baseline *baseline = c->baseline;
    base_status status = BASE_OK;
    *ran = false;
    if (baseline->rounds > 0) {
        rank_pass *pass = next_pass(c, &baseline->tp);
        status = run_cut(c, pass, reterr);
        note_pass(c, &baseline->tp, pass);
    }
    if (status == BASE_OK) {
        status = all_have_room(c->tp, ran, baseline->reason, reterr);
    }
    if (status == BASE_OK && *ran) {
        rank_pass *pass = next_pass(c, &baseline->single);
        status = run_alone(c, pass, ran, reterr);
        note_pass(c, &baseline->single, pass);
    }
    if (status == BASE_OK && *ran) {
        rank_pass *pass = next_pass(c, &baseline->replicas);
        status = run_together(c, pass, reterr);
        note_pass(c, &baseline->replicas, pass);
    }
    return status;
}

/* Rank 0 decides. */
static base_status decide(const comparison *c, bool *more, base_error *reterr)
{
    const rank_baseline *b = c->baseline;
    const double timed_s = fmin(b->tp.timed_s, fmin(b->single.timed_s, b->replicas.timed_s));
    const double elapsed_s = (double)(base_now_ns() - c->began_ns) / (double)BASE_NS_PER_S;
    const bool stopped = rank_generate_should_stop(c->tp);
    int32_t go_on = !stopped && rank_rounds_go_on(b->rounds, timed_s, elapsed_s, ROUNDS_S) ? 1 : 0;
    const base_status status =
        (base_status)coll_broadcast(c->tp->comm, &go_on, 1, COLL_INT32, 0, coll_error_of(reterr));
    *more = go_on != 0;
    return status;
}

static base_status run_rounds(comparison *c, base_error *reterr)
{
    bool more = true;
    base_status status = BASE_OK;
    while (status == BASE_OK && more) {
        bool ran = false;
        status = run_round(c, &ran, reterr);
        if (status != BASE_OK || !ran) {
            break;
        }
        c->baseline->rounds++;
        status = decide(c, &more, reterr);
    }
    if (c->baseline->rounds > 0) {
        c->baseline->reason[0] = '\0'; /* a later round had no room; those before it count */
    }
    return status;
}

base_status rank_baseline_run(const rank_generate_options *options, const char *const *prompts,
                              size_t count, const rank_generate_report *first,
                              rank_baseline *baseline, base_error *reterr)
{
    comparison c = {.tp = options,
                    .prompts = prompts,
                    .count = count,
                    .baseline = baseline,
                    .began_ns = base_now_ns()};
    *baseline = (rank_baseline){.reason = ""};
    note_round(&baseline->tp, 0, first->per_token_ms, (double)first->costs.sampled,
               (double)first->costs.step_ns / (double)BASE_NS_PER_S);
    c.again.timings = calloc(count + 1, sizeof *c.again.timings);
    baseline->single.first.timings = calloc(count + 1, sizeof *c.again.timings);
    baseline->replicas.first.timings = calloc(count + 1, sizeof *c.again.timings);
    const base_status status = c.again.timings == NULL || baseline->single.first.timings == NULL ||
                                       baseline->replicas.first.timings == NULL
                                   ? base_fail(reterr, BASE_ERR_MEMORY, "no memory for --baseline")
                                   : run_rounds(&c, reterr);
    free(c.again.timings);
    return status;
}

void rank_baseline_fini(rank_baseline *baseline)
{
    free(baseline->single.first.timings);
    free(baseline->replicas.first.timings);
    *baseline = (rank_baseline){.reason = ""};
}
