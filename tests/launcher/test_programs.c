/* Users' programs under the real launcher: launcher --ranks N -- PROGRAM. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/file.h"
#include "program.h"

static test_program program; /* its buffers are big */

/* Scripts that leave a process in a session of its own, which neither its group nor its parent
 * reaches. */
static const char escape_and_go[] = "setsid sh -c 'echo escaped $RANK; exec sleep 600' & exit 0";
static const char escape_and_fail[] = "setsid sh -c 'echo escaped $RANK; exec sleep 600' & "
                                      "if [ $RANK = 0 ]; then exit 4; else wait; fi";
static const char escape_and_stay[] = "setsid sh -c 'echo escaped $RANK; exec sleep 600' & "
                                      "exec sleep 600";
static const char say_bye[] = "trap 'echo bye; exit 0' TERM; echo up $RANK; "
                              "while :; do sleep 600 & wait; done";
static const char fail_as_rank_1[] = "if [ $RANK = 1 ]; then exit 7; else exec sleep 600; fi";

static int run(const char *const *arguments)
{
    test_program_start(&program, arguments, NULL);
    return test_program_wait(&program);
}

/* Waits until both ranks have printed a word and their number. It does not wait for one merged
 * line, which needs both at about the same time. */
static void wait_both(const char *word)
{
    char text[64];
    for (int rank = 0; rank < 2; rank++) {
        (void)snprintf(text, sizeof text, "[rank %d] %s %d", rank, word, rank);
        test_program_wait_text(&program, TEST_STDOUT, text);
    }
}

#define RUN(...) run(FLAGS(FAKE_LAUNCHER_PATH, "--no-bind", __VA_ARGS__))

static void output_and_arguments_come_through(void **state)
{
    (void)state;
    assert_int_equal(RUN("--ranks", "3", "--", "sh", "-c", "echo \"$1 of $WORLD_SIZE\" $2", "sh",
                         "one", "--ranks"),
                     0);
    assert_has(program.text[TEST_STDOUT], "] one of 3 --ranks\n");
    assert_int_equal(RUN("--ranks", "1", "--quiet", "--", "echo", "heard"), 0);
    assert_has(program.text[TEST_STDOUT], "heard\n");
    test_program_assert_no_children();
}

/* PyTorch's init_process_group needs no more. */
static void ranks_can_meet_at_the_master_port(void **state)
{
    (void)state;
    assert_int_equal(RUN("--ranks", "3", "--", MEET_AT_MASTER_PATH), 0);
    assert_has(program.text[TEST_STDOUT], "[rank 0] met 0\n");
    assert_has(program.text[TEST_STDOUT], "[rank 2] met 2\n");
    test_program_assert_no_children();
}

/* A full disk loses output, which is an error, but no reason to run again. A reader that has gone is
 * none. */
static void lost_output_is_an_error(void **state)
{
    (void)state;
    static const char full[] = "exec " FAKE_LAUNCHER_PATH " --no-bind --ranks 2 --max-restarts 2 "
                               "-- echo word";
    char command[1024];
    (void)snprintf(command, sizeof command, "%s >/dev/full", full);
    assert_int_equal(run(FLAGS("/bin/sh", "-c", command)), BASE_EXIT_ERROR);
    assert_has(program.text[TEST_STDERR], "standard output: No space left");
    assert_null(strstr(program.text[TEST_STDERR], "starting again"));
    (void)snprintf(command, sizeof command, "{ { %s; echo $? >&3; } | true; } 3>&1", full + 5);
    assert_int_equal(run(FLAGS("/bin/sh", "-c", command)), 0);
    assert_string_equal(program.text[TEST_STDOUT], "0\n");
    test_program_assert_no_children();
}

/* What a reader does not want to read is not missed, whatever was printed. A full disk is told. */
static void a_gone_reader_is_no_error(void **state)
{
    (void)state;
    static const char *const printed[] = {"--help", "plan --help", "--version",
                                          "plan --model gpt2 --ranks 1"};
    char command[512];
    for (size_t i = 0; i < sizeof printed / sizeof printed[0]; i++) {
        /* the launcher begins when the reader has gone */
        (void)snprintf(
            command, sizeof command,
            "mkfifo \"$1\"; true <\"$1\" & exec 4>\"$1\"; rm \"$1\"; wait; exec %s %s >&4",
            FAKE_LAUNCHER_PATH, printed[i]);
        assert_int_equal(run(FLAGS("/bin/sh", "-c", command, "sh", test_shared_path("p"))), 0);
        assert_string_equal(program.text[TEST_STDERR], "");
        (void)snprintf(command, sizeof command, "exec %s %s >/dev/full", FAKE_LAUNCHER_PATH,
                       printed[i]);
        assert_int_equal(run(FLAGS("/bin/sh", "-c", command)), BASE_EXIT_ERROR);
        assert_has(program.text[TEST_STDERR], "cannot write to standard output");
    }
}

