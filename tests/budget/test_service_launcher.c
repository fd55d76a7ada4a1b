/* `launcher --authorize` with a service: what the launcher checks before it asks for money, what it
 * says of money that it has asked for in vain, and how it ends a job whose time is over. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "program.h"
#include "service_fixture.h"

enum { PATH_BYTES = 2 * BASE_PATH_BYTES, WAIT_MS = 30 * 1000 };

static test_program launcher;
static test_program asked; /* the last command of budget-service */

static char path_buffers[4][PATH_BYTES];

/* Within the service's directory; good for three more calls. */
static const char *at(const service_fixture *fixture, const char *name)
{
    static size_t next;
    char *path = path_buffers[next++ % 4];
    (void)snprintf(path, PATH_BYTES, "%s/%s", fixture->dir, name);
    return path;
}

static int setup(void **state)
{
    (void)fixture_setup(state);
    service_fixture *fixture = *state;
    fixture_start(fixture);
    fixture_account(fixture, "phase", USD(10));
    return 0;
}

/* `program --authorize 1 …` with the flags; the ends of its output are in `launcher`. */
static void launch_with(const char *program, const service_fixture *fixture, int exit_code,
                        const char *const *flags)
{
    const char *all[TEST_PROGRAM_ARGS_MAX] = {
        program,     "--authorize", "1",   "--vendor",     "runpod",    "--instance-type",
        "X",         "--max-price", "0.1", "--max-hours",  "1",         "--quiet",
        "--no-bind", "--ranks",     "1",   "--budget-dir", fixture->dir};
    size_t count = 17;
    for (size_t i = 0; flags[i] != NULL; i++) {
        all[count++] = flags[i];
    }
    test_program_start(&launcher, all, NULL);
    const int got = test_program_wait(&launcher);
    if (got != exit_code) {
        fail_msg("the launcher ended with %d, not %d: %s", got, exit_code,
                 launcher.text[TEST_STDERR]);
    }
}
#define LAUNCH(fixture, exit_code, ...)                                                            \
    launch_with(LAUNCHER_PATH, fixture, exit_code, (const char *const[]){__VA_ARGS__, NULL})

static void assert_says(const char *text)
{
    if (strstr(launcher.text[TEST_STDERR], text) == NULL) {
        fail_msg("'%s' is not in: %s", text, launcher.text[TEST_STDERR]);
    }
}

/* budget-service with these arguments. */
static void budget(const service_fixture *fixture, const char *const *arguments)
{
    const char *all[TEST_PROGRAM_ARGS_MAX] = {BUDGET_SERVICE_PATH};
    size_t count = 1;
    for (size_t i = 0; arguments[i] != NULL; i++) {
        all[count++] = arguments[i];
    }
    all[count++] = "--dir";
    all[count++] = fixture->dir;
    test_program_start(&asked, all, NULL);
    if (test_program_wait(&asked) != 0) {
        fail_msg("budget-service %s: %s", arguments[0], asked.text[TEST_STDERR]);
    }
}
#define BUDGET(fixture, ...) budget(fixture, (const char *const[]){__VA_ARGS__, NULL})

static void assert_reserved(const service_fixture *fixture, int64_t usd_micro)
{
    base_error why;
    budget_chain chain;
    budget_client *client = fixture_client(fixture, "request", 0);
    assert_verdict(budget_remaining(client, "phase", &chain, &why), BUDGET_GRANTED, &why);
    assert_int_equal(chain.accounts[0].reserved_usd_micro, usd_micro);
    budget_client_close(client);
}

static void a_missing_keyring_is_noticed_before_money_is_asked_for(void **state)
{
    const service_fixture *fixture = *state;
    LAUNCH(fixture, 2, "--mode", "gate-check", "--keyring", at(fixture, "nowhere.json"));
    assert_says("no keyring to verify the token with");
    assert_reserved(fixture, 0);
    LAUNCH(fixture, 0, "--mode", "gate-check", "--keyring", at(fixture, "keyring.json"));
    assert_reserved(fixture, USD(1));
}

