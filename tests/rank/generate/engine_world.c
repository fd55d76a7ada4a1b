/* Submits and cancels requests between steps. Used by test_engine.c and test_engine_ends.c. */
#include "engine_world.h"

#include <stdlib.h>
#include <string.h>

typedef struct listener {
    world *w;
    int rank;
} listener;

static const rank_model_config shape = {
    .vocab_size = VOCAB, .width = 64, .layers = 2, .heads = 4, .context = CONTEXT};

static int prompt_count(int i)
{
    static const int counts[] = {1, 46, 7, 8, 9, 23, 16, 3, 33, 2};
    return counts[i % 10];
}

int world_logprobs(int i)
{
    return i % 3 == 0 ? 0 : 1 + i % LOGPROBS_MAX;
}

/* Greedy requests have no repetition penalty: test_engine.c checks them by their log-probabilities. */
void world_adjust(int i, rank_request *request)
{
    static const rank_penalties ways[] = {
        {.presence = 1.8, .frequency = 1.5},
        {.repetition = 1.3},
        {.frequency = -0.1, .repetition = 0.8},
        {.presence = -1.5, .frequency = 0.1, .repetition = 1.1},
    };
    if (i % 3 == 1) {
        request->penalties = ways[i % 4];
        request->bias_count = i % 4 == 1 ? 0 : 2;
        request->biases[0] = (rank_logit_bias){.token = (i * 13) % VOCAB, .bias = 0.7F};
        request->biases[1] = (rank_logit_bias){.token = (i * 29 + 1) % VOCAB, .bias = -100};
    }
}

static void make_request(const world *w, int i, rank_request *request, int32_t *prompt)
{
    static const rank_sample_params ways[] = {
        {.top_p = 1},
        {.temperature = 0.8, .top_p = 1, .seed = 5},
        {.temperature = 1.2, .top_p = 1, .top_k = 12, .seed = 6},
        {.temperature = 0.9, .top_p = 0.7, .min_p = 0.02, .seed = 7},
    };
    *request = (rank_request){.prompt_count = prompt_count(i),
                              .max_new_tokens = 1 + i * 5 % 17,
                              .sample = ways[i % 4],
                              .logprob_count = world_logprobs(i)};
    if (w->config.context == CONTEXT) { /* of those that are not greedy */
        request->scores = request->logprob_count > 0 && i % 4 == 2;
    }
    request->sample.prompt_index = (uint64_t)i;
    world_adjust(i, request);
    if (w->config.context == LONG_CONTEXT) {
        request->max_new_tokens *= 7;
        request->sample.temperature *= 0.1 + 0.3 * (i % 3);
    }
    if (i % 5 == 0) {
        request->stop_count = 2;
        request->stops[0] = 17 + i;
        request->stops[1] = 71;
    }
    for (int k = 0; k < request->prompt_count; k++) {
        const int text = k < SAME_TOKENS ? i % 2 : i; /* two beginnings, and many ends */
        prompt[k] = (text * 31 + k * k * 7 + k) % VOCAB;
    }
}

static void on_event(void *user, const rank_schedule_event *event)
{
    const listener *l = user;
    answer *one = &l->w->answers[l->rank][event->request_id - 1];
    if (event->token >= 0 && one->count < LONG_CONTEXT) {
        assert_int_equal(event->logprob_count, world_logprobs((int)event->request_id - 1));
        for (int i = 0; i < event->logprob_count; i++) { /* padding is not of interest */
            one->logprobs[one->count][i] =
                (rank_logprob){event->logprobs[i].value, event->logprobs[i].token};
        }
        one->tokens[one->count++] = event->token;
    }
    one->finish = event->finish;
}

static void on_begin(void *user, uint64_t request_id, int32_t cached)
{
    const listener *l = user;
    (void)request_id;
    l->w->cached[l->rank] += cached;
}

/* ---- one rank ---- */

/* Rank 0's part of a step: which requests it submits, and which it cancels. */
static base_status decide(rank_engine *engine, world *w, int step, int *submitted, bool *last,
                          base_error *reterr)
{
    base_status status = BASE_OK;
    const plan *p = &w->plan;
    bool due = p->join_every == 0 || step % p->join_every == 0;
    while (status == BASE_OK && due && *submitted < REQUESTS &&
           rank_engine_waiting(engine) < WAITING_MAX) {
        rank_request request;
        int32_t prompt[CONTEXT];
        make_request(w, *submitted, &request, prompt);
        status = rank_engine_submit(engine, &request, prompt, reterr);
        (*submitted)++;
        due = p->join_every == 0;
    }
    for (int i = 0; p->cancels && i < *submitted; i += 3) {
        const answer *one = &w->answers[0][i];
        if (one->count >= CANCEL_AFTER && one->finish == RANK_FINISH_NOT) {
            (void)rank_engine_cancel(engine, (uint64_t)i + 1);
        }
    }
    *last = *submitted == REQUESTS && rank_engine_is_idle(engine);
    return status;
}

