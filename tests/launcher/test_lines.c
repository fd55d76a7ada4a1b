/* job/lines.h: equal lines of several ranks are merged, in order and within memory. */
#include "job/lines.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "launch/limits.h"
#include "support.h"

enum { OUT = 1, ERR = 2, RANKS = 4 };

static const int64_t window_ns = LAUNCH_LINE_WINDOW_MS * BASE_NS_PER_MS;

static char printed[64 * 1024];

static void print(void *user, int fd, const char *line, size_t line_bytes)
{
    (void)user;
    const size_t length = strlen(printed);
    (void)snprintf(printed + length, sizeof printed - length, "%d:%.*s\n", fd, (int)line_bytes,
                   line);
}

static launch_lines *make(void)
{
    base_error error;
    launch_lines *lines = NULL;
    printed[0] = '\0';
    assert_ok(launch_lines_create(RANKS, print, NULL, &lines, &error), &error);
    return lines;
}

static void say(launch_lines *lines, int rank, const char *text, int64_t now_ns)
{
    launch_lines_add(lines, rank, OUT, text, strlen(text), now_ns);
}

static void a_line_of_all_ranks_is_printed_once_and_at_once(void **state)
{
    (void)state;
    launch_lines *lines = make();
    for (int rank = 0; rank < RANKS; rank++) {
        assert_string_equal(printed, "");
        say(lines, rank, "hello\n", 0);
    }
    assert_string_equal(printed, "1:[ranks 0-3] hello\n");
    assert_true(launch_lines_deadline_ns(lines) == BASE_NO_DEADLINE);
    launch_lines_destroy(lines);
}

static void a_line_of_some_ranks_is_printed_when_the_window_ends(void **state)
{
    (void)state;
    launch_lines *lines = make();
    say(lines, 0, "hello\n", 0);
    say(lines, 3, "hello\n", 10);
    say(lines, 1, "hello\n", 20);
    assert_true(launch_lines_deadline_ns(lines) == window_ns);
    launch_lines_flush(lines, window_ns - 1);
    assert_string_equal(printed, "");
    launch_lines_flush(lines, window_ns);
    assert_string_equal(printed, "1:[ranks 0,1,3] hello\n");
    say(lines, 2, "hello\n", window_ns + 1); /* too late to join */
    launch_lines_destroy(lines);
    assert_string_equal(printed, "1:[ranks 0,1,3] hello\n1:[rank 2] hello\n");
}

static void no_rank_s_lines_change_their_order(void **state)
{
    (void)state;
    launch_lines *lines = make();
    say(lines, 0, "a\nb\na\n", 0);
    say(lines, 1, "b\na\n", 1);
    launch_lines_destroy(lines);
    /* rank 1's b joins the first b, and its a only the a after it */
    assert_string_equal(printed, "1:[rank 0] a\n1:[ranks 0,1] b\n1:[ranks 0,1] a\n");
}

static void streams_and_parts_stay_apart(void **state)
{
    (void)state;
    launch_lines *lines = make();
    say(lines, 0, "hel", 0);
    launch_lines_add(lines, 0, ERR, "bad\n", 4, 1);
    say(lines, 1, "hello\n", 2);
    say(lines, 0, "lo\nend", 3);
    launch_lines_end(lines, 0, OUT, 4);
    launch_lines_destroy(lines);
    assert_string_equal(printed, "2:[rank 0] bad\n1:[ranks 0,1] hello\n1:[rank 0] end\n");
}

static void memory_is_bounded(void **state)
{
    (void)state;
    static char long_line[LAUNCH_LINE_BYTES_MAX + 10];
    char text[32];
    launch_lines *lines = make();
    memset(long_line, 'x', sizeof long_line);
    launch_lines_add(lines, 0, OUT, long_line, sizeof long_line, 0);
    launch_lines_end(lines, 0, OUT, 0);
    launch_lines_flush(lines, window_ns);
    assert_has(printed, "x\n1:[rank 0] xxxxxxxxxx\n"); /* cut in two */

    printed[0] = '\0';
    for (int i = 0; i < LAUNCH_LINES_WAITING_MAX + 1; i++) {
        (void)snprintf(text, sizeof text, "%d\n", i);
        say(lines, 0, text, window_ns);
    }
    assert_string_equal(printed, "1:[rank 0] 0\n"); /* the oldest was printed to make room */
    launch_lines_destroy(lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_of_all_ranks_is_printed_once_and_at_once),
        cmocka_unit_test(a_line_of_some_ranks_is_printed_when_the_window_ends),
        cmocka_unit_test(no_rank_s_lines_change_their_order),
        cmocka_unit_test(streams_and_parts_stay_apart),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
