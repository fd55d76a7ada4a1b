/* Times a token of small models on one rank and on all, and what the prediction is made of: how
 * fast memory is read (curve_rates.c), and what an all-reduce takes. mode.c asks for it with --curve. */
#include "generate/curve_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/free_memory.h"
#include "base/percentile.h"
#include "base/splitmix.h"
#include "checkpoint/shards.h"
#include "generate/alone.h"
#include "generate/baseline.h"
#include "generate/curve_rates.h"
#include "generate/engine.h"
#include "ringfence/coll_error.h"

enum {
    CONTEXT = 160,
    PROMPT_TOKENS = 8,
    WARM_TOKENS = 8,
    TOKENS_MAX = 128, /* that are timed */
    TOKENS_MIN = 16,
    TOKEN_SECONDS = 1, /* after so long TOKENS_MIN are enough */
    LINK_ROUNDS = 64,
    LINK_BYTES = 1 << 20,
};

static const double ROUNDS_S = 5; /* no round of a width begins later */

/* ---- weights ---- */

/* An element depends on the seed and its place alone: every rank draws what it holds. */
static base_status draw_weights(void *user, const rank_row_part *part, float *to,
                                base_error *reterr)
{
    const uint64_t *seed = user;
    const uint64_t of_row = base_splitmix_mix(((uint64_t)part->tensor << 32) + part->row);
    const uint64_t row = base_splitmix_mix(*seed ^ of_row);
    (void)reterr;
    for (size_t i = 0; i < part->count; i++) {
        const uint64_t bits = base_splitmix_mix(row + part->column + i) >> 40;
        to[i] = (float)((double)bits / (1 << 24) - 0.5) * 0.07F; /* as wide as deviation 0.02 */
    }
    return BASE_OK;
}

/* ---- a token ---- */

typedef struct token_times {
    double each_ms[TOKENS_MAX];
    double total_s; /* of these */
    size_t count;
    int64_t last_ns;
    uint64_t drawn;
    bool ended;
} token_times;

static void on_event(void *user, const rank_schedule_event *event)
{
    token_times *times = user;
    const int64_t now_ns = base_now_ns();
    times->drawn += event->token >= 0 ? 1 : 0;
    if (times->drawn > WARM_TOKENS && times->count < TOKENS_MAX) {
        times->each_ms[times->count++] = (double)(now_ns - times->last_ns) / (double)BASE_NS_PER_MS;
        times->total_s += (double)(now_ns - times->last_ns) / (double)BASE_NS_PER_S;
    }
    times->last_ns = now_ns;
    times->ended = event->finish != RANK_FINISH_NOT;
}

/* One width, on all ranks or on one, once. */
typedef struct timing_run {
    const rank_generate_options *options;
    const rank_model_config *config;
    coll_comm *comm;   /* NULL: alone, */
    rank_alone *alone; /* and then the others sleep */
    rank_engine *engine;
    token_times times;
} timing_run;

static base_status submit(timing_run *run, base_error *reterr)
{
    int32_t prompt[PROMPT_TOKENS];
    rank_request request = {.prompt_count = PROMPT_TOKENS,
                            .max_new_tokens = WARM_TOKENS + TOKENS_MAX,
                            .sample = {.top_p = 1}};
    for (int i = 0; i < PROMPT_TOKENS; i++) {
        prompt[i] = i * 37 % RANK_CURVE_VOCAB;
    }
    return rank_engine_submit(run->engine, &request, prompt, reterr);
}

/* Steps until enough tokens were timed, or the job is to stop. Rank 0 decides. */
static base_status drive(timing_run *run, bool decides, base_error *reterr)
{
    const int64_t until_ns = base_now_ns() + TOKEN_SECONDS * BASE_NS_PER_S;
    base_status status = decides ? submit(run, reterr) : BASE_OK;
    bool ended = false;
    while (status == BASE_OK && !ended) {
        const bool enough =
            run->times.ended || (run->times.count >= TOKENS_MIN && base_now_ns() > until_ns);
        const bool last = decides && (enough || rank_generate_should_stop(run->options));
        if (last && run->comm == NULL) {
            return BASE_OK;
        }
        status = rank_engine_step(run->engine, last, &ended, reterr);
    }
    return status;
}

/* *ms is the median; NaN where the job was stopped before there were enough. */
static base_status time_tokens(timing_run *run, double *ms, base_error *reterr)
{
    uint64_t seed = run->options->seed;
    const rank_tensor_source source = {.read = draw_weights, .user = &seed};
    const bool decides = run->comm == NULL || coll_comm_rank(run->comm) == 0;
    base_status status = rank_engine_create(&(rank_engine_options){.config = run->config,
                                                                   .device = run->options->device,
                                                                   .comm = run->comm,
                                                                   .source = &source,
                                                                   .type = run->options->type,
                                                                   .sequences = 1,
                                                                   .chunk_tokens = PROMPT_TOKENS,
                                                                   .block_tokens = 16,
                                                                   .waiting_max = 1,
                                                                   .on_event = on_event,
                                                                   .user = &run->times,
                                                                   .alone = run->alone},
                                            &run->engine, reterr);
    if (status == BASE_OK) {
        status = drive(run, decides, reterr);
    }
    rank_engine_destroy(run->engine);
    run->engine = NULL;
    *ms = (double)NAN;
    if (status == BASE_OK && run->times.count >= TOKENS_MIN) {
        base_sort(run->times.each_ms, run->times.count);
        *ms = base_percentile(run->times.each_ms, run->times.count, 0.5);
    }
    return status;
}