/* A copy of the programs (rank: NULL for the launcher alone), with no plugin beside it. */
static const char *install(const service_fixture *fixture, const char *rank)
{
    char share[PATH_BYTES];
    const char *directory = strrchr(LAUNCHER_PATH, '/');
    assert_int_equal(mkdir(at(fixture, "bin"), 0700), 0);
    test_program_start(
        &asked,
        (const char *const[]){"/bin/cp", "-t", at(fixture, "bin"), LAUNCHER_PATH, rank, NULL},
        NULL);
    assert_int_equal(test_program_wait(&asked), 0);
    (void)snprintf(share, sizeof share, "%.*s/../share", (int)(directory - LAUNCHER_PATH),
                   LAUNCHER_PATH);
    assert_int_equal(symlink(share, at(fixture, "share")), 0);
    return at(fixture, "bin/launcher");
}

static void a_build_without_cuda_asks_for_nothing_and_redeems_nothing(void **state)
{
    const service_fixture *fixture = *state;
    char program[PATH_BYTES];
    (void)snprintf(program, sizeof program, "%s", install(fixture, RANK_PATH));
    launch_with(program, fixture, 9,
                (const char *const[]){"--mode", "ddp-nccl", "--out", at(fixture, "out"), NULL});
    assert_says("this Ringfence was built without CUDA");
    assert_reserved(fixture, 0);
    /* here the job is only written, and runs where there is a GPU */
    launch_with(program, fixture, 0,
                (const char *const[]){"--mode", "ddp-nccl", "--out", at(fixture, "out"),
                                      "--write-job", at(fixture, "JOB.json"), NULL});
    launch_with(program, fixture, 0,
                (const char *const[]){"--mode", "ddp-nccl", "--out", at(fixture, "out"),
                                      "--dry-run", NULL});
    BUDGET(fixture, "authorize", "run", "1", "--job", at(fixture, "JOB.json"), "--out",
           at(fixture, "TOKEN"), "--vendor", "runpod", "--instance-type", "X", "--max-price", "0.1",
           "--max-hours", "1");
    test_program_start(&launcher,
                       (const char *const[]){program, "--mode", "ddp-nccl", "--ranks", "1", "--out",
                                             at(fixture, "out"), "--token", at(fixture, "TOKEN"),
                                             "--budget-dir", fixture->dir, NULL},
                       NULL);
    assert_int_equal(test_program_wait(&launcher), 9);
    BUDGET(fixture, "void", "run"); /* which was not redeemed */
}

/* Granted, and then nothing of it is used: the launcher says how the money returns. */
static void money_that_is_not_used_is_named(void **state)
{
    const service_fixture *fixture = *state;
    service_fixture other;
    fixture_make(&other);
    LAUNCH(fixture, 6, "--mode", "gate-check", "--label", "stranger", "--keyring",
           at(&other, "keyring.json"));
    fixture_remove(&other);
    assert_says("the token does not allow this job (unknown-key)");
    assert_says("returns with: budget-service void stranger");
    assert_reserved(fixture, USD(1));
    BUDGET(fixture, "void", "stranger");

    LAUNCH(fixture, 1, "--mode", "gate-check", "--label", "alone", "--keyring",
           at(fixture, "keyring.json"), "--log-dir", at(fixture, "keyring.json/logs"));
    assert_says("returns with: budget-service void alone");
    BUDGET(fixture, "void", "alone");
    assert_reserved(fixture, 0);
}

/* The service is killed before it answers. Its grant holds nothing that the launcher's advice does not
 * return. */
static void a_lost_answer_names_the_label(void **state)
{
    service_fixture *fixture = *state;
    assert_int_equal(fixture_stop(fixture), 0);
    assert_true(fixture_start_with(fixture, "BUDGET_FAILPOINT=before-reply:1", NULL));
    LAUNCH(fixture, 5, "--mode", "gate-check", "--keyring", at(fixture, "keyring.json"));
    (void)fixture_wait(fixture);
    assert_says("it is not known whether gate-check-");
    const char *advice = strstr(launcher.text[TEST_STDERR], "returns with: budget-service void ");
    assert_non_null(advice);
    char label[BUDGET_LABEL_BYTES] = "";
    assert_int_equal(sscanf(advice, "returns with: budget-service void %127[^; \n]", label), 1);
    fixture_start(fixture);
    assert_reserved(fixture, USD(1));
    BUDGET(fixture, "void", label);
    assert_reserved(fixture, 0);
    LAUNCH(fixture, 0, "--mode", "gate-check", "--keyring", at(fixture, "keyring.json"));
}

