/* Faults in a job's processes, with the real launcher and fake ranks. Each is named, gives the
 * right exit status, and leaves no process and no file behind. */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake_job.h"

static test_program program; /* its buffers are big */

/* The points of a fake rank's life, as in fake_rank.c. */
enum { POINT_STARTED = 0, POINT_OPENED, POINT_JOINED, POINT_EXCHANGED, POINT_READY, POINT_STEPS };

typedef struct test_fault {
    const char *what;
    const char *rank;
    const char *at;
    int exit_status;
    const char *named; /* on stderr */
} test_fault;

/* Runs a job with one fault; the exit status. */
static int run_fault(const char *const *flags, const test_fault *fault)
{
    char what[64];
    char rank[64];
    char at[64];
    (void)snprintf(what, sizeof what, "FAKE_WHAT=%s", fault->what);
    (void)snprintf(rank, sizeof rank, "FAKE_RANK=%s", fault->rank);
    (void)snprintf(at, sizeof at, "FAKE_AT=%s", fault->at);
    return fake_job_run(&program, flags, FLAGS(what, rank, at));
}

static void check_fault(const char *const *flags, const test_fault *fault)
{
    const int exit_status = run_fault(flags, fault);
    if (exit_status != fault->exit_status ||
        strstr(program.text[TEST_STDERR], fault->named) == NULL) {
        fail_msg("%s in rank %s at %s: exit status %d (%d wanted), '%s' wanted in:\n%s",
                 fault->what, fault->rank, fault->at, exit_status, fault->exit_status, fault->named,
                 program.text[TEST_STDERR]);
    }
}

static void check_faults(const char *const *flags, const test_fault *faults, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check_fault(flags, &faults[i]);
    }
}

/* Shared memory objects on this host whose names are ours. */
static int count_shm(void)
{
    int count = 0;
    DIR *directory = opendir("/dev/shm");
    if (directory == NULL) {
        return 0;
    }
    for (const struct dirent *entry = readdir(directory); entry != NULL;
         entry = readdir(directory)) {
        count += strstr(entry->d_name, "ringfence") != NULL ? 1 : 0;
    }
    (void)closedir(directory);
    return count;
}

static void a_rank_killed_at_any_moment_is_named(void **state)
{
    (void)state;
    const int shm_before = count_shm();
    for (int at = POINT_STARTED; at < POINT_STEPS + 3; at++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", at);
        const char *rank = at % 2 == 0 ? "1" : "0";
        const test_fault fault = {"kill", rank, text, 137,
                                  ": not by the launcher, and no lack of memory shows; "
                                  "start the job again"};
        check_fault(FLAGS("--steps", "5", "--ranks", "3"), &fault);
        char named[32];
        (void)snprintf(named, sizeof named, "error: rank %s (pid", rank);
        assert_non_null(strstr(program.text[TEST_STDERR], named));
        assert_non_null(strstr(program.text[TEST_STDERR], "was ended by SIGKILL"));
    }
    assert_int_equal(count_shm(), shm_before);
}

/* A rank that has received the abort sends more than the queue between its two threads holds. */
static void messages_after_the_abort_arrive(void **state)
{
    (void)state;
    struct stat record;
    assert_int_equal(
        fake_job_run(&program, FLAGS("--steps", "5"),
                     FLAGS("FAKE_WHAT=kill", "FAKE_RANK=1", "FAKE_AT=7", "FAKE_DUMP=900000")),
        137);
    assert_int_equal(stat(test_shared_path("out/flight-rank-0.json"), &record), 0);
    assert_in_range(record.st_size, 900000, 1000000);
}

static void the_first_cause_gives_the_exit_status(void **state)
{
    (void)state;
    static const test_fault faults[] = {
        {"segv", "1", "6", 139, ": a bug; please report it"},
        {"segv", "0", "6", 139, "was ended by SIGSEGV after "},
        {"die-slowly", "1", "6", 137, "was ended by SIGKILL after "},
        {"abort-slowly", "1", "6", 134, "was ended by SIGABRT after "},
        {"exit", "1", "2", 3, "exited with code 3 while starting: its own output has the reason"},
        {"exit", "0", "7", 3, "exited with code 3 after "},
        {"silent", "1", "6", 1, "exited with code 0 after 2 steps: it had not finished"},
        {"fail", "1", "6", 5, "failed in all_reduce #7: the disk is full"},
    };
    check_faults(FLAGS("--steps", "5"), faults, sizeof faults / sizeof faults[0]);
}

