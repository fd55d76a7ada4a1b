/* Requests that come while others are answered: what is decoded, and what is said of it. The model
 * is not trained, and the other end is a script. */
#include "generate/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "generate/generate.h"
#include "generate/stream_text.h"
#include "support.h"

enum { CONTEXT = 64, TOKENS_MAX = CONTEXT, IDS_MAX = 256, SCRIPT_MAX = 256 };

static const char *const prompts[] = {"the boy", "he goed", "she", "we has", "they"};
enum { PROMPTS = sizeof prompts / sizeof prompts[0] };

/* What was said of a request. */
typedef struct told {
    bool accepted;
    bool refused;
    bool answered;
    rank_finish finish;
    int events; /* of tokens */
    int32_t tokens[TOKENS_MAX];
    size_t count;
    char text[4096];
} told;

/* Work that comes when `events` events have been sent. */
typedef struct scripted {
    int events;
    proto_work_kind kind;
    uint64_t id;
    const char *prompt;
    int max_new_tokens;
    int stop_count;
} scripted;

typedef struct fixture {
    rank_model_config config;
    rank_device device;
    rank_generate_options options;
    rank_request_source source;
    float *params;
    scripted script[SCRIPT_MAX];
    int script_count;
    int script_at;
    int events;
    int refusing;    /* so many more tries to send an event fail */
    int refuse_each; /* after each event that was taken */
    int waits;
    int stop_after; /* events; 0: never */
    told requests[IDS_MAX];
    size_t answers;
} fixture;

static bool take(void *user, proto_work *work)
{
    fixture *f = user;
    if (f->script_at == f->script_count || f->script[f->script_at].events > f->events) {
        return false;
    }
    const scripted *next = &f->script[f->script_at++];
    proto_request *request = &work->request;
    memset(request, 0, offsetof(proto_request, prompt));
    work->kind = next->kind;
    request->id = next->id;
    request->prompt_index = next->id - 1;
    request->top_p = 1;
    request->temperature = 0.8;
    request->seed = 5;
    request->ignore_eos = true;
    request->max_new_tokens = next->max_new_tokens;
    request->stop_count = next->stop_count;
    (void)snprintf(request->prompt.text, sizeof request->prompt.text, "%s",
                   next->prompt != NULL ? next->prompt : "");
    request->text_bytes = (uint32_t)strlen(request->prompt.text);
    return true;
}

/* Nothing would ever come if the script waits for more events than there are. */
static base_status wait_for_work(void *user, base_error *reterr)
{
    fixture *f = user;
    f->waits++;
    if (f->refuse_each > 0 || f->script_at < f->script_count) {
        return f->waits < 10000 ? BASE_OK : base_fail(reterr, BASE_ERR_TIMEOUT, "waits for ever");
    }
    return base_fail(reterr, BASE_ERR_TIMEOUT, "waits for nothing");
}

static void take_tokens(told *request, const rank_request_event *event)
{
    assert_true(event->token_count <= PROTO_EVENT_TOKENS_MAX);
    assert_true(event->token_count > 0 || event->text[0] != '\0');
    assert_true(request->count + event->token_count <= TOKENS_MAX);
    assert_true(base_utf8_valid(event->text, strlen(event->text)));
    memcpy(request->tokens + request->count, event->tokens,
           event->token_count * sizeof *event->tokens);
    request->count += event->token_count;
    assert_true(strlen(request->text) + strlen(event->text) < sizeof request->text);
    (void)strcat(request->text, event->text);
    request->events++;
}

static bool take_event(void *user, const rank_request_event *event)
{
    fixture *f = user;
    if (f->refusing > 0) {
        f->refusing--;
        return false;
    }
    f->refusing = f->refuse_each;
    f->events++;
    assert_true(event->id < IDS_MAX);
    told *request = &f->requests[event->id];
    assert_false(request->refused || request->answered);
    assert_int_equal(request->accepted, event->kind != RANK_EVENT_VERDICT);
    switch (event->kind) {
    case RANK_EVENT_VERDICT:
        request->refused = event->refused[0] != '\0';
        request->accepted = !request->refused;
        assert_int_equal(event->prompt_tokens > 0, request->accepted);
        break;
    case RANK_EVENT_TOKENS:
        take_tokens(request, event);
        break;
    case RANK_EVENT_ANSWERED:
        assert_int_equal(event->completion_tokens, request->count);
        assert_true(event->queued_ns >= 0 && event->ttft_ns >= 0 && event->decode_ns >= 0);
        request->answered = true;
        request->finish = event->finish;
        break;
    }
    return true;
}

