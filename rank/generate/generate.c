/* Answers prompts in their order, by an engine. Called by modes and evaluate.c. */
#include "generate/generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "generate/generation.h"
#include "generate/serve.h"
#include "rank/checkpoint.h"

enum {
    CHUNK_TOKENS = 512,
    BLOCK_TOKENS = 16,
    WAITING_MAX = 64, /* prompts that are encoded ahead */
    WARM_UP_TOKENS = 2,
    PACES_FIRST = 64,
};

_Static_assert((int)RANK_GENERATION_STOPS_MAX + 2 <= (int)RANK_STOP_TOKENS_MAX,
               "two more: the end token, and what ends an answer in a chat");

/* Encodes all prompts, and refuses the job if one does not fit. The tokens are kept and used
 * later. */
static base_status encode_all(generation *g, const char *const *prompts, base_error *reterr)
{
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < g->count; i++) {
        status = rank_work_encode(g->options, prompts[i], g->options->no_thinking,
                                  g->options->new_tokens_max, &g->works[i], reterr);
        if (status == BASE_OK) {
            status = rank_work_want_logprobs(&g->works[i], g->options->logprob_count, reterr);
        }
    }
    return status;
}

base_status rank_generate_check(const rank_generate_options *options, const char *const *prompts,
                                size_t prompt_count, base_error *reterr)
{
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < prompt_count; i++) {
        rank_work one = {.text = NULL};
        status = rank_work_encode(options, prompts[i], options->no_thinking,
                                  options->new_tokens_max, &one, reterr);
        rank_work_fini(&one);
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
        params.min_p = options->min_p;
        params.seed = options->seed;
    }
    return params;
}

static void add_stop(rank_request *request, int32_t id)
{
    bool known = id < 0;
    for (int32_t i = 0; i < request->stop_count; i++) {
        known = known || request->stops[i] == id;
    }
    if (!known) {
        BASE_ASSERT(request->stop_count < RANK_STOP_TOKENS_MAX);
        request->stops[request->stop_count++] = id;
    }
}

void generation_add_stops(const rank_generate_options *options, const rank_work *work,
                          rank_request *request)
{
    add_stop(request, rank_tokenizer_end_id(options->tokenizer));
    add_stop(request, work->end_id);
    for (int i = 0; i < options->stop_count; i++) {
        add_stop(request, options->stops[i]);
    }
}

base_status generation_submit(generation *g, const rank_work *work, rank_request *request,
                              base_error *reterr)
{
    request->prompt_count = (int32_t)work->prompt_count;
    request->max_new_tokens = work->new_tokens_max;
    request->logprob_count = work->logprob_count;
    request->scores = work->echoed > 0 && work->logprob_count > 0;
    const base_status status = rank_engine_submit(g->engine, request, work->prompt, reterr);
    if (status == BASE_OK) {
        BASE_ASSERT(request->id == g->first_id + g->submitted);
        g->submitted++;
    }
    return status;
}

/* Submits as many prompts as the engine's queue takes. */
static base_status submit_some(generation *g, base_error *reterr)
{
    const rank_generate_options *options = g->options;
    base_status status = BASE_OK;
    while (status == BASE_OK && g->submitted < g->count &&
           rank_engine_waiting(g->engine) < WAITING_MAX) {
        rank_request request = {.sample = sampling(options, g->submitted),
                                .penalties = options->penalties};
        if (!options->ignore_end) {
            generation_add_stops(options, &g->works[g->submitted], &request);
        }
        status = generation_submit(g, &g->works[g->submitted], &request, reterr);
    }
    return status;
}

/* On rank 0, the work of a request that has no end yet. */
static rank_work *work_of(const generation *g, uint64_t request_id)
{
    return g->serving != NULL ? rank_serving_work(g->serving, request_id)
                              : &g->works[request_id - g->first_id];
}

static size_t pace_index(const generation *g, uint64_t request_id)
{
    return (size_t)((request_id - g->first_id) % PROTO_PROMPTS_MAX);
}

/* Requests begin in the order of their ids. */
static void on_begin(void *user, uint64_t request_id, int32_t cached)
{
    generation *g = user;
    const size_t index = pace_index(g, request_id);
    if (request_id < g->first_id ||
        (index < g->pace_room && g->paces[index].request_id == request_id)) {
        return; /* it has begun, and was preempted */
    }
    if (g->decides) {
        work_of(g, request_id)->began_ns = g->step_began_ns;
        work_of(g, request_id)->cached = (size_t)cached;
    }
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
    g->paces[index] = (pace){.request_id = request_id, .began_ns = g->step_began_ns};
    g->pace_count = index >= g->pace_count ? index + 1 : g->pace_count;
}