/* The rank that has exited is the cause, even if its connection outlives it and others complain
 * first. */
static void the_rank_that_exited_is_the_cause(void **state)
{
    (void)state;
    fake_job_start(&program, FLAGS("--steps", "5"),
                   FLAGS("FAKE_WHAT=exit", "FAKE_RANK=1", "FAKE_AT=7", "FAKE_HEIR=1"));
    const int exit_status = test_program_wait(&program);
    test_program_wait_no_children(); /* the heir is killed, and this process reaps it */
    if (exit_status != 3 ||
        strstr(program.text[TEST_STDERR], "exited with code 3 after ") == NULL) {
        fail_msg("exit status %d:\n%s", exit_status, program.text[TEST_STDERR]);
    }
}

/* Rank 0 has noticed that rank 1 leaves, and says so first. Rank 1 knows why: it cannot connect. */
static void a_rank_that_cannot_connect_is_the_cause(void **state)
{
    (void)state;
    assert_int_equal(
        fake_job_run(&program, FLAGS("--steps", "5"),
                     FLAGS("FAKE_WHAT=not-connected", "FAKE_RANK=1", "FAKE_AT=3", "FAKE_ABORT=1")),
        1);
    assert_has(program.text[TEST_STDERR], "error: rank 1 (pid ");
    assert_has(program.text[TEST_STDERR],
               " failed in all_reduce #7 while starting: a peer has gone");
}

/* The exit code of a user's program is a cause by itself: what a peer dies of in answer is none. */
static void a_programs_exit_code_is_the_cause(void **state)
{
    (void)state;
    static const char script[] = "[ $RANK = 0 ] || { echo $PPID >\"$0\"; exit 7; }; trap '' TERM; "
                                 "until read -r peer <\"$0\"; do :; done 2>/dev/null; "
                                 "while kill -0 $peer; do :; done 2>/dev/null; kill -ABRT $$";
    test_program_start(&program,
                       FLAGS(FAKE_LAUNCHER_PATH, "--no-bind", "--ranks", "2", "--", "sh", "-c",
                             script, test_shared_path("peer")),
                       NULL);
    assert_int_equal(test_program_wait(&program), 7);
    assert_non_null(strstr(program.text[TEST_STDERR], "exited with code 7"));
    test_program_assert_no_children();
}

/* The other ranks are ended because of it. They give no reason, because the end of their
 * connections explains nothing. */
static void a_rank_that_gives_up_is_named(void **state)
{
    (void)state;
    const int exit_status =
        fake_job_run(&program, FLAGS("--steps", "5"),
                     FLAGS("FAKE_WHAT=hang", "FAKE_RANK=1", "FAKE_AT=7", "FAKE_ABORT=1"));
    if (exit_status != 1 || strstr(program.text[TEST_STDERR], "enough of this") == NULL) {
        fail_msg("exit status %d:\n%s", exit_status, program.text[TEST_STDERR]);
    }
}

static void a_rank_that_breaks_the_protocol_is_named(void **state)
{
    (void)state;
    static const test_fault faults[] = {
        {"garbage", "1", "6", 1, "64 bytes that is not an Envelope"},
        {"garbage", "1", "2", 1, "rank 1 (pid"},
        {"oversize", "1", "6", 1, "rank 1 (pid"},
        {"mute", "0", "6", 1, "rank 0 (pid"},
        {"parameters", "1", "3", 1, "starts from other parameters than rank 0"},
        {"shard", "1", "3", 1, "has 9 of 20 sentences, its shard is of 10"},
        {"wrong-key", "1", "1", 1, "this rank's key is not of its job, or it"},
        {"other-rank", "1", "1", 1, "says that it is rank 0"},
        {"other-build", "1", "1", 1, "is of build of last week, the launcher of "},
    };
    /* nobody waits for a wrong key to become right: this test would take too long */
    check_faults(FLAGS("--steps", "5", "--join-timeout", "600"), faults,
                 sizeof faults / sizeof faults[0]);
}

