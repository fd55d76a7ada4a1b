/* Nobody reads what a launcher prints: a pager, or a terminal after Ctrl-S. The job goes on, its
 * hosts stay, Ctrl-C works, and later all of the output comes. The hosts need root. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "fake_job.h"
#include "several.h"

/* Each rank prints more than its pipe and the launchers keep, and meanwhile stays for longer than the
 * hosts' timeout below. */
enum { LINES = 2000 };
static const char print_much[] =
    "{ awk 'BEGIN { for (i = 0; i < 2000; i++) printf(\"%d %01000d\\n\", i, ENVIRON[\"RANK\"]) }'; "
    "echo done >&2; } & sleep 9; echo slept >&2; wait";

static bool have_hosts;
static test_program program; /* its buffers are big */

/* All lines of both ranks are there, and each rank's are in order. */
static void assert_whole(char *text)
{
    int next[2] = {0, 0};
    /* Each line becomes a string: under AddressSanitizer each strtol looks for its string's end. */
    for (char *rest = text, *line = NULL; *rest != '\0';) {
        char *end = NULL;
        line = strsep(&rest, "\n");
        assert_non_null(rest); /* the last line is whole, too */
        assert_memory_equal(line, "[rank ", 6);
        const long rank = strtol(line + 6, &end, 10);
        assert_true(rank == 0 || rank == 1);
        const long number = strtol(end + 2, &end, 10);
        assert_int_equal(number, next[rank]++);
        assert_int_equal(strlen(end), 1001);
        assert_int_equal(strtol(end, NULL, 10), rank);
    }
    assert_int_equal(next[0], LINES);
    assert_int_equal(next[1], LINES);
}

/* Longer than the hosts' timeout, the head cannot print. Neither of the launchers takes the other for
 * lost. Then all comes. */
static void hosts_stay_while_nobody_reads(void **state)
{
    (void)state;
    if (!have_hosts) {
        skip();
    }
    static const char *const flags[] = {"--ranks", "2",  "--host-timeout", "6", "--",
                                        "sh",      "-c", print_much,       NULL};
    const several job = SEVERAL("2", NULL);
    test_program *head = &several_runs[0].program;
    several_make_key("unread");
    several_start(0, &job, flags);
    head->unread = true;
    several_start(1, &job, (const char *const[]){"--", "sh", "-c", print_much, NULL});
    several_wait_says(0, "[rank 0] slept");
    assert_null(strstr(head->text[TEST_STDERR], "] done")); /* each still had something to print */
    head->unread = false;
    several_expect_all(2, 0);
    assert_whole(head->text[TEST_STDOUT]);
    several_assert_says(0, "done");
    assert_null(strstr(head->text[TEST_STDERR], "heartbeat"));
    assert_null(strstr(several_runs[1].program.text[TEST_STDERR], "heartbeat"));
    test_program_assert_no_children();
}

static void start_unread(const char *command)
{
    test_program_start(&program,
                       (const char *const[]){FAKE_LAUNCHER_PATH, "--no-bind", "--ranks", "2", "--",
                                             "sh", "-c", command, NULL},
                       NULL);
    program.unread = true;
}

/* Both Ctrl-C are heard while standard output takes nothing. */
static void ctrl_c_works_while_nobody_reads(void **state)
{
    (void)state;
    start_unread("trap '' INT; yes 'a line that nobody reads' & sleep 1; echo slept >&2; wait");
    test_program_wait_text(&program, TEST_STDERR, "slept");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    test_program_wait_text(&program, TEST_STDERR, "passed on to the ranks");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    test_program_wait_text(&program, TEST_STDERR, "its output is not read: Ctrl-C drops the rest");
    program.unread = false;
    assert_int_equal(test_program_wait(&program), 128 + SIGINT);
    test_program_assert_no_children();
    assert_int_equal(program.text[TEST_STDOUT][program.text_bytes[TEST_STDOUT] - 1], '\n');
}

/* A third Ctrl-C drops what was not read. */
static void ctrl_c_drops_what_nobody_reads(void **state)
{
    (void)state;
    start_unread("head -c 30000 /dev/zero | tr '\\0' '\\n'");
    test_program_wait_text(&program, TEST_STDERR, "its output is not read: Ctrl-C drops the rest");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    program.unread = false;
    assert_int_equal(test_program_wait(&program), 128 + SIGINT);
    test_program_assert_no_children();
}

/* A rank that waits for a reader cannot end its step, and the user hears why. The second Ctrl-C ends it,
 * and the record is written before anybody reads. */
static void a_second_ctrl_c_saves_the_record(void **state)
{
    (void)state;
    fake_job_start(&program, FLAGS("--steps", FAKE_ENDLESS), FLAGS("FAKE_LINES=much"));
    program.unread = true;
    test_program_wait_text(&program, TEST_STDERR, "step 1/");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    test_program_wait_text(&program, TEST_STDERR, "nobody has read standard output for ");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    test_program_wait_text(&program, TEST_STDERR, "its output is not read: Ctrl-C drops the rest");
    assert_true(fake_job_left("out/manifest.json"));
    program.unread = false;
    assert_int_equal(test_program_wait(&program), 128 + SIGINT);
    test_program_assert_no_children();
}

/* A pipe that takes no more, for a program to write to. Returns its end to read from. */
static int make_full_pipe(const char *path)
{
    static const char bytes[4096];
    assert_int_equal(mkfifo(path, 0600), 0);
    const int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    while (write(fd, bytes, sizeof bytes) > 0) {
    }
    return fd;
}

/* Whoever started an agent waits for it, so it ends though nobody reads its own lines. */
static void an_agent_ends_while_nobody_reads(void **state)
{
    (void)state;
    char path[SEVERAL_PATH_BYTES];
    char script[SEVERAL_PATH_BYTES];
    char text[3 * SEVERAL_PATH_BYTES];
    base_error error;
    if (!have_hosts) {
        skip();
    }
    (void)snprintf(path, sizeof path, "%s", test_shared_path("full"));
    (void)snprintf(script, sizeof script, "%s", test_shared_path("mute"));
    const int reader = make_full_pipe(path);
    (void)snprintf(text, sizeof text, "#!/bin/sh\nexec %s \"$@\" 2>%s\n", LAUNCHER_PATH, path);
    assert_ok(base_file_write(script, text, strlen(text), &error), &error);
    assert_int_equal(chmod(script, 0700), 0);
    several_make_key("mute");
    several_launchers[1] = script;
    const several job = SEVERAL("2", "--ranks", "2");
    several_start_hosts("mute-out", &job);
    several_launchers[1] = NULL;
    several_expect_all(2, 0);
    test_program_assert_no_children();
    (void)close(reader);
}

static int make_hosts(void **state)
{
    have_hosts = test_hosts_skip(2) == 0;
    return fake_job_setup(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ctrl_c_works_while_nobody_reads),
        cmocka_unit_test(ctrl_c_drops_what_nobody_reads),
        cmocka_unit_test(a_second_ctrl_c_saves_the_record),
        cmocka_unit_test(an_agent_ends_while_nobody_reads),
        cmocka_unit_test(hosts_stay_while_nobody_reads),
    };
    return cmocka_run_group_tests(tests, make_hosts, fake_job_teardown);
}