static bool should_stop(void *user)
{
    const fixture *f = user;
    return f->stop_after > 0 && f->events >= f->stop_after;
}

/* An answer is what the events have said. */
static void check_answer(void *user, const rank_answer *answer)
{
    fixture *f = user;
    f->answers++;
    if (f->options.source == NULL) {
        told *request = &f->requests[answer->index + 1];
        memcpy(request->tokens, answer->tokens, answer->count * sizeof *answer->tokens);
        request->count = answer->count;
    }
}

static void fixture_open_context(fixture *f, int context)
{
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    memset(f, 0, sizeof *f);
    assert_ok(rank_tokenizer_load(ORACLE_DIRECTORY "/tokenizer.json", &tokenizer, &error), &error);
    f->config = (rank_model_config){.family = rank_family_default(),
                                    .vocab_size = rank_tokenizer_vocab_size(tokenizer),
                                    .width = 16,
                                    .layers = 1,
                                    .heads = 2,
                                    .context = context};
    f->params = calloc(rank_model_param_count(&f->config), sizeof *f->params);
    assert_non_null(f->params);
    rank_model_init(&f->config, 7, f->params);
    assert_ok(rank_device_open("cpu", &f->device, &error), &error);
    f->source =
        (rank_request_source){.user = f, .take = take, .wait = wait_for_work, .send = take_event};
    f->options = (rank_generate_options){
        .device = &f->device,
        .config = &f->config,
        .params = f->params,
        .tokenizer = tokenizer,
        .sequences = 2,
        .new_tokens_max = 12,
        .ignore_end = true,
        .temperature = 0.8,
        .top_p = 1,
        .seed = 5,
        .on_answer = check_answer,
        .answer_user = f,
        .should_stop = should_stop,
        .stop_user = f,
        .source = &f->source,
    };
}

static void fixture_open(fixture *f)
{
    fixture_open_context(f, CONTEXT);
}

static void fixture_close(fixture *f)
{
    rank_device_close(&f->device);
    rank_tokenizer_destroy(f->options.tokenizer);
    free(f->params);
}

static void put(fixture *f, scripted work)
{
    assert_true(f->script_count < SCRIPT_MAX);
    f->script[f->script_count++] = work;
}

static void run(fixture *f)
{
    base_error error;
    assert_ok(rank_generate(&f->options, NULL, 0, NULL, &error), &error);
    assert_int_equal(f->script_at, f->script_count);
}

/* The tokens of the prompts, known before: requests[1 … PROMPTS]. */
static void run_known(fixture *f)
{
    base_error error;
    fixture_open(f);
    f->options.source = NULL;
    assert_ok(rank_generate(&f->options, prompts, PROMPTS, NULL, &error), &error);
    assert_int_equal(f->answers, PROMPTS);
    fixture_close(f);
}

static void assert_same(const told *a, const told *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->tokens, b->tokens, a->count * sizeof a->tokens[0]);
}

static fixture known; /* big */
static fixture came;

/* Whenever a prompt comes, it has the same tokens. */
static void requests_join_and_leave(void **state)
{
    (void)state;
    run_known(&known);
    for (int apart = 0; apart < 9; apart++) {
        fixture_open(&came);
        for (int i = 0; i < PROMPTS; i++) {
            put(&came, (scripted){.events = i * apart,
                                  .kind = PROTO_WORK_REQUEST,
                                  .id = (uint64_t)i + 1,
                                  .prompt = prompts[i],
                                  .max_new_tokens = 12});
        }
        put(&came, (scripted){.kind = PROTO_WORK_DRAIN});
        run(&came);
        assert_int_equal(came.answers, PROMPTS);
        for (int id = 1; id <= PROMPTS; id++) {
            assert_true(came.requests[id].answered);
            assert_int_equal(came.requests[id].finish, RANK_FINISH_LENGTH);
            assert_same(&came.requests[id], &known.requests[id]);
        }
        fixture_close(&came);
    }
}