/* A soft limit of open files is raised for the launcher and its ranks; a hard one is named. */
static void too_few_open_files_are_named(void **state)
{
    (void)state;
    static const char command[] = " && exec " FAKE_LAUNCHER_PATH " --no-bind --ranks 2 --quiet -- "
                                  "sh -c 'echo $(($(ulimit -n) > 190))'";
    char text[1024];
    (void)snprintf(text, sizeof text, "ulimit -Sn 12%s", command);
    assert_int_equal(run(FLAGS("/bin/sh", "-c", text)), 0);
    assert_has(program.text[TEST_STDOUT], "1\n");
    assert_null(strstr(program.text[TEST_STDOUT], "0\n"));
    (void)snprintf(text, sizeof text, "ulimit -n 12%s", command);
    assert_int_equal(run(FLAGS("/bin/sh", "-c", text)), BASE_EXIT_ERROR);
    assert_string_equal(
        program.text[TEST_STDERR],
        "launcher: error: 2 ranks need up to 195 open files in a process, and ulimit "
        "-Hn allows 12: raise it, or start fewer ranks\n");
    test_program_assert_no_children();
}

static void a_small_stack_is_enough(void **state)
{
    (void)state;
    static const char command[] =
        "ulimit -s 512 && exec " FAKE_LAUNCHER_PATH " --no-bind --ranks 2 --quiet -- true";
    assert_int_equal(run(FLAGS("/bin/sh", "-c", command)), 0);
    test_program_assert_no_children();
}

/* The launcher and its own ranks ignore SIGXFSZ; a program gets it as from a shell. */
static void a_program_is_ended_by_a_file_that_is_too_large(void **state)
{
    (void)state;
    const char *path = test_shared_path("large");
    char script[1024];
    (void)snprintf(script, sizeof script, "ulimit -f 1 && exec head -c 9999 /dev/zero >%s", path);
    assert_int_equal(RUN("--ranks", "1", "--", "sh", "-c", script), 128 + SIGXFSZ);
    assert_has(program.text[TEST_STDERR],
               "was ended by SIGXFSZ: a file would be larger than ulimit -f allows");
    test_program_assert_no_children();
}

/* At a hard limit the kernel sends SIGKILL. */
static void a_limit_of_processor_time_is_named(void **state)
{
    (void)state;
    static const char command[] = "ulimit -t 1 && exec " FAKE_LAUNCHER_PATH
                                  " --no-bind --ranks 1 -- sh -c 'while :; do :; done'";
    assert_int_equal(run(FLAGS("/bin/sh", "-c", command)), 128 + SIGKILL);
    assert_has(
        program.text[TEST_STDERR],
        "was ended by SIGKILL: probably by ulimit -t, since it has used most of that processor "
        "time\n");
    test_program_assert_no_children();
}

static void the_first_failing_rank_gives_the_exit_code(void **state)
{
    (void)state;
    assert_int_equal(RUN("--ranks", "2", "--", "sh", "-c", fail_as_rank_1), 7);
    assert_has(program.text[TEST_STDERR], "rank 1 (pid ");
    assert_has(program.text[TEST_STDERR], "exited with code 7");
    assert_int_equal(RUN("--ranks", "1", "--", "sh", "-c", "kill -ABRT $$"), 128 + SIGABRT);
    assert_has(program.text[TEST_STDERR], "was ended by SIGABRT");
    test_program_assert_no_children();
}

/* Codes that mean a refusal of the launcher's own mean nothing here. */
static void any_failure_starts_a_program_again(void **state)
{
    (void)state;
    static const char *const codes[] = {"1", "2", "3", "6"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        assert_int_equal(RUN("--ranks", "1", "--max-restarts", "1", "--", "sh", "-c",
                             "echo tried; exit $1", "sh", codes[i]),
                         strtol(codes[i], NULL, 10));
        const char *first = strstr(program.text[TEST_STDOUT], "tried\n");
        assert_non_null(first);
        assert_has(first + 1, "tried\n");
    }
}

/* The log of the attempt that failed has the reason. */
static void each_attempt_is_in_the_log(void **state)
{
    (void)state;
    size_t text_bytes = 0;
    const char *logs = test_shared_path("attempts");
    for (int twice = 0; twice < 2; twice++) { /* a new launch begins it anew */
        assert_int_equal(RUN("--ranks", "1", "--max-restarts", "1", "--log-dir", logs, "--", "sh",
                             "-c", "echo tried; exit 7"),
                         7);
        const char *log = test_shared_path("attempts/rank-0.log");
        void *text = test_file_read(log, &text_bytes);
        assert_int_equal(text_bytes, 30);
        assert_memory_equal(text, "tried\n--- attempt 2 ---\ntried\n", 30);
        free(text);
    }
}

