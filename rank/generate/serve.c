/* Takes requests and sends events on rank 0, while the engine decodes. Called by generate.c before
 * each step; requests_link.c is the way to the launcher. */
#include "generate/serve.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "generate/generation.h"
#include "generate/stream_text.h"

enum {
    /* The text of a token, and of what may be held back at the end. */
    TOKEN_TEXT_BYTES = RANK_STREAM_TOKEN_TEXT_BYTES + RANK_STREAM_TEXT_HELD_BYTES,
    TAKEN_BYTES = 64 * 1024, /* requests of so many bytes are judged before a step */
};

_Static_assert((int)RANK_STREAM_TOKEN_BYTES == (int)PROTO_TOKEN_BYTES_MAX, "one limit");
_Static_assert((int)PROTO_LOGPROBS_MAX *(int)PROTO_TOKEN_BYTES_MAX <=
                       (int)PROTO_EVENT_LOGPROB_BYTES_MAX &&
                   (int)PROTO_LOGPROBS_MAX <= (int)PROTO_EVENT_LOGPROBS_MAX,
               "an event has room for what is said of a token");
_Static_assert((int)TOKEN_TEXT_BYTES < (int)PROTO_EVENT_TEXT_BYTES_MAX,
               "an event has room for a token");

/* A request that was accepted, until its last event has gone. */
typedef struct open_request {
    uint64_t id;
    uint64_t request_id; /* the engine's */
    size_t work;         /* its place in the works: these may move */
    int64_t accepted_ns;
    int64_t ended_ns; /* 0: not seen yet */
    size_t sent;      /* tokens in events */
    bool text_ended;
    rank_stream_text text;
} open_request;

struct rank_serving {
    generation *g;
    const rank_request_source *source;
    open_request open[PROTO_REQUESTS_OPEN_MAX]; /* (open_count), in the order of their ids */
    int open_count;
    int open_max;
    int next;         /* where the next round of events begins */
    uint64_t last_id; /* of requests */
    bool closed;      /* no more are accepted */
    bool stopped;
    bool leaves_some; /* more may have come than was taken */
    /* A verdict that could not be sent yet. Until then no more work is taken. */
    bool verdict_waits;
    rank_request_event verdict;
    base_error refusal;
    proto_work work;
    char events_text[PROTO_EVENT_TEXT_BYTES_MAX + 1];
    rank_event_logprobs logprobs;
};

base_status rank_serving_create(generation *g, rank_serving **serving, base_error *reterr)
{
    rank_serving *made = calloc(1, sizeof *made);
    *serving = made;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for requests");
    }
    made->g = g;
    made->source = g->options->source;
    made->open_max = g->options->sequences + PROTO_REQUESTS_WAITING_MAX;
    BASE_ASSERT(made->open_max <= PROTO_REQUESTS_OPEN_MAX);
    return BASE_OK;
}

void rank_serving_destroy(rank_serving *serving)
{
    free(serving);
}

/* Both ids rise in the order of requests. */
rank_work *rank_serving_work(rank_serving *serving, uint64_t request_id)
{
    int first = 0;
    for (int count = serving->open_count; count > 1;) {
        const int half = count / 2;
        first += serving->open[first + half].request_id <= request_id ? half : 0;
        count -= half;
    }
    const open_request *request = &serving->open[first];
    BASE_ASSERT(serving->open_count > 0 && request->request_id == request_id);
    return &serving->g->works[request->work];
}

/* ---- what comes ---- */

static open_request *find(rank_serving *serving, uint64_t id)
{
    for (int i = 0; i < serving->open_count; i++) {
        if (serving->open[i].id == id) {
            return &serving->open[i];
        }
    }
    return NULL;
}

static void cancel(rank_serving *serving, const open_request *request)
{
    generation *g = serving->g;
    rank_work *work = &g->works[request->work];
    if (work->finish == RANK_FINISH_NOT && rank_engine_cancel(g->engine, request->request_id)) {
        work->finish = RANK_FINISH_CANCELLED; /* it was waiting, so no event follows */
    }
}