static rank_model_config config_of(int width, int ranks)
{
    return (rank_model_config){.family = rank_family_default(),
                               .vocab_size = RANK_CURVE_VOCAB,
                               .width = width,
                               .layers = RANK_CURVE_LAYERS,
                               .heads = rank_curve_heads(width, ranks),
                               .context = CONTEXT};
}

static void give_reason(rank_curve_point *point, const char *reason)
{
    (void)snprintf(point->reason, sizeof point->reason, "%s", reason);
}

/* The same answer on every rank; the reason is rank 0's. */
static base_status may_measure(const rank_generate_options *options,
                               const rank_model_config *config, rank_curve_point *point, bool *may,
                               base_error *reterr)
{
    base_error unfit;
    int32_t fits = 0;
    *may = false;
    if (rank_model_check_world(config, coll_comm_size(options->comm), &unfit) != BASE_OK) {
        give_reason(point, unfit.message);
        return BASE_OK; /* all ranks see that by themselves */
    }
    if (coll_comm_rank(options->comm) == 0) {
        fits = rank_baseline_fits((uint64_t)point->weight_bytes, 1, base_free_memory_bytes(""),
                                  point->reason)
                   ? 1
                   : 0;
        if (fits != 0 && rank_generate_should_stop(options)) {
            fits = 0;
            give_reason(point, "the job was stopped");
        }
    }
    const base_status status =
        (base_status)coll_broadcast(options->comm, &fits, 1, COLL_INT32, 0, coll_error_of(reterr));
    *may = fits != 0;
    return status;
}

/* The rounds of one width. Rank 0 has the times. */
typedef struct width_rounds {
    const rank_generate_options *options;
    const rank_model_config *config;
    rank_curve_point *point;
    double single_ms[RANK_ROUNDS_MAX]; /* (count), as the next; one more while a round runs */
    double tp_ms[RANK_ROUNDS_MAX];
    double single_s; /* timed in all, as the next */
    double tp_s;
    int count;
    int64_t began_ns;
} width_rounds;

/* Rank 0 alone; the others sleep. */
static base_status time_single(width_rounds *rounds, base_error *reterr)
{
    const rank_generate_options *options = rounds->options;
    rank_alone alone = {.comm = options->comm, .timeout_ns = options->timeout_ns};
    rank_alone_state state = RANK_ALONE_WAIT;
    base_error error = {0};
    base_error told = {0};
    timing_run run = {.options = options, .config = rounds->config, .alone = &alone};
    if (coll_comm_rank(options->comm) != 0) {
        const base_status status = rank_alone_sleep(options->comm, &state, reterr);
        return status == BASE_OK && state == RANK_ALONE_FAILED
                   ? base_fail(reterr, BASE_ERR_PEER, "rank 0 failed in --curve")
                   : status;
    }
    base_status status = time_tokens(&run, &rounds->single_ms[rounds->count], &error);
    rounds->single_s += run.times.total_s;
    if (status == BASE_ERR_MEMORY) {
        give_reason(rounds->point, error.message);
        status = BASE_OK;
    }
    const base_status said =
        rank_alone_end(&alone, status == BASE_OK ? RANK_ALONE_DONE : RANK_ALONE_FAILED, &told);
    if (reterr != NULL && status != BASE_OK) {
        *reterr = error;
    } else if (reterr != NULL && said != BASE_OK) {
        *reterr = told;
    }
    return status != BASE_OK ? status : said;
}

static base_status time_together(width_rounds *rounds, base_error *reterr)
{
    timing_run run = {
        .options = rounds->options, .config = rounds->config, .comm = rounds->options->comm};
    const base_status status = time_tokens(&run, &rounds->tp_ms[rounds->count], reterr);
    rounds->tp_s += run.times.total_s;
    return status;
}

/* Counts the round that has ended if it was a whole one. Rank 0 then decides about another. */
static base_status end_round(width_rounds *rounds, bool *more, base_error *reterr)
{
    const double elapsed_s = (double)(base_now_ns() - rounds->began_ns) / (double)BASE_NS_PER_S;
    const bool whole =
        isfinite(rounds->single_ms[rounds->count]) && isfinite(rounds->tp_ms[rounds->count]);
    rounds->count += whole ? 1 : 0;
    int32_t go_on = whole && !rank_generate_should_stop(rounds->options) &&
                            rank_rounds_go_on(rounds->count, fmin(rounds->single_s, rounds->tp_s),
                                              elapsed_s, ROUNDS_S)
                        ? 1
                        : 0;
    const base_status status = (base_status)coll_broadcast(rounds->options->comm, &go_on, 1,
                                                           COLL_INT32, 0, coll_error_of(reterr));
    *more = go_on != 0;
    return status;
}