/* What a rank writes before the launcher has the ranks' word on the training would go into a directory that is
 * not the job's yet. */
static void nobody_trains_in_a_job_that_does_not_begin(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) { /* one that goes on is ended soon */
        assert_int_equal(fake_job_run(&program, FLAGS("--steps", "50"),
                                      FLAGS("FAKE_WHAT=parameters", "FAKE_RANK=1", "FAKE_AT=3",
                                            "FAKE_LINES=own")),
                         1);
        assert_null(strstr(program.text[TEST_STDOUT], "step "));
    }
}

/* Two wrong numbers of sentences whose sum is right. */
static void shards_are_checked_one_by_one(void **state)
{
    (void)state;
    const int exit_status = fake_job_run(&program, FLAGS("--steps", "5"), FLAGS("FAKE_UNEVEN=1"));
    if (exit_status != 1 ||
        strstr(program.text[TEST_STDERR], "has 11 of 20 sentences, its shard is of 10") == NULL) {
        fail_msg("exit status %d:\n%s", exit_status, program.text[TEST_STDERR]);
    }
}

static void a_rank_that_does_not_join_is_named(void **state)
{
    (void)state;
    static const test_fault faults[] = {
        {"hang", "1", "1", 1, "1 of 2 ranks have not joined within 3 s: rank 1 (pid"},
        {"stop", "1", "0", 1, "is stopped"},
    };
    /* time enough for the other one to join, also on a busy machine */
    check_faults(FLAGS("--join-timeout", "3"), faults, sizeof faults / sizeof faults[0]);
    const test_fault deaf = {"ignore-term", "0", "0", 1, "rank 0 (pid"};
    check_fault(FLAGS("--join-timeout", "0.5"), &deaf);
}

static void a_rank_that_is_not_ready_is_named(void **state)
{
    (void)state;
    static const test_fault faults[] = {
        {"hang", "0", "2", 1, "1 of 1 ranks are not ready within 4 s of joining: rank 0 (host "},
        {"ignore-term", "0", "3", 1, "error: 1 of 1 ranks are not ready"},
    };
    char hostname[256] = "";
    (void)gethostname(hostname, sizeof hostname - 1);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        check_fault(FLAGS("--ranks", "1", "--timeout", "0.2", "--join-timeout", "3.8"), &faults[i]);
        assert_non_null(strstr(program.text[TEST_STDERR], hostname));
    }
    /* the rank that waits for the one that hangs reports first */
    const test_fault waited = {"hang", "1", "2", 1, "(exchange #1 waits for rank 1)"};
    check_fault(FLAGS("--timeout", "0.2"), &waited);
    assert_null(strstr(program.text[TEST_STDERR], "are not ready"));
}