/* Where the next work goes. Where answers are forgotten, that is where none is now. */
static base_status find_room(const rank_serving *serving, size_t *at, base_error *reterr)
{
    generation *g = serving->g;
    *at = g->count;
    if (g->options->forgets) {
        for (*at = 0; *at < g->works_room && g->works[*at].holders > 0;) {
            ++*at;
        }
    } else if (g->count == PROTO_PROMPTS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a job has at most %d prompts", PROTO_PROMPTS_MAX);
    }
    BASE_ASSERT(g->works_room > 0);
    if (*at == g->works_room) {
        const size_t room = 2 * g->works_room;
        rank_work *more = realloc(g->works, room * sizeof *more);
        if (more == NULL) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a request");
        }
        memset(more + g->works_room, 0, (room - g->works_room) * sizeof *more);
        g->works = more;
        g->works_room = room;
    }
    return BASE_OK;
}

static base_status add_own_stops(const proto_request *from, int vocab_size, rank_request *request,
                                 base_error *reterr)
{
    for (int32_t i = 0; i < from->stop_count; i++) {
        if (from->stops[i] >= vocab_size) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             PROTO_STOPS_KEY ": entry %d is %d, the vocabulary has %d", i,
                             from->stops[i], vocab_size);
        }
        if (request->stop_count == RANK_STOP_TOKENS_MAX) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             PROTO_STOPS_KEY ": more than %d, with those of the checkpoint",
                             RANK_STOP_TOKENS_MAX);
        }
        request->stops[request->stop_count++] = from->stops[i];
    }
    return BASE_OK;
}

static base_status submit(generation *g, const proto_request *from, const rank_work *work,
                          uint64_t *request_id, base_error *reterr)
{
    rank_request request = {.sample = {.top_p = 1, .prompt_index = from->prompt_index},
                            .penalties = {.presence = from->presence_penalty,
                                          .frequency = from->frequency_penalty,
                                          .repetition = from->repetition_penalty},
                            .bias_count = from->bias_count};
    for (int32_t i = 0; i < from->bias_count; i++) {
        request.biases[i] = (rank_logit_bias){from->bias_tokens[i], from->biases[i]};
    }
    request.grammar_count = from->grammar_count;
    request.grammar = proto_request_grammar(from);
    if (from->temperature > 0) {
        request.sample.temperature = from->temperature;
        request.sample.top_p = from->top_p;
        request.sample.top_k = from->top_k;
        request.sample.min_p = from->min_p;
        request.sample.seed = from->seed;
    }
    if (!from->ignore_eos) {
        generation_add_stops(g->options, work, &request);
    }
    base_status status = add_own_stops(from, g->options->config->vocab_size, &request, reterr);
    if (status == BASE_OK) {
        status = generation_submit(g, work, &request, reterr);
    }
    *request_id = request.id;
    return status;
}

static rank_stream_text new_text(const rank_generate_options *options, bool echo)
{
    const char *suffix = options->prompt_suffix;
    const bool continues = echo || suffix == NULL || suffix[0] == '\0';
    return (rank_stream_text){.exact = options->exact_texts,
                              .keeps_space = options->exact_texts && continues};
}

static base_status accept_request(rank_serving *serving, const proto_request *request,
                                  base_error *reterr)
{
    generation *g = serving->g;
    if (request->id <= serving->last_id) {
        return base_fail(reterr, BASE_ERR_INVALID, "the id does not rise");
    }
    serving->last_id = request->id;
    if (serving->closed) {
        return base_fail(reterr, BASE_ERR_ABORTED, "the job ends");
    }
    if (serving->open_count == serving->open_max) {
        return base_fail(reterr, BASE_ERR_LIMIT, "%d requests are open already",
                         serving->open_count);
    }
    size_t at = 0;
    base_status status = find_room(serving, &at, reterr);
    if (status != BASE_OK) {
        return status;
    }
    rank_work *work = &g->works[at];
    uint64_t request_id = 0;
    status = rank_work_make(g->options, request, work, reterr);
    if (status == BASE_OK) {
        status = submit(g, request, work, &request_id, reterr);
    }
    if (status != BASE_OK) {
        rank_work_fini(work);
        work->holders = 0;
        return status;
    }
    work->holders = g->options->forgets ? 1 : 2;
    serving->open[serving->open_count++] =
        (open_request){.id = request->id,
                       .request_id = request_id,
                       .work = at,
                       .accepted_ns = base_now_ns(),
                       .text = new_text(g->options, request->echo)};
    g->count++;
    return BASE_OK;
}

