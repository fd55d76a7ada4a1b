/* Answers prompts in their order, by an engine. Called by modes and evaluate.c. */
#include "generate/generate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "generate/engine.h"
#include "rank/checkpoint.h"

enum {
    CHUNK_TOKENS = 512,
    BLOCK_TOKENS = 16,
    WAITING_MAX = 64, /* prompts that are encoded ahead */
    WARM_UP_TOKENS = 2,
    PACES_FIRST = 64,
};

_Static_assert((int)RANK_GENERATION_STOPS_MAX < (int)RANK_STOP_TOKENS_MAX,
               "one more: the end token");

/* A prompt and its answer so far. */
typedef struct work {
    int32_t *prompt; /* (prompt_count) */
    size_t prompt_count;
    int32_t *tokens;
    int64_t *drawn_ns;
    size_t drawn;
    bool ended;
    bool by_stop; /* the last token is a stop token */
} work;

/* When a request's tokens were there, by this rank's clock. */
typedef struct pace {
    int64_t began_ns; /* the first step began that computes for it */
    int64_t first_ns;
    int64_t last_ns;
    uint64_t drawn;
} pace;

typedef struct generation {
    const rank_generate_options *options;
    const char *const *prompts;
    size_t count;
    work *works;       /* (count): request first_id + i is prompt i */
    uint64_t first_id; /* earlier ids are warm-up */
    pace *paces;       /* (pace_room): on every rank, that of request first_id + i is i */
    size_t pace_room;
    size_t pace_count; /* requests that have begun */
    bool no_memory;
    rank_step_trace *trace; /* NULL: none */
    bool warm;
    rank_engine_costs cold; /* the costs of warm-up */
    size_t submitted;
    size_t answered;
    int64_t step_began_ns;
    rank_engine *engine;
} generation;

static size_t room_of(const generation *g, const work *one)
{
    const size_t context = (size_t)g->options->config->context;
    const size_t most = (size_t)g->options->new_tokens_max;
    return context - one->prompt_count < most ? context - one->prompt_count : most;
}

static base_status encode(const generation *g, size_t index, work *one, base_error *reterr)
{
    const size_t context = (size_t)g->options->config->context;
    const char *prompt = g->prompts[index];
    char text[RANK_GENERATE_TEXT_BYTES];
    const char *suffix = g->options->prompt_suffix != NULL ? g->options->prompt_suffix : "";
    const int length =
        snprintf(text, sizeof text, "%s%s", prompt, strstr(prompt, suffix) == NULL ? suffix : "");
    if (length < 0 || (size_t)length >= sizeof text) {
        return base_fail(reterr, BASE_ERR_INVALID, "a prompt is longer than %d bytes: %.40s…",
                         RANK_GENERATE_TEXT_BYTES - 1, prompt);
    }
    one->prompt = malloc(context * sizeof *one->prompt);
    if (one->prompt == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a prompt");
    }
    rank_ids ids = {.at = one->prompt, .capacity = context};
    const base_status status =
        rank_tokenizer_encode(g->options->tokenizer, text, (size_t)length, &ids, reterr);
    one->prompt_count = ids.count;
    if (status != BASE_OK) {
        return status;
    }
    if (one->prompt_count == 0 || one->prompt_count >= context) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a prompt must have 1 to %zu tokens, this one has %zu: \"%.60s\"",
                         context - 1, one->prompt_count, prompt);
    }
    int32_t *fitted = realloc(one->prompt, one->prompt_count * sizeof *fitted);
    one->prompt = fitted != NULL ? fitted : one->prompt;
    one->tokens = malloc(room_of(g, one) * sizeof *one->tokens);
    one->drawn_ns = malloc(room_of(g, one) * sizeof *one->drawn_ns);
    return one->tokens != NULL && one->drawn_ns != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for an answer");
}

static void forget(work *one)
{
    free(one->prompt);
    free(one->tokens);
    free(one->drawn_ns);
    one->prompt = NULL;
    one->tokens = NULL;
    one->drawn_ns = NULL;
}

/* Encodes all prompts, and refuses the job if one does not fit. The tokens are kept and used
 * later. */
static base_status encode_all(generation *g, base_error *reterr)
{
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < g->count; i++) {
        status = encode(g, i, &g->works[i], reterr);
    }
    return status;
}

