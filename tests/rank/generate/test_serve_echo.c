/* Requests whose answers begin with their prompts: what is said of the prompt's tokens is what is said of them when they
 * are drawn. The model is not trained. */
#include "generate/serve.h"

#include <string.h>

#include "support.h"
#include "untrained.h"

enum { CONTEXT = 64, NEW_TOKENS = 20, EACH = 3, REQUESTS = 4 };

/* What was said of a request. */
typedef struct told {
    size_t prompt_count;
    int32_t tokens[CONTEXT];
    double values[CONTEXT][EACH];
    int32_t best[CONTEXT][EACH];
    size_t count;
    size_t completion_tokens;
    char text[4096];
    bool answered;
} told;

/* The first request draws; the others have its prompt and its answer as a prompt. */
typedef struct world {
    told requests[REQUESTS + 1];
    int32_t prompt[CONTEXT]; /* of the first */
    size_t prompt_count;
    uint64_t sent;
    bool drained;
} world;

static bool take(void *user, proto_work *work)
{
    world *w = user;
    proto_request *request = &work->request;
    if (w->drained || (w->sent > 0 && !w->requests[1].answered)) {
        return false;
    }
    w->drained = w->sent == REQUESTS;
    work->kind = w->drained ? PROTO_WORK_DRAIN : PROTO_WORK_REQUEST;
    if (w->drained) {
        return true;
    }
    memset(request, 0, offsetof(proto_request, prompt));
    request->id = ++w->sent;
    request->top_p = 1;
    request->ignore_eos = true;
    request->max_new_tokens = request->id == 1 ? NEW_TOKENS : 1;
    request->echo = request->id > 1;
    request->logprob_count = request->id < REQUESTS ? EACH : 0;
    request->token_count = (uint32_t)w->prompt_count;
    memcpy(request->prompt.tokens, w->prompt, w->prompt_count * sizeof w->prompt[0]);
    if (request->id > 1) {
        memcpy(request->prompt.tokens + w->prompt_count, w->requests[1].tokens,
               NEW_TOKENS * sizeof w->prompt[0]);
        request->token_count += NEW_TOKENS;
    }
    return true;
}

static base_status wait_for_work(void *user, base_error *reterr)
{
    const world *w = user;
    return w->drained ? base_fail(reterr, BASE_ERR_TIMEOUT, "waits for nothing") : BASE_OK;
}

static bool take_event(void *user, const rank_request_event *event)
{
    world *w = user;
    told *one = &w->requests[event->id];
    switch (event->kind) {
    case RANK_EVENT_VERDICT:
        assert_string_equal(event->refused, "");
        one->prompt_count = event->prompt_tokens;
        break;
    case RANK_EVENT_TOKENS:
        /* an event is of the prompt, or of the answer */
        assert_true(event->id == 1 || one->count >= one->prompt_count ||
                    one->count + event->token_count <= one->prompt_count);
        for (size_t i = 0; i < event->token_count; i++) {
            assert_true(one->count < CONTEXT);
            one->tokens[one->count] = event->tokens[i];
            for (int k = 0; event->logprobs != NULL && k < EACH; k++) {
                one->values[one->count][k] = event->logprobs->values[i * EACH + (size_t)k];
                one->best[one->count][k] = event->logprobs->tokens[i * EACH + (size_t)k];
            }
            one->count++;
        }
        assert_true(strlen(one->text) + strlen(event->text) < sizeof one->text);
        (void)strcat(one->text, event->text);
        break;
    case RANK_EVENT_ANSWERED:
        assert_true(event->ttft_ns >= 0 && event->decode_ns >= 0);
        assert_int_equal(event->drawn, event->id == 1 ? NEW_TOKENS : 1);
        assert_int_equal(event->cached_tokens > 0, event->id == REQUESTS);
        one->completion_tokens = event->completion_tokens;
        one->answered = true;
        break;
    }
    return true;
}

static void refuse_answer(void *user, const rank_answer *answer)
{
    (void)user;
    (void)answer;
}

/* Two at once, so that they share the rows of a step; blocks are shared by none that is scored. */
static void a_prompt_has_the_logprobs_of_drawn_tokens(void **state)
{
    (void)state;
    static const int32_t prompt[] = {70, 71, 72, 73, 74, 75, 76, 77,
                                     78, 79, 80, 81, 82, 83, 84, 85};
    base_error error;
    untrained model;
    static world w;
    const rank_request_source source = {
        .user = &w, .take = take, .wait = wait_for_work, .send = take_event};
    memcpy(w.prompt, prompt, sizeof prompt);
    w.prompt_count = sizeof prompt / sizeof prompt[0];
    untrained_open(&model, CONTEXT);
    rank_generate_options options = model.options;
    options.sequences = 4;
    options.source = &source;
    options.forgets = true;
    options.shares = true;
    options.exact_texts = true;
    options.on_answer = refuse_answer;
    assert_ok(rank_generate(&options, NULL, 0, NULL, &error), &error);
    for (int id = 2; id <= REQUESTS; id++) {
        const told *one = &w.requests[id];
        const size_t before = w.prompt_count;
        assert_true(one->answered);
        assert_int_equal(one->count, before + NEW_TOKENS + 1);
        assert_int_equal(one->completion_tokens, 1);
        assert_memory_equal(one->tokens, prompt, sizeof prompt);
        assert_memory_equal(one->tokens + before, w.requests[1].tokens,
                            NEW_TOKENS * sizeof prompt[0]);
        assert_non_null(strstr(one->text, w.requests[1].text));
        if (id < REQUESTS) {
            assert_true(one->values[0][0] == 0 && one->best[0][1] == -1);
            assert_int_equal(one->best[1][0], prompt[1]);
            assert_true(one->values[1][0] < 0);
            assert_memory_equal(one->values[before], w.requests[1].values,
                                NEW_TOKENS * sizeof one->values[0]);
            assert_memory_equal(one->best[before], w.requests[1].best,
                                NEW_TOKENS * sizeof one->best[0]);
        }
    }
    untrained_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_has_the_logprobs_of_drawn_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