/* One request is cancelled after so many events: the others do not change, and one that waited
 * gets its place. */
static void a_cancel_concerns_one_request(void **state)
{
    (void)state;
    run_known(&known);
    for (int after = 0; after < 40; after++) {
        fixture_open(&came);
        for (int i = 0; i < PROMPTS; i++) {
            put(&came, (scripted){.kind = PROTO_WORK_REQUEST,
                                  .id = (uint64_t)i + 1,
                                  .prompt = prompts[i],
                                  .max_new_tokens = 12});
        }
        put(&came, (scripted){.events = after, .kind = PROTO_WORK_CANCEL, .id = 2});
        put(&came, (scripted){.kind = PROTO_WORK_CANCEL, .id = 2});  /* again, and */
        put(&came, (scripted){.kind = PROTO_WORK_CANCEL, .id = 99}); /* one that never was */
        put(&came, (scripted){.kind = PROTO_WORK_DRAIN});
        run(&came);
        for (int id = 1; id <= PROMPTS; id++) {
            const told *request = &came.requests[id];
            assert_true(request->answered);
            if (id != 2) {
                assert_same(request, &known.requests[id]);
                continue;
            }
            assert_true(request->finish == RANK_FINISH_CANCELLED || request->count == 12);
            assert_memory_equal(request->tokens, known.requests[id].tokens,
                                request->count * sizeof request->tokens[0]);
        }
        fixture_close(&came);
    }
}

/* Who takes events slowly gets them together, and decoding does not wait. */
static void events_wait_and_steps_do_not(void **state)
{
    (void)state;
    run_known(&known);
    fixture_open(&came);
    for (int i = 0; i < PROMPTS; i++) {
        put(&came, (scripted){.kind = PROTO_WORK_REQUEST,
                              .id = (uint64_t)i + 1,
                              .prompt = prompts[i],
                              .max_new_tokens = 12});
    }
    put(&came, (scripted){.kind = PROTO_WORK_DRAIN});
    came.refuse_each = 15;
    run(&came);
    for (int id = 1; id <= PROMPTS; id++) {
        assert_true(came.requests[id].answered);
        assert_true(came.requests[id].events < 12);
        assert_same(&came.requests[id], &known.requests[id]);
    }
    fixture_close(&came);
}

/* Its request is decoded meanwhile; whenever there is room, the verdict takes it (take_event). */
static void a_verdict_waits_before_its_tokens(void **state)
{
    (void)state;
    for (int refusing = 0; refusing < 24; refusing++) {
        fixture_open(&came);
        for (uint64_t id = 1; id <= 2; id++) {
            put(&came,
                (scripted){
                    .kind = PROTO_WORK_REQUEST, .id = id, .prompt = "he", .max_new_tokens = 12});
        }
        put(&came, (scripted){.kind = PROTO_WORK_DRAIN});
        came.refusing = refusing;
        run(&came);
        assert_true(came.requests[1].answered && came.requests[2].answered);
        fixture_close(&came);
    }
}

