/* serve/body.h: bodies as they come, in pieces, and the room that they share. */
#include "serve/body.h"

#include <string.h>

#include "support.h"

enum { PIECE = 1000 };

static char data[LAUNCH_SERVE_BODY_BYTES_MAX + 1];

/* Takes so many bytes, in pieces. */
static launch_body take(size_t bytes, size_t *large_bytes, bool keeps)
{
    launch_body body = {.bytes = NULL};
    for (size_t at = 0; at < bytes; at += PIECE) {
        launch_body_take(&body, large_bytes, data + at, bytes - at < PIECE ? bytes - at : PIECE,
                         keeps);
    }
    return body;
}

static void a_body_comes_in_pieces(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,
                                   1,
                                   PIECE,
                                   LAUNCH_SERVE_SMALL_BYTES_MAX,
                                   LAUNCH_SERVE_SMALL_BYTES_MAX + 1,
                                   LAUNCH_SERVE_BODY_BYTES_MAX};
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (char)(i % 251);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t large_bytes = 0;
        launch_body body = take(sizes[i], &large_bytes, true);
        assert_int_equal(body.state, LAUNCH_BODY_TAKEN);
        assert_int_equal(body.size_bytes, sizes[i]);
        assert_true(sizes[i] == 0 || memcmp(body.bytes, data, sizes[i]) == 0);
        assert_true(body.capacity <= LAUNCH_SERVE_BODY_BYTES_MAX);
        launch_body_drop(&body, &large_bytes);
        assert_int_equal(large_bytes, 0);
    }
}

static void too_long_a_body_is_dropped(void **state)
{
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        size_t large_bytes = 0;
        launch_body body = take(LAUNCH_SERVE_BODY_BYTES_MAX + 1, &large_bytes, keeps != 0);
        assert_int_equal(body.state, LAUNCH_BODY_TOO_LONG);
        assert_null(body.bytes);
        assert_int_equal(large_bytes, 0);
    }
}

static void large_bodies_share_their_room(void **state)
{
    (void)state;
    enum { ALL = LAUNCH_SERVE_LARGE_BYTES_MAX / LAUNCH_SERVE_BODY_BYTES_MAX };
    launch_body bodies[ALL];
    size_t large_bytes = 0;
    for (int i = 0; i < ALL; i++) {
        bodies[i] = take(LAUNCH_SERVE_BODY_BYTES_MAX, &large_bytes, true);
        assert_int_equal(bodies[i].state, LAUNCH_BODY_TAKEN);
    }
    assert_int_equal(large_bytes, LAUNCH_SERVE_LARGE_BYTES_MAX);
    launch_body more = take(LAUNCH_SERVE_SMALL_BYTES_MAX + 1, &large_bytes, true);
    assert_int_equal(more.state, LAUNCH_BODY_NO_ROOM);
    launch_body small = take(LAUNCH_SERVE_SMALL_BYTES_MAX / 2, &large_bytes, true);
    assert_int_equal(small.state, LAUNCH_BODY_TAKEN);
    launch_body_drop(&small, &large_bytes);
    launch_body_drop(&bodies[0], &large_bytes);
    more = take(LAUNCH_SERVE_SMALL_BYTES_MAX + 1, &large_bytes, true);
    assert_int_equal(more.state, LAUNCH_BODY_TAKEN);
    launch_body_drop(&more, &large_bytes);
    for (int i = 1; i < ALL; i++) {
        launch_body_drop(&bodies[i], &large_bytes);
    }
    assert_int_equal(large_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_comes_in_pieces),
        cmocka_unit_test(too_long_a_body_is_dropped),
        cmocka_unit_test(large_bodies_share_their_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