static void judge(rank_serving *serving, const proto_request *request)
{
    serving->refusal.message[0] = '\0';
    const base_status status = accept_request(serving, request, &serving->refusal);
    serving->verdict = (rank_request_event){
        .kind = RANK_EVENT_VERDICT,
        .id = request->id,
        .refused = serving->refusal.message,
        .prompt_tokens =
            status == BASE_OK
                ? serving->g->works[serving->open[serving->open_count - 1].work].prompt_count
                : 0,
    };
    serving->verdict_waits = true;
}

static bool send_verdict(rank_serving *serving)
{
    serving->verdict_waits =
        serving->verdict_waits && !serving->source->send(serving->source->user, &serving->verdict);
    return !serving->verdict_waits;
}

/* Takes what has come, as far as TAKEN_BYTES go. What is refused frees its place at once, so more could come for ever,
 * while texts do not go on and other ranks wait in a collective. */
static void take_some(rank_serving *serving)
{
    const rank_request_source *source = serving->source;
    size_t taken = 0;
    while (taken < TAKEN_BYTES && send_verdict(serving) &&
           source->take(source->user, &serving->work)) {
        const open_request *request = NULL;
        switch (serving->work.kind) {
        case PROTO_WORK_REQUEST:
            judge(serving, &serving->work.request);
            taken += proto_request_bytes(&serving->work.request);
            break;
        case PROTO_WORK_CANCEL:
            request = find(serving, serving->work.request.id);
            if (request != NULL) {
                cancel(serving, request);
            }
            break;
        case PROTO_WORK_DRAIN:
            serving->closed = true;
            break;
        }
    }
    serving->leaves_some = taken >= TAKEN_BYTES;
}

/* The user has asked for the end: cancels what is open. */
static void stop(rank_serving *serving)
{
    if (serving->stopped || !rank_generate_should_stop(serving->g->options)) {
        return;
    }
    serving->stopped = true;
    serving->closed = true;
    for (int i = 0; i < serving->open_count; i++) {
        cancel(serving, &serving->open[i]);
    }
}

/* ---- what goes ---- */

/* Whether the event has room for what is said of one more token. */
static bool has_room(const rank_event_logprobs *logprobs)
{
    return logprobs->count + logprobs->each <= PROTO_EVENT_LOGPROBS_MAX &&
           logprobs->used + logprobs->each * PROTO_TOKEN_BYTES_MAX <= sizeof logprobs->memory;
}

/* Adds what is said of a token of the work. */
static void add_logprobs(const rank_tokenizer *tokenizer, const rank_work *work, size_t token,
                         rank_event_logprobs *to)
{
    for (size_t i = 0; i < to->each; i++) {
        const rank_logprob *from = &work->logprobs[token * to->each + i];
        char *bytes = to->memory + to->used;
        size_t count = from->token < 0 ? 0
                                       : rank_tokenizer_decode(tokenizer, &from->token, 1, bytes,
                                                               sizeof to->memory - to->used);
        count = count < PROTO_TOKEN_BYTES_MAX ? count : PROTO_TOKEN_BYTES_MAX - 1;
        to->tokens[to->count] = from->token;
        to->values[to->count] = from->value;
        to->bytes[to->count] = bytes;
        to->byte_counts[to->count++] = count;
        to->used += count;
    }
}

/* Sends what follows of the text. False: not now, and nothing has changed. */
static bool send_tokens(rank_serving *serving, open_request *request)
{
    const generation *g = serving->g;
    const rank_work *work = &g->works[request->work];
    const size_t all = rank_work_count(work);
    const size_t count = request->sent < work->echoed && all > work->echoed ? work->echoed : all;
    open_request after = *request;
    char *text = serving->events_text;
    rank_event_logprobs *logprobs = &serving->logprobs;
    size_t used = 0;
    logprobs->each = (size_t)work->logprob_count;
    logprobs->count = 0;
    logprobs->used = 0;
    while (after.sent < count && after.sent - request->sent < PROTO_EVENT_TOKENS_MAX &&
           used + TOKEN_TEXT_BYTES <= PROTO_EVENT_TEXT_BYTES_MAX && has_room(logprobs)) {
        const size_t before = used;
        used += rank_stream_text_add_token(&after.text, g->options->tokenizer,
                                           work->tokens[after.sent], text + used);
        logprobs->text_bytes[after.sent - request->sent] = (uint32_t)(used - before);
        add_logprobs(g->options->tokenizer, work, after.sent, logprobs);
        after.sent++;
    }
    if (after.sent == all && work->finish != RANK_FINISH_NOT) {
        used += rank_stream_text_end(&after.text, text + used);
        after.text_ended = true;
    }
    text[used] = '\0';
    if (after.sent > request->sent || used > 0) {
        const rank_request_event event = {
            .kind = RANK_EVENT_TOKENS,
            .id = request->id,
            .tokens = work->tokens + request->sent,
            .token_count = after.sent - request->sent,
            .text = text,
            .text_bytes = logprobs->text_bytes,
            .cached_tokens = work->cached,
            .logprobs = logprobs->each > 0 ? logprobs : NULL,
        };
        if (!serving->source->send(serving->source->user, &event)) {
            return false;
        }
    }
    *request = after;
    return true;
}