static void on_event(void *user, const rank_schedule_event *event)
{
    generation *g = user;
    if (event->request_id < g->first_id) {
        g->warm = event->finish != RANK_FINISH_NOT;
        return;
    }
    const size_t at = pace_index(g, event->request_id);
    const int64_t now_ns = base_now_ns();
    if (event->token >= 0 && event->scored == 0 && at < g->pace_room &&
        g->paces[at].request_id == event->request_id) {
        pace *own = &g->paces[at];
        own->first_ns = own->drawn == 0 ? now_ns : own->first_ns;
        own->last_ns = now_ns;
        own->drawn++;
    }
    if (!g->decides) {
        return;
    }
    rank_work_take(work_of(g, event->request_id), event, now_ns);
    if (event->token >= 0 && g->options->on_token != NULL) {
        g->options->on_token(g->options->token_user,
                             &(rank_drawn_token){.token = event->token,
                                                 .is_stop = event->finish == RANK_FINISH_STOP,
                                                 .is_last = event->finish != RANK_FINISH_NOT});
    }
}

/* Passes on the answer to prompt `index`, if its first step has begun. */
static void hand_out_one(generation *g, size_t index)
{
    rank_work *one = &g->works[index];
    const size_t count = rank_work_count(one);
    const size_t bytes = rank_tokenizer_decode(g->options->tokenizer, one->tokens, count, NULL, 0);
    char *text = one->began_ns != 0 ? malloc(bytes + 1) : NULL;
    if (text != NULL) {
        (void)rank_tokenizer_decode(g->options->tokenizer, one->tokens, count, text, bytes + 1);
        const size_t skipped = text[0] == ' ' ? 1 : 0;
        g->options->on_answer(g->options->answer_user,
                              &(rank_answer){.index = index,
                                             .prompt = one->text,
                                             .text = text + skipped,
                                             .text_bytes = bytes - skipped,
                                             .prompt_tokens = one->prompt,
                                             .prompt_count = one->prompt_count,
                                             .tokens = one->tokens,
                                             .count = count,
                                             .finish = one->finish,
                                             .began_ns = one->began_ns,
                                             .drawn_ns = one->drawn_ns,
                                             .drawn_count = one->drawn,
                                             .logprobs = one->logprobs,
                                             .logprob_count = one->logprob_count});
    }
    g->no_memory = g->no_memory || (text == NULL && one->began_ns != 0);
    free(text);
    rank_work_release(one);
}

/* Passes on the finished answers, up to the first unfinished one. */
static void hand_out(generation *g)
{
    for (; !g->options->forgets && g->answered < g->count &&
           g->works[g->answered].finish != RANK_FINISH_NOT;
         g->answered++) {
        hand_out_one(g, g->answered);
    }
}

/* After the last step: passes on what there is. What has no end counts as cancelled. */
static void hand_out_rest(generation *g)
{
    for (; !g->options->forgets && g->answered < g->submitted; g->answered++) {
        rank_work *one = &g->works[g->answered];
        one->finish = one->finish == RANK_FINISH_NOT ? RANK_FINISH_CANCELLED : one->finish;
        hand_out_one(g, g->answered);
    }
}

static bool is_last_step(const generation *g)
{
    return rank_generate_should_stop(g->options) ||
           (g->submitted == g->count && rank_engine_is_idle(g->engine));
}

/* Decides on rank 0 what the next step begins with, and whether it is the last. */
static base_status before_step(generation *g, bool *last, base_error *reterr)
{
    if (g->serving != NULL) {
        return rank_serving_step(g->serving, last, reterr);
    }
    const base_status status = submit_some(g, reterr);
    *last = status == BASE_OK && is_last_step(g);
    return status;
}

static base_status run(generation *g, base_error *reterr)
{
    base_status status = BASE_OK;
    bool ended = false;
    while (status == BASE_OK && !ended) {
        bool last = false;
        if (g->decides) {
            status = before_step(g, &last, reterr);
        }
        if (status == BASE_OK && last && g->options->comm == NULL) {
            break; /* no other rank has to know */
        }
        g->step_began_ns = base_now_ns();
        if (status == BASE_OK) {
            status = rank_engine_step(g->engine, last, &ended, reterr);
        }
        if (status == BASE_OK && !last) {
            hand_out(g);
        }
        if (status == BASE_OK) {
            status = rank_step_trace_gather(g->trace, false, reterr);
        }
    }
    if (status == BASE_OK) {
        status = rank_step_trace_gather(g->trace, true, reterr);
    }
    if (status == BASE_OK) {
        hand_out_rest(g);
    }
    return status == BASE_OK && g->no_memory
               ? base_fail(reterr, BASE_ERR_MEMORY, "no memory for answers")
               : status;
}