/* What cannot be answered is refused, and nothing else changes. */
static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    static char longest[2 * CONTEXT + 1];
    run_known(&known);
    fixture_open(&came);
    memset(longest, 'z', sizeof longest - 1);
    const scripted script[] = {
        {.kind = PROTO_WORK_REQUEST, .id = 1, .prompt = prompts[0], .max_new_tokens = 12},
        {.kind = PROTO_WORK_REQUEST, .id = 10, .prompt = "", .max_new_tokens = 1},
        {.kind = PROTO_WORK_REQUEST, .id = 11, .prompt = longest, .max_new_tokens = 1},
        {.kind = PROTO_WORK_REQUEST, .id = 5, .prompt = "late", .max_new_tokens = 1},
        {.kind = PROTO_WORK_REQUEST, .id = 12, .prompt = "the", .max_new_tokens = 2},
        {.kind = PROTO_WORK_DRAIN},
        {.kind = PROTO_WORK_REQUEST, .id = 13, .prompt = "the", .max_new_tokens = 2},
    };
    for (size_t i = 0; i < sizeof script / sizeof script[0]; i++) {
        put(&came, script[i]);
    }
    run(&came);
    assert_same(&came.requests[1], &known.requests[1]);
    assert_int_equal(came.requests[12].count, 2);
    for (int id = 1; id <= 13; id++) {
        const bool refused = id == 10 || id == 11 || id == 5 || id == 13;
        assert_int_equal(came.requests[id].refused, refused);
        assert_int_equal(came.requests[id].answered, id == 1 || id == 12);
    }
    assert_int_equal(came.answers, 2);
    fixture_close(&came);
}

/* More than may be open are refused, and not kept. */
static void a_flood_is_refused(void **state)
{
    (void)state;
    const int open_max = 2 + PROTO_REQUESTS_WAITING_MAX;
    fixture_open(&came);
    for (int i = 0; i < open_max + 5; i++) {
        put(&came, (scripted){.kind = PROTO_WORK_REQUEST,
                              .id = (uint64_t)i + 1,
                              .prompt = "the",
                              .max_new_tokens = 2});
    }
    put(&came, (scripted){.kind = PROTO_WORK_DRAIN});
    run(&came);
    for (int id = 1; id <= open_max + 5; id++) {
        assert_int_equal(came.requests[id].answered, id <= open_max);
        assert_int_equal(came.requests[id].refused, id > open_max);
    }
    fixture_close(&came);
}

/* A stop cancels what is open, and all of it is said. */
static void a_stop_cancels_what_is_open(void **state)
{
    (void)state;
    run_known(&known);
    for (int after = 1; after < 40; after++) {
        fixture_open(&came);
        for (int i = 0; i < PROMPTS; i++) {
            put(&came, (scripted){.kind = PROTO_WORK_REQUEST,
                                  .id = (uint64_t)i + 1,
                                  .prompt = prompts[i],
                                  .max_new_tokens = 12});
        }
        came.stop_after = after;
        run(&came);
        for (int id = 1; id <= PROMPTS; id++) {
            const told *request = &came.requests[id];
            assert_true(request->answered);
            assert_true(request->finish == RANK_FINISH_CANCELLED || request->count == 12);
            assert_memory_equal(request->tokens, known.requests[id].tokens,
                                request->count * sizeof request->tokens[0]);
        }
        fixture_close(&came);
    }
}

/* More requests than a job that keeps its answers may have, a few at a time. */
typedef struct many {
    proto_request request;
    uint64_t sent;
    uint64_t answered;
    int32_t first; /* token of the first one, which the others draw too */
    bool drained;
} many;

/* The second request has tokens until nearly all others have come. */
enum {
    MANY = PROTO_PROMPTS_MAX + 500,
    MANY_AT_A_TIME = 8,
    LONG_ID = 2,
    LONG_TOKENS = MANY / (MANY_AT_A_TIME - 1),
    EMPTY_EACH = 1000, /* a request that is refused comes now and then */
};

static bool take_many(void *user, proto_work *work)
{
    many *m = user;
    if (m->sent - m->answered >= MANY_AT_A_TIME || m->drained) {
        return false;
    }
    m->drained = m->sent == MANY;
    work->kind = m->drained ? PROTO_WORK_DRAIN : PROTO_WORK_REQUEST;
    if (!m->drained) {
        m->request.id = ++m->sent;
        memcpy(&work->request, &m->request, proto_request_bytes(&m->request));
        work->request.max_new_tokens = m->sent == LONG_ID ? LONG_TOKENS : 1;
        if (m->sent % EMPTY_EACH == 0) {
            work->request.prompt.text[0] = '\0';
            work->request.text_bytes = 0;
        }
    }
    return true;
}