static bool send_answered(rank_serving *serving, const open_request *request)
{
    const rank_work *work = &serving->g->works[request->work];
    const size_t echoed = work->echoed < work->drawn ? work->echoed : work->drawn;
    rank_request_event event = {.kind = RANK_EVENT_ANSWERED,
                                .id = request->id,
                                .finish = work->finish,
                                .completion_tokens = rank_work_count(work) - echoed,
                                .drawn = work->drawn - echoed,
                                .cached_tokens = work->cached,
                                .drafted = work->drafted,
                                .accepted = work->accepted,
                                .preempted = work->preempted,
                                .queued_ns =
                                    (work->began_ns != 0 ? work->began_ns : request->ended_ns) -
                                    request->accepted_ns};
    /* a request may be accepted while the step runs in which it begins */
    event.queued_ns = event.queued_ns > 0 ? event.queued_ns : 0;
    if (event.drawn > 0) {
        event.ttft_ns = work->drawn_ns[echoed] - work->began_ns;
        event.decode_ns = work->drawn_ns[work->drawn - 1] - work->drawn_ns[echoed];
    }
    return serving->source->send(serving->source->user, &event);
}

/* Sends all that is due for a request. *done: its last event has gone. False: not now. */
static bool send_due(rank_serving *serving, open_request *request, bool *done)
{
    const rank_work *work = &serving->g->works[request->work];
    const bool ended = work->finish != RANK_FINISH_NOT;
    *done = false;
    if (ended && request->ended_ns == 0) {
        request->ended_ns = base_now_ns();
    }
    while (request->sent < rank_work_count(work) || (ended && !request->text_ended)) {
        if (!send_tokens(serving, request)) {
            return false;
        }
    }
    *done = ended && send_answered(serving, request);
    return *done == ended;
}

static void close_request(rank_serving *serving, int at)
{
    rank_work_release(&serving->g->works[serving->open[at].work]);
    serving->open_count--;
    memmove(&serving->open[at], &serving->open[at + 1],
            (size_t)(serving->open_count - at) * sizeof serving->open[0]);
}

/* Sends what is due of all requests in turn, as long as events are taken. A verdict that waits goes first:
 * its request may have tokens, and room for an event may come at any time. */
static void send_all(rank_serving *serving)
{
    if (!send_verdict(serving)) {
        return;
    }
    int at = serving->next < serving->open_count ? serving->next : 0;
    for (int left = serving->open_count; left > 0; left--) {
        bool done = false;
        if (!send_due(serving, &serving->open[at], &done)) {
            break;
        }
        if (done) {
            close_request(serving, at);
        } else {
            at++;
        }
        at = at < serving->open_count ? at : 0;
    }
    serving->next = at;
}

base_status rank_serving_step(rank_serving *serving, bool *last, base_error *reterr)
{
    const rank_request_source *source = serving->source;
    const rank_engine *engine = serving->g->engine;
    stop(serving); /* first: what has come before the stop is then taken, and refused */
    take_some(serving);
    send_all(serving);
    *last = false;
    if (!rank_engine_is_idle(engine) || serving->leaves_some) {
        return BASE_OK;
    }
    if (serving->closed && serving->open_count == 0 && !serving->verdict_waits) {
        *last = true;
        return BASE_OK;
    }
    const base_status status = source->wait(source->user, reterr);
    if (status == BASE_OK) {
        stop(serving);
        take_some(serving);
        send_all(serving);
    }
    return status;
}
