/* serve/server_impl.h: which places a completion takes, and when it gives them back. */
#include <stdlib.h>

#include "serve/server_impl.h"
#include "support.h"

enum { EACH = 3, OPEN_MAX = 5 };

static launch_server server;

/* A completion that rank 0 has, whose connection is there; its members are as launch_completion_add makes them. */
static launch_completion *open_completion(uint64_t id)
{
    static struct MHD_Connection *const connection = (struct MHD_Connection *)&server;
    launch_completion *one = calloc(1, sizeof *one + EACH * sizeof one->choices[0]);
    assert_non_null(one);
    one->server = &server;
    one->head.id = id;
    one->connection = connection;
    one->next = server.completions;
    one->choices_each = one->choice_count = one->open_count = EACH;
    for (int i = 0; i < EACH; i++) {
        one->choices[i].index = i;
        one->choices[i].stage = LAUNCH_STAGE_ACCEPTED;
    }
    server.completions = one;
    server.open_count += EACH;
    return one;
}

static int set_up(void **state)
{
    (void)state;
    server = (launch_server){.open_max = OPEN_MAX, .wake_fd = -1};
    return 0;
}

/* What is finished takes no place, although its connection has yet to take it. */
static void a_finished_choice_gives_its_place_back(void **state)
{
    (void)state;
    launch_completion *one = open_completion(1);
    assert_true(launch_completions_have_room(&server, OPEN_MAX - EACH));
    assert_false(launch_completions_have_room(&server, OPEN_MAX - EACH + 1));
    launch_completion_end_choice(one, &one->choices[1], LAUNCH_STAGE_FINISHED);
    assert_true(launch_completions_have_room(&server, OPEN_MAX - EACH + 1));
    assert_false(launch_completions_have_room(&server, OPEN_MAX - EACH + 2));
    one->choices[0].stage =
        LAUNCH_STAGE_WAITING; /* rank 0 has yet to get it: a cancel is its end */
    launch_completion_cancel(one);
    assert_int_equal(server.open_count, 1);
    launch_completion_cancel(one);
    assert_int_equal(server.open_count, 1);
    one->connection = NULL;
    launch_completion_drop(one); /* rank 0 has the last one still */
    assert_ptr_equal(server.completions, one);
    launch_completion_end_choice(one, &one->choices[2], LAUNCH_STAGE_FINISHED);
    launch_completion_drop(one);
    assert_null(server.completions);
    assert_int_equal(server.open_count, 0);
}

/* Of what is finished and not read there is only so much memory; what is open does not count there. */
static void finished_answers_have_their_own_limit(void **state)
{
    (void)state;
    launch_completion *one = open_completion(1);
    launch_completion *other = open_completion(2);
    server.open_max = 2 * EACH + 1;
    one->answer_bytes = LAUNCH_SERVE_FINISHED_BYTES_MAX;
    other->answer_bytes = 1;
    assert_true(launch_completions_have_room(&server, 1));
    for (int i = 0; i < EACH; i++) {
        launch_completion_end_choice(one, &one->choices[i], LAUNCH_STAGE_FINISHED);
        assert_true(launch_completions_have_room(&server, 1));
    }
    for (int i = 0; i < EACH; i++) {
        launch_completion_end_choice(other, &other->choices[i], LAUNCH_STAGE_FINISHED);
        assert_int_equal(launch_completions_have_room(&server, 1), i < EACH - 1);
    }
    one->connection = NULL;
    launch_completion_drop(one);
    assert_true(launch_completions_have_room(&server, server.open_max));
    other->answer_bytes = 0;
    base_buffer_put(&other->choices[1].text, "text"); /* memory of any kind counts */
    other->out.capacity_bytes = LAUNCH_SERVE_FINISHED_BYTES_MAX;
    assert_false(launch_completions_have_room(&server, 1));
    launch_completion_forget_texts(other);
    assert_true(launch_completions_have_room(&server, 1));
    other->choices[0].logprobs.room = 1;
    assert_false(launch_completions_have_room(&server, 1));
    launch_completions_free(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_finished_choice_gives_its_place_back, set_up),
        cmocka_unit_test_setup(finished_answers_have_their_own_limit, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