static void descendants_end_with_their_program(void **state)
{
    (void)state;
    assert_int_equal(RUN("--ranks", "2", "--", "sh", "-c", escape_and_go), 0);
    test_program_assert_no_children();
    assert_int_equal(RUN("--ranks", "2", "--", "sh", "-c", escape_and_fail), 4);
    test_program_assert_no_children();
}

/* What a program has started and left is collected when it ends, while the program runs on: its
 * subreaper has one child then. */
static void no_zombies_pile_up(void **state)
{
    (void)state;
    static const char leave_many[] =
        "i=0; while [ $i -lt 20 ]; do (true & true &); i=$((i + 1)); done; i=0; "
        "until [ \"$(wc -w </proc/$PPID/task/$PPID/children)\" -eq 1 ]; do "
        "[ $i -lt 6000 ] || exit 9; i=$((i + 1)); sleep 0.01; done";
    assert_int_equal(RUN("--ranks", "1", "--", "sh", "-c", leave_many), 0);
}

static void nothing_survives_a_killed_launcher(void **state)
{
    (void)state;
    test_program_start(
        &program,
        FLAGS(FAKE_LAUNCHER_PATH, "--no-bind", "--ranks", "2", "--", "sh", "-c", escape_and_stay),
        NULL);
    wait_both("escaped");
    assert_int_equal(kill(program.pid, SIGKILL), 0);
    assert_int_equal(test_program_wait(&program), 128 + SIGKILL);
    test_program_wait_no_children();
}

static void a_signal_is_passed_on_and_the_second_is_final(void **state)
{
    (void)state;
    const char *const polite[] = {
        FAKE_LAUNCHER_PATH, "--no-bind", "--ranks", "2", "--", "sh", "-c", say_bye, NULL};
    test_program_start(&program, polite, NULL);
    wait_both("up");
    assert_int_equal(kill(program.pid, SIGTERM), 0);
    assert_int_equal(test_program_wait(&program), 128 + SIGTERM);
    assert_has(program.text[TEST_STDOUT], "bye");
    test_program_assert_no_children();

    const char *const ignoring[] = {FAKE_LAUNCHER_PATH,
                                    "--no-bind",
                                    "--ranks",
                                    "2",
                                    "--",
                                    "sh",
                                    "-c",
                                    "trap '' TERM; echo up $RANK; while :; do sleep 600; done",
                                    NULL};
    test_program_start(&program, ignoring, NULL);
    wait_both("up");
    assert_int_equal(kill(program.pid, SIGTERM), 0);
    test_program_wait_text(&program, TEST_STDERR, "passed on");
    assert_int_equal(kill(program.pid, SIGINT), 0); /* another: two SIGTERMs at once are one */
    assert_int_equal(test_program_wait(&program), 128 + SIGINT);
    test_program_assert_no_children();
}

/* A program of libcoll ends by the signal that is passed on, and its connection with it: that is no failure. */
static void a_signal_ends_a_program_of_libcoll(void **state)
{
    (void)state;
    static const char *const arguments[] = {
        FAKE_LAUNCHER_PATH, "--no-bind", "--ranks", "2",  "--",   COLL_BENCH_PATH,
        "all_reduce",       "-b",        "8",       "-e", "256M", NULL};
    for (int i = 0; i < 5; i++) {
        test_program_start(&program, arguments, NULL);
        test_program_wait_text(&program, TEST_STDOUT, "time");
        assert_int_equal(kill(program.pid, SIGINT), 0);
        assert_int_equal(test_program_wait(&program), 128 + SIGINT);
        assert_null(strstr(program.text[TEST_STDERR], "error"));
        test_program_assert_no_children();
    }
}

/* Runs a fake rank as a user's program. Rank 1 does `what` when it has joined. Returns its pid. */
static int run_joined(const char *what, const char *timeout, int *exit_code)
{
    static const char script[] = "[ $RANK = 0 ] || echo \"I am $$\"; exec \"$0\"";
    char deed[32];
    (void)snprintf(deed, sizeof deed, "FAKE_WHAT=%s", what);
    test_program_start(&program,
                       FLAGS(FAKE_LAUNCHER_PATH, "--no-bind", "--ranks", "2", "--timeout", timeout,
                             "--", "sh", "-c", script, FAKE_RANK_PATH),
                       FLAGS(deed, "FAKE_RANK=1", "FAKE_AT=2"));
    *exit_code = test_program_wait(&program);
    const char *line = strstr(program.text[TEST_STDOUT], "I am ");
    assert_non_null(line);
    return (int)strtol(line + 5, NULL, 10);
}