base_status rank_generate_check(const rank_generate_options *options, const char *const *prompts,
                                size_t prompt_count, base_error *reterr)
{
    const generation g = {.options = options, .prompts = prompts, .count = prompt_count};
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < prompt_count; i++) {
        work one = {.prompt = NULL};
        status = encode(&g, i, &one, reterr);
        forget(&one);
    }
    return status;
}

static rank_sample_params sampling(const rank_generate_options *options, size_t index)
{
    const size_t stride = options->index_stride > 0 ? options->index_stride : 1;
    rank_sample_params params = {.top_p = 1, .prompt_index = options->index_first + index * stride};
    if (options->temperature > 0) {
        params.temperature = options->temperature;
        params.top_p = options->top_p;
        params.top_k = (int32_t)options->top_k;
        params.seed = options->seed;
    }
    return params;
}

static void add_stops(const rank_generate_options *options, rank_request *request)
{
    const int32_t end = rank_tokenizer_end_id(options->tokenizer);
    if (options->ignore_end) {
        return;
    }
    request->stops[request->stop_count++] = end;
    for (int i = 0; i < options->stop_count; i++) {
        if (options->stops[i] != end) {
            request->stops[request->stop_count++] = options->stops[i];
        }
    }
}

/* Submits as many prompts as the engine's queue takes. */
static base_status submit_some(generation *g, base_error *reterr)
{
    const rank_generate_options *options = g->options;
    base_status status = BASE_OK;
    while (status == BASE_OK && g->submitted < g->count &&
           rank_engine_waiting(g->engine) < WAITING_MAX) {
        const work *one = &g->works[g->submitted];
        rank_request request = {.prompt_count = (int32_t)one->prompt_count,
                                .max_new_tokens = options->new_tokens_max,
                                .sample = sampling(options, g->submitted)};
        add_stops(options, &request);
        status = rank_engine_submit(g->engine, &request, one->prompt, reterr);
        g->submitted++;
    }
    return status;
}

/* Requests begin in the order of their ids. */
static void on_begin(void *user, uint64_t request_id)
{
    generation *g = user;
    if (request_id < g->first_id) {
        return;
    }
    const size_t index = (size_t)(request_id - g->first_id);
    if (index >= g->pace_room) {
        const size_t room = 2 * index + PACES_FIRST;
        pace *more = realloc(g->paces, room * sizeof *more);
        if (more == NULL) {
            g->no_memory = true;
            return;
        }
        memset(more + g->pace_room, 0, (room - g->pace_room) * sizeof *more);
        g->paces = more;
        g->pace_room = room;
    }
    g->paces[index] = (pace){.began_ns = g->step_began_ns};
    g->pace_count = index + 1;
}

static void on_event(void *user, const rank_schedule_event *event)
{
    generation *g = user;
    if (event->request_id < g->first_id) {
        g->warm = event->finish != RANK_FINISH_NOT;
        return;
    }
    const size_t index = (size_t)(event->request_id - g->first_id);
    const int64_t now_ns = base_now_ns();
    if (event->token >= 0 && index < g->pace_room) {
        pace *own = &g->paces[index];
        own->first_ns = own->drawn == 0 ? now_ns : own->first_ns;
        own->last_ns = now_ns;
        own->drawn++;
    }
    if (g->count == 0) {
        return; /* not rank 0 */
    }
    work *one = &g->works[index];
    if (event->token >= 0) {
        one->tokens[one->drawn] = event->token;
        one->drawn_ns[one->drawn] = now_ns;
        one->drawn++;
    }
    one->ended = event->finish != RANK_FINISH_NOT;
    one->by_stop = event->finish == RANK_FINISH_STOP;
    if (event->token >= 0 && g->options->on_token != NULL) {
        g->options->on_token(g->options->token_user, &(rank_drawn_token){.index = index,
                                                                         .token = event->token,
                                                                         .is_stop = one->by_stop,
                                                                         .is_last = one->ended});
    }
}

