/* Requests that come while others are answered: what is decoded, and what is said of it. The model
 * is not trained, and the other end is a script. */
#include "generate/serve.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "generate/stream_text.h"
#include "support.h"
#include "untrained.h"

enum { CONTEXT = 64, TOKENS_MAX = CONTEXT, IDS_MAX = 256, SCRIPT_MAX = 256 };

static const char *const prompts[] = {"the boy", "he goed", "she", "we has", "they"};
enum { PROMPTS = sizeof prompts / sizeof prompts[0] };

/* The script's last request comes again and again, and is refused each time, until */
typedef enum flood {
    NO_FLOOD,
    FLOOD_UNTIL_ANSWERED, /* request 1 is, */
    FLOOD_UNTIL_STEPPED,  /* or rank 0 has come to STEPS steps */
} flood;
enum { STEPS = 3, FLOOD_MAX = 20000 };

/* What was said of a request. */
typedef struct told {
    bool accepted;
    bool refused;
    bool answered;
    rank_finish finish;
    int events; /* of tokens */
    int32_t tokens[TOKENS_MAX];
    size_t count;
    size_t prompt_tokens;
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
    untrained model;
    rank_generate_options options;
    rank_request_source source;
    scripted script[SCRIPT_MAX];
    int script_count;
    int script_at;
    int events;
    int refusing;    /* so many more tries to send an event fail */
    int refuse_each; /* after each event that was taken */
    int waits;
    int stop_after; /* events; 0: never */
    int steps;
    flood flood;
    int flooded; /* requests of it */
    told requests[IDS_MAX];
    size_t answers;
} fixture;

/* Has the script's last request come again, or in place of it the end. */
static void go_on_flooding(fixture *f)
{
    scripted *last = &f->script[f->script_count - 1];
    const bool ends =
        f->flood == FLOOD_UNTIL_ANSWERED ? f->requests[1].answered : f->steps >= STEPS;
    assert_true(f->flooded++ < FLOOD_MAX); /* there is no step meanwhile */
    f->requests[last->id].refused = false;
    last->kind = ends ? PROTO_WORK_DRAIN : PROTO_WORK_REQUEST;
    f->flood = ends ? NO_FLOOD : f->flood;
    f->script_at--;
}

static bool take(void *user, proto_work *work)
{
    fixture *f = user;
    if (f->script_at == f->script_count && f->flood != NO_FLOOD) {
        go_on_flooding(f);
    }
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
        request->prompt_tokens = event->prompt_tokens;
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
    fixture *f = user;
    f->steps++;
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

static void fixture_open(fixture *f)
{
    memset(f, 0, sizeof *f);
    untrained_open(&f->model, CONTEXT);
    f->source =
        (rank_request_source){.user = f, .take = take, .wait = wait_for_work, .send = take_event};
    f->options = f->model.options;
    f->options.sequences = 2;
    f->options.new_tokens_max = 12;
    f->options.ignore_end = true;
    f->options.temperature = 0.8;
    f->options.top_p = 1;
    f->options.seed = 5;
    f->options.on_answer = check_answer;
    f->options.answer_user = f;
    f->options.should_stop = should_stop;
    f->options.stop_user = f;
    f->options.source = &f->source;
}

static void put(fixture *f, scripted work)
{
    assert_true(f->script_count < SCRIPT_MAX);
    f->script[f->script_count++] = work;
}

static void ask(fixture *f, uint64_t id, const char *prompt, int new_tokens)
{
    put(f,
        (scripted){
            .kind = PROTO_WORK_REQUEST, .id = id, .prompt = prompt, .max_new_tokens = new_tokens});
}

/* Asks with all prompts, each `apart` events after the one before. */
static void ask_all(fixture *f, int apart)
{
    for (int i = 0; i < PROMPTS; i++) {
        ask(f, (uint64_t)i + 1, prompts[i], 12);
        f->script[i].events = i * apart;
    }
}

static void drain(fixture *f)
{
    put(f, (scripted){.kind = PROTO_WORK_DRAIN});
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
    untrained_close(&f->model);
}

static void assert_same(const told *a, const told *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->tokens, b->tokens, a->count * sizeof a->tokens[0]);
}

/* The request was cancelled, or is whole: what it has is the same. */
static void assert_begins(const told *request, const told *whole)
{
    assert_true(request->finish == RANK_FINISH_CANCELLED || request->count == whole->count);
    assert_memory_equal(request->tokens, whole->tokens, request->count * sizeof request->tokens[0]);
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
        ask_all(&came, apart);
        drain(&came);
        run(&came);
        assert_int_equal(came.answers, PROMPTS);
        for (int id = 1; id <= PROMPTS; id++) {
            assert_true(came.requests[id].answered);
            assert_int_equal(came.requests[id].finish, RANK_FINISH_LENGTH);
            assert_same(&came.requests[id], &known.requests[id]);
        }
        untrained_close(&came.model);
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
        ask_all(&came, 0);
        put(&came, (scripted){.events = after, .kind = PROTO_WORK_CANCEL, .id = 2});
        put(&came, (scripted){.kind = PROTO_WORK_CANCEL, .id = 2});  /* again, and */
        put(&came, (scripted){.kind = PROTO_WORK_CANCEL, .id = 99}); /* one that never was */
        drain(&came);
        run(&came);
        for (int id = 1; id <= PROMPTS; id++) {
            const told *request = &came.requests[id];
            assert_true(request->answered);
            if (id != 2) {
                assert_same(request, &known.requests[id]);
                continue;
            }
            assert_begins(request, &known.requests[id]);
        }
        untrained_close(&came.model);
    }
}