/* Answers the beginning of the first prompt, so that all memory has been touched. */
static base_status warm_up(generation *g, base_error *reterr)
{
    const rank_generate_options *options = g->options;
    base_status status = BASE_OK;
    if (options->warm_up && !(g->decides && g->count == 0)) {
        g->first_id = 2;
        if (g->decides) {
            rank_request request = {.prompt_count = (int32_t)g->works[0].prompt_count,
                                    .max_new_tokens = g->works[0].room > 1 ? WARM_UP_TOKENS : 1,
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
    rank_trace_reset(options->timeline);
    return status;
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
    const base_status status = rank_engine_create(
        &(rank_engine_options){.config = options->config,
                               .device = options->device,
                               .comm = options->comm,
                               .weights = options->weights,
                               .adapters = options->adapters,
                               .source = &source,
                               .type = options->type,
                               .cache_type = options->cache_type,
                               .context = options->context,
                               .sequences = options->sequences,
                               .cache_tokens = options->cache_tokens,
                               .chunk_tokens = CHUNK_TOKENS,
                               .block_tokens = BLOCK_TOKENS,
                               .tokenizer = options->source != NULL ? options->tokenizer : NULL,
                               .shares = options->shares,
                               .draft_max = options->draft_max,
                               .draft = options->draft,
                               .waiting_max = options->source != NULL
                                                  ? options->sequences + PROTO_REQUESTS_WAITING_MAX
                                                  : WAITING_MAX,
                               .on_event = on_event,
                               .on_begin = on_begin,
                               .user = g,
                               .trace = g->trace,
                               .timeline = options->timeline,
                               .alone = options->alone},
        &g->engine, reterr);
    if (host != NULL) {
        device->backend->unmap(device->queue, host);
    }
    return status;
}

static base_status prepare(generation *g, const char *const *prompts, base_error *reterr)
{
    const rank_generate_options *options = g->options;
    g->works_room = g->count + 1;
    g->works = calloc(g->works_room, sizeof *g->works);
    base_status status = g->works != NULL
                             ? encode_all(g, prompts, reterr)
                             : base_fail(reterr, BASE_ERR_MEMORY, "no memory for prompts");
    if (status == BASE_OK && (options->comm != NULL || options->on_steps != NULL)) {
        status = rank_step_trace_create(options->comm, &g->trace, reterr);
    }
    if (status == BASE_OK) {
        status = make_engine(g, reterr);
    }
    if (status == BASE_OK && g->decides && options->source != NULL) {
        status = rank_serving_create(g, &g->serving, reterr);
    }
    return status;
}

base_status rank_generate(const rank_generate_options *options, const char *const *prompts,
                          size_t prompt_count, rank_generate_report *report, base_error *reterr)
{
    const bool decides = options->comm == NULL || coll_comm_rank(options->comm) == 0;
    generation g = {
        .options = options, .decides = decides, .count = decides ? prompt_count : 0, .first_id = 1};
    base_status status = prepare(&g, prompts, reterr);
    if (status == BASE_OK) {
        status = warm_up(&g, reterr);
    }
    if (status == BASE_OK && options->on_warm != NULL) {
        rank_generate_report memory;
        generation_write_memory(&g, &memory);
        status = options->on_warm(options->warm_user, &memory, reterr);
    }
    if (status == BASE_OK) {
        status = run(&g, reterr);
    }
    if (status == BASE_OK && report != NULL) {
        generation_write_report(&g, report);
    }
    if (status != BASE_OK && options->on_failure != NULL) {
        rank_engine_drop_graphs(g.engine);
        options->on_failure(options->failure_user, status, reterr);
    }
    rank_serving_destroy(g.serving);
    rank_engine_destroy(g.engine);
    rank_step_trace_destroy(g.trace);
    free(g.paces);
    for (size_t i = 0; g.works != NULL && i < g.works_room; i++) {
        rank_work_fini(&g.works[i]);
    }
    free(g.works);
    return status;
}