/* Starts two ranks for 4 s. Rank 0 is `first`, rank 1 never comes, and both ignore SIGTERM. Returns when
 * both have been started. */
static void start_held(const service_fixture *fixture, const char *label, const char *first)
{
    char program[PATH_BYTES];
    char rank[PATH_BYTES];
    base_error error;
    (void)snprintf(rank, sizeof rank,
                   "#!/bin/sh\n"
                   "trap '' TERM\n"
                   "echo \"its pid is $$\" >&2\n"
                   "[ \"$RANK\" = 0 ] || exec sleep 1000\n"
                   "exec %s\n",
                   first);
    (void)snprintf(program, sizeof program, "%s", install(fixture, NULL));
    assert_ok(base_file_write(at(fixture, "bin/rank"), rank, strlen(rank), &error), &error);
    assert_int_equal(chmod(at(fixture, "bin/rank"), 0700), 0);
    test_program_start(&launcher,
                       FLAGS(program, "--mode", "gate-check", "--ranks", "2", "--authorize", "1",
                             "--label", label, "--vendor", "runpod", "--instance-type", "X",
                             "--max-price", "0.1", "--max-hours", "0.0011", "--no-bind",
                             "--budget-dir", fixture->dir, "--max-restarts", "1"),
                       NULL);
    test_program_wait_text(&launcher, TEST_STDERR, "[rank 0] its pid is");
    test_program_wait_text(&launcher, TEST_STDERR, "[rank 1] its pid is");
}

static pid_t pid_of(const char *before)
{
    return (pid_t)test_program_number_after(&launcher, TEST_STDERR, before);
}

static void assert_ended_in_time(const service_fixture *fixture, const char *message)
{
    assert_int_equal(test_program_wait(&launcher), 4);
    assert_says(message);
    assert_null(strstr(launcher.text[TEST_STDERR], "SIGKILL"));
    assert_null(strstr(launcher.text[TEST_STDERR], "starting again"));
    assert_int_equal(kill(pid_of("[rank 0] its pid is "), 0), -1);
    assert_int_equal(kill(pid_of("[rank 1] its pid is "), 0), -1);
    assert_reserved(fixture, USD(1)); /* the instance may still be billed */
}

static void the_launcher_ends_ranks_whose_time_is_over(void **state)
{
    const service_fixture *fixture = *state;
    start_held(fixture, "held", "sleep 1000"); /* no gate has armed a timer */
    assert_ended_in_time(fixture,
                         "the time that was authorized for held is over: all ranks are ended");
}

/* Rank 0 waits for the other behind its gate, whose timer ends it. The launcher does not take that for a failure. */
static void a_rank_ends_while_the_launcher_is_stopped(void **state)
{
    const service_fixture *fixture = *state;
    start_held(fixture, "stopped", RANK_PATH);
    assert_int_equal(kill(launcher.pid, SIGSTOP), 0);
    struct pollfd rank = {.fd = pidfd_open(pid_of("[rank 0] its pid is "), 0), .events = POLLIN};
    assert_true(rank.fd >= 0);
    assert_int_equal(poll(&rank, 1, WAIT_MS), 1);
    (void)close(rank.fd);
    assert_int_equal(kill(launcher.pid, SIGCONT), 0);
    assert_ended_in_time(fixture,
                         "the time that was authorized for stopped is over: all ranks are ended");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_missing_keyring_is_noticed_before_money_is_asked_for,
                                        setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_build_without_cuda_asks_for_nothing_and_redeems_nothing,
                                        setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(money_that_is_not_used_is_named, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_lost_answer_names_the_label, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(the_launcher_ends_ranks_whose_time_is_over, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_rank_ends_while_the_launcher_is_stopped, setup,
                                        fixture_teardown),
    };
    if (access("/etc/ringfence/keyring.json", F_OK) == 0) {
        (void)fprintf(stderr, "skipped: this machine has a keyring of its own\n");
        return TEST_EXIT_SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