static void a_stopped_rank_is_named_after_the_timeout(void **state)
{
    (void)state;
    static const test_fault faults[] = {
        {"stop", "1", "6", 1, "error: rank 1 (pid"},
        {"stop", "0", "3", 1, "error: rank 0 (pid"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        /* the others' collectives time out first, or the launcher's own deadline: it is the cause of both */
        const int exit_status = run_fault(FLAGS("--timeout", "1"), &faults[i]);
        const char *err = program.text[TEST_STDERR];
        assert_int_equal(exit_status, 1);
        assert_non_null(strstr(err, "is stopped by SIGSTOP")); /* reported at once */
        assert_has(err, faults[i].named);
    }
    /* in a job of one rank no other rank can time out */
    const test_fault alone = {"stop", "0", "6", 1, "has been stopped for more than 1 s"};
    check_fault(FLAGS("--timeout", "1", "--ranks", "1"), &alone);
}

static void a_stopped_rank_may_go_on(void **state)
{
    (void)state;
    fake_job_start(&program, FLAGS("--steps", "5"),
                   FLAGS("FAKE_WHAT=stop", "FAKE_RANK=1", "FAKE_AT=6"));
    test_program_wait_text(&program, TEST_STDERR, "is stopped by SIGSTOP");
    const long pid = test_program_number_after(&program, TEST_STDERR, "kill -CONT ");
    assert_int_equal(kill((pid_t)pid, SIGCONT), 0);
    assert_int_equal(test_program_wait(&program), 0);
    test_program_assert_no_children();
}

static void two_jobs_cannot_have_one_directory(void **state)
{
    (void)state;
    static test_program second;
    fake_job_start_endless(&program);
    fake_job_start(&second, FLAGS("--steps", "2"), NULL);
    assert_int_equal(test_program_wait(&second), 1);
    assert_non_null(strstr(second.text[TEST_STDERR], test_shared_path("out")));
    assert_int_equal(kill(program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&program), 130);
    test_program_assert_no_children();
}

/* MASTER_PORT of the launcher's first rank. */
static int control_port(pid_t launcher)
{
    static char text[64 * 1024];
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", launcher, launcher);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t got = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[got] = '\0';
    (void)snprintf(path, sizeof path, "/proc/%ld/environ", strtol(text, NULL, 10));
    file = fopen(path, "re");
    assert_non_null(file);
    got = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[got] = '\0';
    for (const char *at = text; at < text + got; at += strlen(at) + 1) {
        if (strncmp(at, "MASTER_PORT=", 12) == 0) {
            return (int)strtol(at + 12, NULL, 10);
        }
    }
    fail_msg("no MASTER_PORT in a rank's environment");
    return -1;
}

static void strangers_do_not_disturb_a_job(void **state)
{
    (void)state;
    static const char greeting[] = "GET / HTTP/1.0\r\n\r\n";
    static char garbage[256 * 1024];
    fake_job_start_endless(&program);
    memset(garbage, 0xa5, sizeof garbage);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)control_port(program.pid))};
    const struct {
        const char *data;
        size_t size_bytes;
    } cases[] = {{greeting, sizeof greeting - 1}, {garbage, sizeof garbage}, {garbage, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
        (void)!send(fd, cases[i].data, cases[i].size_bytes, MSG_NOSIGNAL);
        (void)close(fd);
    }
    test_program_wait_text(&program, TEST_STDERR, "refused a connection");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&program), 130);
    test_program_assert_no_children();
    assert_non_null(strstr(program.text[TEST_STDOUT], "byte-equal on all ranks: yes"));
}

static void a_full_disk_ends_the_job(void **state)
{
    (void)state;
    /* a limit on the size of files acts like a full disk, except for the errno */
    fake_job_start_in_shell(&program, "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"",
                            FLAGS("--quiet", "--steps", FAKE_ENDLESS), NULL);
    assert_int_equal(test_program_wait(&program), 1);
    test_program_assert_no_children();
    assert_non_null(strstr(program.text[TEST_STDERR], "timings.jsonl"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_JOB_TEST(a_rank_killed_at_any_moment_is_named),
        FAKE_JOB_TEST(messages_after_the_abort_arrive),
        FAKE_JOB_TEST(the_first_cause_gives_the_exit_status),
        FAKE_JOB_TEST(the_rank_that_exited_is_the_cause),
        FAKE_JOB_TEST(a_rank_that_cannot_connect_is_the_cause),
        FAKE_JOB_TEST(a_programs_exit_code_is_the_cause),
        FAKE_JOB_TEST(a_rank_that_gives_up_is_named),
        FAKE_JOB_TEST(a_rank_that_breaks_the_protocol_is_named),
        FAKE_JOB_TEST(nobody_trains_in_a_job_that_does_not_begin),
        FAKE_JOB_TEST(shards_are_checked_one_by_one),
        FAKE_JOB_TEST(a_rank_that_does_not_join_is_named),
        FAKE_JOB_TEST(a_rank_that_is_not_ready_is_named),
        FAKE_JOB_TEST(a_stopped_rank_is_named_after_the_timeout),
        FAKE_JOB_TEST(a_stopped_rank_may_go_on),
        FAKE_JOB_TEST(two_jobs_cannot_have_one_directory),
        FAKE_JOB_TEST(strangers_do_not_disturb_a_job),
        FAKE_JOB_TEST(a_full_disk_ends_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