static base_status wait_for_many(void *user, base_error *reterr)
{
    const many *m = user;
    return m->answered < m->sent || !m->drained
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_TIMEOUT, "waits for nothing");
}

static bool count_event(void *user, const rank_request_event *event)
{
    many *m = user;
    if (event->kind == RANK_EVENT_VERDICT) {
        assert_int_equal(event->refused[0] != '\0', event->id % EMPTY_EACH == 0);
        m->answered += event->id % EMPTY_EACH == 0 ? 1 : 0;
    } else if (event->kind == RANK_EVENT_ANSWERED) {
        assert_int_equal(event->completion_tokens, event->id == LONG_ID ? LONG_TOKENS : 1);
        assert_true(event->queued_ns >= 0 && event->ttft_ns >= 0);
        m->answered++;
    } else if (event->id != LONG_ID) {
        m->first = event->id == 1 ? event->tokens[0] : m->first;
        assert_int_equal(event->tokens[0], m->first);
    }
    return true;
}

static void any_number_comes_where_answers_are_forgotten(void **state)
{
    (void)state;
    static many m = {.request = {.top_p = 1,
                                 .ignore_eos = true,
                                 .max_new_tokens = 1,
                                 .prompt_index = 0,
                                 .text_bytes = 3,
                                 .prompt = {.text = "the"}}};
    fixture_open_context(&came, LONG_TOKENS + CONTEXT);
    came.options.sequences = MANY_AT_A_TIME;
    came.source = (rank_request_source){
        .user = &m, .take = take_many, .wait = wait_for_many, .send = count_event};
    came.options.forgets = true;
    run(&came);
    assert_int_equal(m.answered, MANY);
    assert_int_equal(came.answers, 0);
    fixture_close(&came);
}

/* With exact texts a text is that of its tokens, as a client that puts it behind its prompt needs it;
 * behind a suffix, its first space goes. */
static void exact_texts_are_those_of_their_tokens(void **state)
{
    (void)state;
    enum { REQUESTS = 60 };
    static const char *const suffixes[] = {NULL, "", " ->"};
    for (int i = 0; i < 3; i++) {
        int spaces = 0;
        int controls = 0;
        fixture_open(&came);
        came.options.exact_texts = true;
        came.options.prompt_suffix = suffixes[i];
        for (uint64_t id = 1; id <= REQUESTS; id++) {
            put(&came, (scripted){.kind = PROTO_WORK_REQUEST,
                                  .id = id,
                                  .events = (int)id - 1,
                                  .prompt = "he",
                                  .max_new_tokens = 12});
        }
        put(&came, (scripted){.kind = PROTO_WORK_DRAIN});
        run(&came);
        for (int id = 1; id <= REQUESTS; id++) {
            const told *request = &came.requests[id];
            rank_stream_text stream = {.exact = true};
            char bytes[4096];
            char text[4 * sizeof bytes];
            const size_t count = rank_tokenizer_decode(came.options.tokenizer, request->tokens,
                                                       request->count, bytes, sizeof bytes);
            const size_t skipped = i == 2 && bytes[0] == ' ';
            size_t used = rank_stream_text_add(&stream, bytes + skipped, count - skipped, text);
            used += rank_stream_text_end(&stream, text + used);
            text[used] = '\0';
            assert_string_equal(request->text, text);
            spaces += bytes[0] == ' ';
            controls += strpbrk(text, "\r\x1b\x0b\x0c\x7f") != NULL;
        }
        assert_true(spaces > 0 && controls > 0);
        fixture_close(&came);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_join_and_leave),
        cmocka_unit_test(a_cancel_concerns_one_request),
        cmocka_unit_test(events_wait_and_steps_do_not),
        cmocka_unit_test(a_verdict_waits_before_its_tokens),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_flood_is_refused),
        cmocka_unit_test(a_stop_cancels_what_is_open),
        cmocka_unit_test(any_number_comes_where_answers_are_forgotten),
        cmocka_unit_test(exact_texts_are_those_of_their_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