/* Who takes events slowly gets them together, and decoding does not wait. */
static void events_wait_and_steps_do_not(void **state)
{
    (void)state;
    run_known(&known);
    fixture_open(&came);
    ask_all(&came, 0);
    drain(&came);
    came.refuse_each = 15;
    run(&came);
    for (int id = 1; id <= PROMPTS; id++) {
        assert_true(came.requests[id].answered);
        assert_true(came.requests[id].events < 12);
        assert_same(&came.requests[id], &known.requests[id]);
    }
    untrained_close(&came.model);
}

/* Its request is decoded meanwhile; whenever there is room, the verdict takes it (take_event). */
static void a_verdict_waits_before_its_tokens(void **state)
{
    (void)state;
    for (int refusing = 0; refusing < 24; refusing++) {
        fixture_open(&came);
        for (uint64_t id = 1; id <= 2; id++) {
            ask(&came, id, "he", 12);
        }
        drain(&came);
        came.refusing = refusing;
        run(&came);
        assert_true(came.requests[1].answered && came.requests[2].answered);
        untrained_close(&came.model);
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
    ask(&came, 1, prompts[0], 12);
    ask(&came, 10, "", 1);
    ask(&came, 11, longest, 1);
    ask(&came, 5, "late", 1);
    ask(&came, 12, "the", 2);
    drain(&came);
    ask(&came, 13, "the", 2);
    run(&came);
    assert_same(&came.requests[1], &known.requests[1]);
    assert_int_equal(came.requests[12].count, 2);
    for (int id = 1; id <= 13; id++) {
        const bool refused = id == 10 || id == 11 || id == 5 || id == 13;
        assert_int_equal(came.requests[id].refused, refused);
        assert_int_equal(came.requests[id].answered, id == 1 || id == 12);
    }
    assert_int_equal(came.answers, 2);
    untrained_close(&came.model);
}

/* An answer that may fill the context fills a smaller cache. One that is to have more tokens than the cache holds is
 * refused, and so is a prompt that leaves no room for one. */
static void an_answer_without_a_limit_fills_the_cache(void **state)
{
    (void)state;
    enum { CACHE = 32 };
    static char longest[CACHE + 1];
    fixture_open(&came);
    came.options.cache_tokens = CACHE;
    memset(longest, 'z', sizeof longest - 1);
    ask(&came, 1, prompts[0], PROTO_NEW_TOKENS_MAX);
    ask(&came, 2, prompts[0], CACHE);
    ask(&came, 3, longest, PROTO_NEW_TOKENS_MAX);
    ask(&came, 4, longest + 1, PROTO_NEW_TOKENS_MAX);
    drain(&came);
    run(&came);
    assert_int_equal(came.requests[1].count, CACHE - came.requests[1].prompt_tokens);
    assert_true(came.requests[2].refused && came.requests[3].refused);
    assert_int_equal(came.requests[4].prompt_tokens, CACHE - 1); /* bytes are tokens here */
    assert_int_equal(came.requests[4].count, 1);
    untrained_close(&came.model);
}

/* More than may be open are refused, and not kept. */
static void a_flood_is_refused(void **state)
{
    (void)state;
    const int open_max = 2 + PROTO_REQUESTS_WAITING_MAX;
    fixture_open(&came);
    for (int i = 0; i < open_max + 5; i++) {
        ask(&came, (uint64_t)i + 1, "the", 2);
    }
    drain(&came);
    run(&came);
    for (int id = 1; id <= open_max + 5; id++) {
        assert_int_equal(came.requests[id].answered, id <= open_max);
        assert_int_equal(came.requests[id].refused, id > open_max);
    }
    untrained_close(&came.model);
}

/* While requests come that are refused, without an end, a text goes on, and steps with nothing to compute keep other ranks
 * from waiting. */
static void refusals_do_not_hold_up_steps(void **state)
{
    (void)state;
    run_known(&known);
    fixture_open(&came);
    ask(&came, 1, prompts[0], 12);
    ask(&came, 2, "", 1);
    came.flood = FLOOD_UNTIL_ANSWERED;
    run(&came);
    assert_same(&came.requests[1], &known.requests[1]);
    untrained_close(&came.model);
    fixture_open(&came);
    ask(&came, 1, "", 1);
    came.flood = FLOOD_UNTIL_STEPPED;
    run(&came);
    assert_int_equal(came.waits, 0);
    untrained_close(&came.model);
}

/* A stop cancels what is open, and all of it is said. */
static void a_stop_cancels_what_is_open(void **state)
{
    (void)state;
    run_known(&known);
    for (int after = 1; after < 40; after++) {
        fixture_open(&came);
        ask_all(&came, 0);
        came.stop_after = after;
        run(&came);
        for (int id = 1; id <= PROMPTS; id++) {
            const told *request = &came.requests[id];
            assert_true(request->answered);
            assert_begins(request, &known.requests[id]);
        }
        untrained_close(&came.model);
    }
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
            ask(&came, id, "he", 12);
            came.script[id - 1].events = (int)id - 1;
        }
        drain(&came);
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
        untrained_close(&came.model);
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
        cmocka_unit_test(an_answer_without_a_limit_fills_the_cache),
        cmocka_unit_test(a_flood_is_refused),
        cmocka_unit_test(refusals_do_not_hold_up_steps),
        cmocka_unit_test(a_stop_cancels_what_is_open),
        cmocka_unit_test(exact_texts_are_those_of_their_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
