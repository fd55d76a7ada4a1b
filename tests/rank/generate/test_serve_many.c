/* More requests than a job that keeps its answers may have, a few at a time. The model is not
 * trained. */
#include "generate/serve.h"

#include <string.h>

#include "support.h"
#include "untrained.h"

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
    CONTEXT = LONG_TOKENS + 64,
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

static void refuse_answer(void *user, const rank_answer *answer)
{
    (void)user;
    (void)answer;
    fail_msg("an answer was kept");
}

static void any_number_comes_where_answers_are_forgotten(void **state)
{
    (void)state;
    base_error error;
    untrained model;
    static many m = {.request = {.top_p = 1,
                                 .ignore_eos = true,
                                 .max_new_tokens = 1,
                                 .prompt_index = 0,
                                 .text_bytes = 3,
                                 .prompt = {.text = "the"}}};
    const rank_request_source source = {
        .user = &m, .take = take_many, .wait = wait_for_many, .send = count_event};
    untrained_open(&model, CONTEXT);
    rank_generate_options options = model.options;
    options.sequences = MANY_AT_A_TIME;
    options.source = &source;
    options.forgets = true;
    options.on_answer = refuse_answer;
    assert_ok(rank_generate(&options, NULL, 0, NULL, &error), &error);
    assert_int_equal(m.answered, MANY);
    untrained_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_comes_where_answers_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
