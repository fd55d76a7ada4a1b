/* job/open_requests.h: how many requests may be sent, and what rank 0 may say of them. */
#include "job/open_requests.h"

#include "support.h"

static launch_open_requests requests; /* big */

static void requests_are_sent_as_far_as_agreed(void **state)
{
    (void)state;
    uint64_t id = 0;
    launch_open_requests_init(&requests, 2);
    for (int i = 0; i < PROTO_REQUESTS_UNJUDGED_MAX; i++) {
        assert_true(launch_open_requests_has_room(&requests));
        launch_open_requests_add(&requests, ++id);
    }
    assert_false(launch_open_requests_has_room(&requests)); /* no verdict yet */
    assert_true(launch_open_requests_judge(&requests, 1, true));
    assert_true(launch_open_requests_has_room(&requests));
    for (uint64_t judged = 2; judged <= 2 + PROTO_REQUESTS_WAITING_MAX; judged++) {
        if (launch_open_requests_has_room(&requests)) {
            launch_open_requests_add(&requests, ++id);
        }
        assert_true(launch_open_requests_judge(&requests, judged, true));
    }
    while (launch_open_requests_has_room(&requests)) {
        launch_open_requests_add(&requests, ++id);
        assert_true(launch_open_requests_judge(&requests, id, true));
    }
    assert_int_equal(requests.count, 2 + PROTO_REQUESTS_WAITING_MAX); /* all open */
    assert_true(launch_open_requests_answer(&requests, 7));
    assert_true(launch_open_requests_has_room(&requests));
}

static void rank_0_can_say_only_what_follows(void **state)
{
    (void)state;
    launch_open_requests_init(&requests, 2);
    for (uint64_t id = 1; id <= 3; id++) {
        launch_open_requests_add(&requests, id);
    }
    assert_false(launch_open_requests_continue(&requests, 1)); /* no verdict yet */
    assert_false(launch_open_requests_answer(&requests, 1));
    assert_false(launch_open_requests_judge(&requests, 4, true)); /* never sent */
    assert_true(launch_open_requests_judge(&requests, 1, true));
    assert_false(launch_open_requests_judge(&requests, 1, true)); /* twice */
    assert_true(launch_open_requests_judge(&requests, 2, false));
    assert_false(launch_open_requests_continue(&requests, 2)); /* refused */
    assert_false(launch_open_requests_judge(&requests, 2, true));
    assert_true(launch_open_requests_continue(&requests, 1));
    assert_true(launch_open_requests_answer(&requests, 1));
    assert_false(launch_open_requests_continue(&requests, 1)); /* after its end */
    assert_false(launch_open_requests_answer(&requests, 1));
    assert_int_equal(requests.count, 1);
    assert_int_equal(requests.open[0].id, 3);
}

static void a_cancel_is_sent_once(void **state)
{
    (void)state;
    launch_open_requests_init(&requests, 2);
    launch_open_requests_add(&requests, 1);
    assert_false(launch_open_requests_cancel(&requests, 2));
    assert_true(launch_open_requests_cancel(&requests, 1));
    assert_false(launch_open_requests_cancel(&requests, 1));
    assert_true(launch_open_requests_judge(&requests, 1, true));
    assert_true(launch_open_requests_answer(&requests, 1));
    assert_false(launch_open_requests_cancel(&requests, 1));
}

/* Credit comes long before rank 0 has to wait for it, and not for each event. */
static void credit_comes_in_time(void **state)
{
    (void)state;
    uint64_t credited = 0;
    int credits = 0;
    launch_open_requests_init(&requests, 2);
    for (uint64_t event = 1; event <= 10 * PROTO_EVENTS_AHEAD_MAX; event++) {
        uint64_t events = 0;
        launch_open_requests_count(&requests);
        if (launch_open_requests_credit(&requests, &events)) {
            assert_int_equal(events, event);
            credited = events;
            credits++;
        }
        assert_true(event - credited < PROTO_EVENTS_AHEAD_MAX / 2);
    }
    assert_true(credits <= 10 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_sent_as_far_as_agreed),
        cmocka_unit_test(rank_0_can_say_only_what_follows),
        cmocka_unit_test(a_cancel_is_sent_once),
        cmocka_unit_test(credit_comes_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
