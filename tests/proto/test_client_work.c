/* The queue of requests on rank 0: order, its limit, and the credit for events. */
#include "work.h"

#include <string.h>

#include "support.h"

static client_work *work;
static proto_work taken; /* big */

static int setup(void **state)
{
    base_error error;
    (void)state;
    assert_ok(client_work_create(&work, &error), &error);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_work_destroy(work);
    client_work_destroy(NULL);
    return 0;
}

static base_status put_longest(uint64_t id)
{
    base_error error;
    proto_request *request = &work->incoming.request;
    memset(&work->incoming, 0, sizeof work->incoming);
    work->incoming.kind = PROTO_WORK_REQUEST;
    request->id = id;
    request->token_count = PROTO_PROMPT_TOKENS_MAX;
    for (int i = 0; i < PROTO_PROMPT_TOKENS_MAX; i++) {
        request->prompt.tokens[i] = (int32_t)(id + (uint64_t)i);
    }
    return client_work_put(work, &error);
}

static void assert_next(proto_work_kind kind, uint64_t id)
{
    assert_true(client_work_take(work, &taken));
    assert_int_equal(taken.kind, kind);
    assert_int_equal(taken.request.id, id);
}

static void work_comes_in_its_order(void **state)
{
    (void)state;
    base_error error;
    assert_false(client_work_take(work, &taken));
    assert_int_equal(put_longest(1), BASE_OK);
    assert_ok(client_work_put_id(work, PROTO_WORK_CANCEL, 1, &error), &error);
    assert_int_equal(put_longest(2), BASE_OK);
    assert_ok(client_work_put_id(work, PROTO_WORK_DRAIN, 0, &error), &error);
    assert_next(PROTO_WORK_REQUEST, 1);
    assert_next(PROTO_WORK_CANCEL, 1);
    assert_next(PROTO_WORK_REQUEST, 2);
    assert_int_equal(taken.request.token_count, PROTO_PROMPT_TOKENS_MAX);
    assert_int_equal(taken.request.prompt.tokens[PROTO_PROMPT_TOKENS_MAX - 1],
                     2 + PROTO_PROMPT_TOKENS_MAX - 1);
    assert_next(PROTO_WORK_DRAIN, 0);
    assert_false(client_work_take(work, &taken));
}

/* There is room for all that the launcher may send, and not for much more. */
static void what_was_agreed_fits_and_a_flood_does_not(void **state)
{
    (void)state;
    base_error error;
    uint64_t id = 0;
    for (int i = 0; i < PROTO_REQUESTS_UNJUDGED_MAX; i++) {
        assert_int_equal(put_longest(++id), BASE_OK);
    }
    for (int i = 0; i < 2 * PROTO_REQUESTS_OPEN_MAX; i++) {
        assert_ok(client_work_put_id(work, PROTO_WORK_CANCEL, 1, &error), &error);
    }
    assert_ok(client_work_put_id(work, PROTO_WORK_DRAIN, 0, &error), &error);
    base_status status = BASE_OK;
    for (int i = 0; i < PROTO_REQUESTS_UNJUDGED_MAX && status == BASE_OK; i++) {
        status = put_longest(++id);
    }
    assert_int_equal(status, BASE_ERR_LIMIT);
    assert_next(PROTO_WORK_REQUEST, 1); /* what was there is still there */
}

static void events_need_credit(void **state)
{
    (void)state;
    base_error error;
    for (int i = 0; i < PROTO_EVENTS_AHEAD_MAX; i++) {
        assert_true(client_work_may_send(work));
        work->sent++;
    }
    assert_false(client_work_may_send(work));
    work->woken = false;
    assert_ok(client_work_credit(work, 1, &error), &error);
    assert_true(work->woken);
    assert_true(client_work_may_send(work));
    assert_int_equal(client_work_credit(work, PROTO_EVENTS_AHEAD_MAX + 1, &error),
                     BASE_ERR_INVALID); /* more than were sent */
    assert_int_equal(client_work_credit(work, 0, &error), BASE_ERR_INVALID); /* backwards */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(work_comes_in_its_order, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_agreed_fits_and_a_flood_does_not, setup, teardown),
        cmocka_unit_test_setup_teardown(events_need_credit, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