/* Messages name the program's pid, not the subreaper's, and so do those of its peers. */
static void a_rank_is_named_by_its_own_pid(void **state)
{
    (void)state;
    char expected[128];
    int exit_code = 0;
    int pid = run_joined("fail", "30", &exit_code);
    (void)snprintf(expected, sizeof expected, "rank 1 (pid %d) failed in all_reduce #7: the disk",
                   pid);
    assert_int_equal(exit_code, 5);
    assert_has(program.text[TEST_STDERR], expected);
    pid = run_joined("kill", "30", &exit_code);
    (void)snprintf(expected, sizeof expected, "rank 1 (pid %d) was ended by SIGKILL", pid);
    assert_int_equal(exit_code, 128 + SIGKILL);
    assert_has(program.text[TEST_STDERR], expected);
    pid = run_joined("stop", "0.5", &exit_code);
    (void)snprintf(expected, sizeof expected, "(rank 1, pid %d, is stopped: SIGSTOP", pid);
    assert_int_equal(exit_code, 1);
    assert_has(program.text[TEST_STDERR], expected);
    test_program_assert_no_children();
}

static void wrong_command_lines_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *arguments[6];
        const char *expected;
    } wrong[] = {
        {{"--"}, "must be followed by a program"},
        {{"--", "no-such-program-at-all"}, "there is no program no-such-program-at-all in PATH"},
        {{"--", ""}, "the program behind -- has an empty name"},
        {{"--", "./no-such-file"}, "there is no program ./no-such-file"},
        {{"--", "/etc/passwd"}, "cannot be run"},
        {{"--steps", "3", "--", "true"}, "--steps is for our own modes"},
        {{"--mode", "ddp-cpu", "--", "true"}, "--mode does not go with -- true"},
        {{"--mode", "program"}, "launcher --ranks N -- PROGRAM"},
        {{"stray", "--", "true"}, "unexpected argument 'stray'"},
        {{"compare", "no-such-file", "no-such-file"}, "no-such-file: No such file"},
        {{"compare", "/etc/passwd", "/etc/passwd"}, "it is no safetensors file"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *arguments[8] = {FAKE_LAUNCHER_PATH};
        memcpy(&arguments[1], wrong[i].arguments, sizeof wrong[i].arguments);
        assert_int_equal(run(arguments), 2);
        assert_has(program.text[TEST_STDERR], wrong[i].expected);
    }
}

/* A script without its first line, for example. */
static void files_that_are_no_programs_are_refused_with_a_reason(void **state)
{
    (void)state;
    test_directory directory;
    test_directory_make(&directory);
    static const char *const wrong[][2] = {
        {"echo 1\n", "/script: Exec format error: "},
        {"#!/bin/sh\r\necho 1\r\n", "/script: its interpreter is not there: "},
    };
    const char *path = test_directory_path(&directory, "script");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const size_t length = strlen(wrong[i][0]);
        const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
        assert_int_equal(write(fd, wrong[i][0], length), (int)length);
        assert_int_equal(close(fd), 0);
        assert_int_equal(RUN("--ranks", "1", "--", path), 127);
        assert_has(program.text[TEST_STDERR], wrong[i][1]);
    }
    test_directory_remove(&directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_and_arguments_come_through),
        cmocka_unit_test(ranks_can_meet_at_the_master_port),
        cmocka_unit_test(lost_output_is_an_error),
        cmocka_unit_test(a_gone_reader_is_no_error),
        cmocka_unit_test(too_few_open_files_are_named),
        cmocka_unit_test(a_small_stack_is_enough),
        cmocka_unit_test(a_program_is_ended_by_a_file_that_is_too_large),
        cmocka_unit_test(a_limit_of_processor_time_is_named),
        cmocka_unit_test(the_first_failing_rank_gives_the_exit_code),
        cmocka_unit_test(any_failure_starts_a_program_again),
        cmocka_unit_test(each_attempt_is_in_the_log),
        cmocka_unit_test(descendants_end_with_their_program),
        cmocka_unit_test(no_zombies_pile_up),
        cmocka_unit_test(nothing_survives_a_killed_launcher),
        cmocka_unit_test(a_signal_is_passed_on_and_the_second_is_final),
        cmocka_unit_test(a_signal_ends_a_program_of_libcoll),
        cmocka_unit_test(a_rank_is_named_by_its_own_pid),
        cmocka_unit_test(wrong_command_lines_are_refused),
        cmocka_unit_test(files_that_are_no_programs_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