/* Passes on the finished answers, up to the first unfinished one. */
static void hand_out(generation *g)
{
    for (; g->answered < g->count && g->works[g->answered].ended; g->answered++) {
        char text[RANK_GENERATE_TEXT_BYTES];
        work *one = &g->works[g->answered];
        const size_t count = one->drawn - (one->by_stop ? 1 : 0);
        (void)rank_tokenizer_decode(g->options->tokenizer, one->tokens, count, text, sizeof text);
        g->options->on_answer(g->options->answer_user,
                              &(rank_answer){.index = g->answered,
                                             .prompt = g->prompts[g->answered],
                                             .text = text[0] == ' ' ? text + 1 : text,
                                             .prompt_tokens = one->prompt,
                                             .prompt_count = one->prompt_count,
                                             .tokens = one->tokens,
                                             .count = count,
                                             .began_ns = g->paces[g->answered].began_ns,
                                             .drawn_ns = one->drawn_ns,
                                             .drawn_count = one->drawn});
        forget(one);
    }
}

static bool is_last_step(const generation *g)
{
    const rank_generate_options *options = g->options;
    if (options->should_stop != NULL && options->should_stop(options->stop_user)) {
        return true;
    }
    return g->submitted == g->count && rank_engine_is_idle(g->engine);
}

static base_status run(generation *g, bool decides, base_error *reterr)
{
    base_status status = BASE_OK;
    bool ended = false;
    while (status == BASE_OK && !ended) {
        bool last = false;
        if (decides) {
            status = submit_some(g, reterr);
            last = status == BASE_OK && is_last_step(g);
        }
        if (status == BASE_OK && last && g->options->comm == NULL) {
            return BASE_OK; /* no other rank has to know */
        }
        g->step_began_ns = base_now_ns();
        if (status == BASE_OK) {
            status = rank_engine_step(g->engine, last, &ended, reterr);
        }
        if (status == BASE_OK && g->no_memory) {
            status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for the times of requests");
        }
        if (status == BASE_OK && !last) {
            hand_out(g);
        }
        if (status == BASE_OK) {
            status = rank_step_trace_gather(g->trace, ended, reterr);
        }
    }
    return status;
}

/* Answers the beginning of the first prompt, so that all memory has been touched. */
static base_status warm_up(generation *g, bool decides, base_error *reterr)
{
    const rank_generate_options *options = g->options;
    base_status status = BASE_OK;
    if (options->warm_up && !(decides && g->count == 0)) {
        g->first_id = 2;
        if (decides) {
            rank_request request = {.prompt_count = (int32_t)g->works[0].prompt_count,
                                    .max_new_tokens = WARM_UP_TOKENS,
                                    .sample = {.top_p = 1}};
            status = rank_engine_submit(g->engine, &request, g->works[0].prompt, reterr);
        }
        while (status == BASE_OK && !g->warm) {
            bool ended = false;
            status = rank_engine_step(g->engine, false, &ended, reterr);
        }
        g->cold = rank_engine_get_costs(g->engine);
    }
    rank_step_trace_reset(g->trace);
    return status;
}

/* The costs without warm-up. */
static rank_engine_costs get_costs(const generation *g)
{
    rank_engine_costs costs = rank_engine_get_costs(g->engine);
    costs.steps -= g->cold.steps;
    costs.tokens -= g->cold.tokens;
    costs.sampled -= g->cold.sampled;
    costs.step_ns -= g->cold.step_ns;
    costs.gather_ns -= g->cold.gather_ns;
    costs.all_reduce.count -= g->cold.all_reduce.count;
    costs.all_reduce.bytes -= g->cold.all_reduce.bytes;
    costs.all_reduce.ns -= g->cold.all_reduce.ns;
    return costs;
}

/* By this rank's clock. */
static void write_pace(const generation *g, rank_generate_report *report)
{
    double first_ns = 0;
    double later_ns = 0;
    double firsts = 0;
    double laters = 0;
    for (size_t i = 0; i < g->pace_count; i++) {
        const pace *one = &g->paces[i];
        if (one->drawn > 0) {
            first_ns += (double)(one->first_ns - one->began_ns);
            later_ns += (double)(one->last_ns - one->first_ns);
            firsts += 1;
            laters += (double)(one->drawn - 1);
        }
    }
    report->ttft_ms = firsts > 0 ? first_ns / firsts / (double)BASE_NS_PER_MS : (double)NAN;
    report->per_token_ms = laters > 0 ? later_ns / laters / (double)BASE_NS_PER_MS : (double)NAN;
}