static base_status measure_point(const rank_generate_options *options, rank_curve_point *point,
                                 base_error *reterr)
{
    const rank_model_config config = config_of(point->width, coll_comm_size(options->comm));
    width_rounds rounds = {
        .options = options, .config = &config, .point = point, .began_ns = base_now_ns()};
    bool more = false;
    base_status status = may_measure(options, &config, point, &more, reterr);
    if (status != BASE_OK || !more) {
        return status;
    }
    while (status == BASE_OK && more) {
        status = time_together(&rounds, reterr);
        if (status == BASE_OK) {
            status = time_single(&rounds, reterr);
        }
        if (status == BASE_OK) {
            status = end_round(&rounds, &more, reterr);
        }
    }
    point->rounds = rounds.count;
    point->tp = rank_spread_of(rounds.tp_ms, rounds.count);
    point->single = rank_spread_of(rounds.single_ms, rounds.count);
    if (rounds.count > 0) {
        point->reason[0] = '\0'; /* what ended a later round */
    } else if (point->reason[0] == '\0') {
        give_reason(point, "the job was stopped");
    }
    return status;
}

/* ---- what the prediction is made of ---- */

static base_status time_all_reduce(coll_comm *comm, float *at, size_t count, double *seconds,
                                   base_error *reterr)
{
    double each[LINK_ROUNDS];
    base_status status = (base_status)coll_barrier(comm, coll_error_of(reterr));
    for (int i = 0; status == BASE_OK && i < LINK_ROUNDS; i++) {
        const int64_t before_ns = base_now_ns();
        status = (base_status)coll_all_reduce(comm, at, at, count, COLL_FLOAT32, COLL_SUM,
                                              coll_error_of(reterr));
        each[i] = (double)(base_now_ns() - before_ns) / (double)BASE_NS_PER_S;
    }
    if (status == BASE_OK) {
        base_sort(each, LINK_ROUNDS);
        *seconds = base_percentile(each, LINK_ROUNDS, 0.5);
    }
    return status;
}

/* By all-reduces in the kind of memory that an engine exchanges. */
static base_status measure_link(const rank_generate_options *options, rank_curve *curve,
                                base_error *reterr)
{
    coll_arena *arena = NULL;
    double short_s = 0;
    double long_s = 0;
    base_status status =
        (base_status)coll_arena_create(options->comm, LINK_BYTES, &arena, coll_error_of(reterr));
    if (status != BASE_OK) {
        return status;
    }
    float *at = coll_arena_data(arena);
    status = time_all_reduce(options->comm, at, 1, &short_s, reterr);
    if (status == BASE_OK) {
        status = time_all_reduce(options->comm, at, LINK_BYTES / sizeof(float), &long_s, reterr);
    }
    coll_arena_destroy(arena);
    if (status == BASE_OK) {
        curve->link = rank_curve_link(short_s, long_s, LINK_BYTES, curve->ranks);
    }
    return status;
}

static base_status predict(const rank_generate_options *options, rank_curve *curve,
                           base_error *reterr)
{
    rank_curve_memory memory = {.at = NULL};
    base_status status = measure_link(options, curve, reterr);
    if (status == BASE_OK) {
        status = rank_curve_memory_make(options, curve, &memory, reterr);
    }
    for (int i = 0; status == BASE_OK && i < curve->count; i++) {
        rank_curve_point *point = &curve->points[i];
        status = rank_curve_rates(options, &memory, point, reterr);
        if (status == BASE_OK && coll_comm_rank(options->comm) == 0) {
            rank_curve_predict(curve, point);
        }
    }
    free(memory.at);
    return status;
}

base_status rank_curve_run(const rank_generate_options *options, rank_curve *curve,
                           base_error *reterr)
{
    const rank_tp one = {.ranks = 1, .vocab_count = RANK_CURVE_VOCAB};
    for (int i = 0; i < curve->count; i++) {
        const rank_model_config config = config_of(curve->points[i].width, curve->ranks);
        const rank_shards_options whole = {
            .config = &config, .device = options->device, .tp = &one, .type = options->type};
        curve->points[i].parameters = (double)rank_model_param_count(&config);
        curve->points[i].weight_bytes = (double)rank_shards_plan(&whole);
    }
    base_status status = predict(options, curve, reterr);
    for (int i = 0; status == BASE_OK && i < curve->count; i++) {
        if (curve->points[i].asked) {
            status = measure_point(options, &curve->points[i], reterr);
        }
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "--curve");
}