static base_status drive(rank_engine *engine, world *w, int rank, base_error *reterr)
{
    base_status status = BASE_OK;
    int submitted = 0;
    bool ended = false;
    for (int step = 0; status == BASE_OK && !ended; step++) {
        bool last = false;
        if (step == STEPS_MAX) {
            return base_fail(reterr, BASE_ERR_STATE, "it does not come to an end");
        }
        if (rank == w->leaver && step == w->leaves_after) {
            return BASE_OK;
        }
        if (rank == 0) {
            status = decide(engine, w, step, &submitted, &last, reterr);
        }
        if (status == BASE_OK) {
            status = rank_engine_step(engine, last, &ended, reterr);
        }
    }
    return status;
}

base_status world_answer(world *w, coll_comm *comm, base_error *reterr)
{
    listener l = {.w = w, .rank = comm != NULL ? coll_comm_rank(comm) : 0};
    rank_device device = {.backend = NULL};
    rank_engine *engine = NULL;
    rank_flat_params params = {&w->config, w->params};
    const rank_tensor_source source = rank_flat_source(&params);
    const bool other = w->other_drafter != DRAFTER_TEXT && l.rank == w->plan.ranks - 1;
    const drafter drafts = other ? w->other_drafter : w->plan.drafter;
    rank_draft_model model = w->drafts[drafts];
    model.type = w->plan.type;
    base_status status = rank_device_open("cpu", &device, reterr);
    if (status == BASE_OK) {
        status = rank_engine_create(
            &(rank_engine_options){.config = &w->config,
                                   .device = &device,
                                   .comm = comm,
                                   .source = &source,
                                   .type = w->plan.type,
                                   .sequences = w->plan.sequences,
                                   .chunk_tokens = w->plan.chunk_tokens,
                                   .block_tokens = BLOCK_TOKENS,
                                   .cache_tokens = w->plan.cache_tokens,
                                   .waiting_max = WAITING_MAX,
                                   .on_event = on_event,
                                   .on_begin = on_begin,
                                   .shares = w->plan.shares,
                                   .draft_max = w->plan.draft_max,
                                   .draft = drafts != DRAFTER_TEXT ? &model : NULL,
                                   .user = &l},
            &engine, reterr);
    }
    if (status == BASE_OK) {
        status = drive(engine, w, l.rank, reterr);
        w->costs[l.rank] = rank_engine_get_costs(engine);
    }
    rank_engine_destroy(engine);
    rank_device_close(&device);
    return status;
}

/* Of parameters that rank_model_init gives. */
static void enliven(float *params, size_t count)
{
    for (size_t i = 0; i < count; i++) { /* livelier than fresh parameters; biases, too */
        const float lively = params[i] * 6.0f + (float)(i % 7) * 0.01f;
        uint32_t bits = 0;
        memcpy(&bits, &lively, sizeof bits);
        bits &= 0xffff0000; /* a bfloat16 */
        memcpy(&params[i], &bits, sizeof bits);
    }
}

static void set_drafter(world *w, drafter kind, const rank_model_config *config, float *params)
{
    w->drafts[kind] = (rank_draft_model){.config = *config, .source = &w->draft_sources[kind]};
    w->draft_params[kind] = (rank_flat_params){&w->drafts[kind].config, params};
    w->draft_sources[kind] = rank_flat_source(&w->draft_params[kind]);
}

static void make_drafter(world *w, drafter kind, const rank_model_config *config)
{
    const size_t count = rank_model_param_count(config);
    float *params = malloc(count * sizeof *params);
    assert_non_null(params);
    rank_model_init(config, 7, params);
    enliven(params, count);
    set_drafter(w, kind, config, params);
}

/* The model, with every second parameter so much larger or smaller. */
static void copy_drafter(world *w, drafter kind, float noise)
{
    const size_t count = rank_model_param_count(&w->config);
    float *params = malloc(count * sizeof *params);
    assert_non_null(params);
    for (size_t i = 0; i < count; i++) {
        params[i] = w->params[i] + (i % 2 == 0 ? 0 : i % 4 == 1 ? noise : -noise);
    }
    set_drafter(w, kind, &w->config, params);
}

void world_close(world *w)
{
    for (int kind = DRAFTER_SAME; kind < DRAFTERS; kind++) {
        free((float *)(uintptr_t)w->draft_params[kind].params);
    }
    free(w->params);
}

void world_open(world *w, int context)
{
    *w = (world){.config = shape, .leaver = -1};
    w->config.context = context;
    w->config.family = rank_family_default();
    const size_t count = rank_model_param_count(&w->config);
    w->params = malloc(count * sizeof *w->params);
    assert_non_null(w->params);
    rank_model_init(&w->config, 7, w->params);
    enliven(w->params, count);
    const size_t embedding = VOCAB * (size_t)shape.width; /* that of positions is behind it */
    for (size_t i = 0; context == LONG_CONTEXT && i < (size_t)(context * shape.width); i++) {
        w->params[embedding + i] = 0; /* the same tokens are followed by the same */
    }
    rank_model_config small = w->config;
    small.width = 32;
    small.layers = 1;
    small.heads = 2;
    small.context = 30;
    small.vocab_size = VOCAB - 20;
    make_drafter(w, DRAFTER_SMALL, &small);
    small.vocab_size = 2 * VOCAB;
    make_drafter(w, DRAFTER_PADDED, &small);
    copy_drafter(w, DRAFTER_SAME, 0);
    copy_drafter(w, DRAFTER_NEAR, 0.004F);
}