/* Rank 0 also hands out what the steps have cost one by one. */
static void write_trace(const generation *g, rank_generate_report *report)
{
    const rank_generate_options *options = g->options;
    const rank_step_share *shares = rank_step_trace_shares(g->trace);
    size_t count = 0;
    const rank_step_cost *steps = rank_step_trace_steps(g->trace, &count);
    report->traced = shares != NULL;
    if (shares != NULL) {
        report->share = shares[coll_comm_rank(options->comm)];
    }
    if (options->on_steps != NULL && count > 0) {
        options->on_steps(options->steps_user, steps, count);
    }
}

static void write_report(const generation *g, rank_generate_report *report)
{
    const rank_engine_memory memory = rank_engine_get_memory(g->engine);
    const rank_engine_costs costs = get_costs(g);
    *report = (rank_generate_report){
        .weight_bytes = memory.weight_bytes,
        .weight_elements = memory.weight_elements,
        .uncut_elements = memory.uncut_elements,
        .model_elements = rank_model_param_count(g->options->config),
        .cache_bytes = memory.cache_bytes,
        .cache_blocks = memory.cache_blocks,
        .cache_tokens = memory.cache_tokens,
        .work_bytes = memory.work_bytes,
        .steps = costs.steps,
        .tokens = costs.tokens,
        .sampled = costs.sampled,
        .step_ns = costs.step_ns,
        .gather_ns = costs.gather_ns,
        .all_reduces = costs.all_reduce.count,
        .all_reduce_bytes = costs.all_reduce.bytes,
        .all_reduce_ns = costs.all_reduce.ns,
    };
}

static base_status make_engine(generation *g, base_error *reterr)
{
    const rank_generate_options *options = g->options;
    const rank_device *device = options->device;
    rank_flat_params params = {.config = options->config};
    const rank_tensor_source source = rank_flat_source(&params);
    void *host = NULL;
    if (options->params != NULL) {
        const base_status status = device->backend->map(
            device->queue, (void *)options->params,
            rank_model_param_count(options->config) * sizeof(float), false, &host, reterr);
        if (status != BASE_OK) {
            return status;
        }
        params.params = host;
    }
    const base_status status =
        rank_engine_create(&(rank_engine_options){.config = options->config,
                                                  .device = options->device,
                                                  .comm = options->comm,
                                                  .weights = options->weights,
                                                  .source = &source,
                                                  .sequences = options->sequences,
                                                  .chunk_tokens = CHUNK_TOKENS,
                                                  .block_tokens = BLOCK_TOKENS,
                                                  .waiting_max = WAITING_MAX,
                                                  .on_event = on_event,
                                                  .on_begin = on_begin,
                                                  .user = g,
                                                  .trace = g->trace},
                           &g->engine, reterr);
    if (host != NULL) {
        device->backend->unmap(device->queue, host);
    }
    return status;
}

base_status rank_generate(const rank_generate_options *options, const char *const *prompts,
                          size_t prompt_count, rank_generate_report *report, base_error *reterr)
{
    const bool decides = options->comm == NULL || coll_comm_rank(options->comm) == 0;
    generation g = {
        .options = options, .prompts = prompts, .count = decides ? prompt_count : 0, .first_id = 1};
    g.works = calloc(g.count + 1, sizeof *g.works);
    base_status status = g.works != NULL
                             ? encode_all(&g, reterr)
                             : base_fail(reterr, BASE_ERR_MEMORY, "no memory for prompts");
    if (status == BASE_OK) {
        status = rank_step_trace_create(options->comm, &g.trace, reterr);
    }
    if (status == BASE_OK) {
        status = make_engine(&g, reterr);
    }
    if (status == BASE_OK) {
        status = warm_up(&g, decides, reterr);
    }
    if (status == BASE_OK && options->on_warm != NULL) {
        rank_generate_report memory;
        write_report(&g, &memory);
        status = options->on_warm(options->warm_user, &memory, reterr);
    }
    if (status == BASE_OK) {
        status = run(&g, decides, reterr);
    }
    if (status == BASE_OK && report != NULL) {
        write_report(&g, report);
        write_pace(&g, report);
        write_trace(&g, report);
    }
    rank_engine_destroy(g.engine);
    rank_step_trace_destroy(g.trace);
    free(g.paces);
    for (size_t i = 0; g.works != NULL && i < g.count; i++) {
        forget(&g.works[i]);
    }
    free(g.works);
    return status;
}
