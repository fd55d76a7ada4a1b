/* Jobs on several hosts that may cost money: tokens and receipts reach the ranks of all hosts, and
 * what cannot be proven to have ended stays reserved. A real budget-service and the mode gate-check.
 * Needs root for its hosts. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "several.h"

enum { JTI_BYTES = 33, WAIT_S = 30, LOOK_MS = 20, PROC_BYTES = 1024 };

static test_program service;
static test_program asked; /* the last command of budget-service */
static char service_dir[SEVERAL_PATH_BYTES];
static char keyring[SEVERAL_PATH_BYTES];       /* that the agents were given */
static char held_launcher[SEVERAL_PATH_BYTES]; /* beside it, `rank` only waits */
static char jti[JTI_BYTES];                    /* of the last token */

/* ---- the service ---- */

static void make_path(char path[SEVERAL_PATH_BYTES], const char *name)
{
    (void)snprintf(path, SEVERAL_PATH_BYTES, "%s", test_shared_path(name));
}

static void put(const char *path, const char *text, mode_t mode)
{
    base_error error;
    assert_ok(base_file_write(path, text, strlen(text), &error), &error);
    assert_int_equal(chmod(path, mode), 0);
}

/* budget-service ARGUMENTS --dir …; the output is in `asked`. */
static void budget(int exit_code, const char *const *arguments)
{
    const char *all[TEST_PROGRAM_ARGS_MAX] = {BUDGET_SERVICE_PATH};
    size_t count = 1;
    for (size_t i = 0; arguments[i] != NULL; i++) {
        all[count++] = arguments[i];
    }
    all[count++] = "--dir";
    all[count++] = service_dir;
    test_program_start(&asked, all, NULL);
    const int got = test_program_wait(&asked);
    if (got != exit_code) {
        fail_msg("budget-service %s ended with %d, not %d: %s%s", arguments[0], got, exit_code,
                 asked.text[TEST_STDOUT], asked.text[TEST_STDERR]);
    }
}
#define BUDGET(exit_code, ...) budget(exit_code, FLAGS(__VA_ARGS__))

static void assert_asked_says(const char *text)
{
    if (strstr(asked.text[TEST_STDOUT], text) == NULL &&
        strstr(asked.text[TEST_STDERR], text) == NULL) {
        fail_msg("'%s' is not in: %s%s", text, asked.text[TEST_STDOUT], asked.text[TEST_STDERR]);
    }
}

static void start_service(void)
{
    char passphrase[SEVERAL_PATH_BYTES];
    make_path(service_dir, "service");
    make_path(passphrase, "passphrase");
    put(passphrase, "a passphrase of this test", 0600);
    BUDGET(0, "init", "--passphrase-file", passphrase);
    test_program_start(
        &service,
        FLAGS(BUDGET_SERVICE_PATH, "serve", "--dir", service_dir, "--passphrase-file", passphrase),
        NULL);
    test_program_wait_text(&service, TEST_STDOUT, "ready at");
    BUDGET(0, "account", "create", "phase", "--cap", "10");
}

/* What agents have: the public keys, and a rank that waits. */
static void prepare_hosts(void)
{
    char path[SEVERAL_PATH_BYTES * 2];
    size_t bytes = 0;
    base_error error;
    (void)snprintf(path, sizeof path, "%s/keyring.json", service_dir);
    void *keys = test_file_read(path, &bytes);
    make_path(keyring, "keyring-of-agents.json");
    assert_ok(base_file_write(keyring, keys, bytes, &error), &error);
    free(keys);
    assert_int_equal(mkdir(test_shared_path("held"), 0755), 0);
    make_path(held_launcher, "held/launcher");
    several_run_quietly(FLAGS("/bin/cp", LAUNCHER_PATH, held_launcher), 0);
    make_path(path, "held/rank");
    put(path, "#!/bin/sh\necho held >&2\nexec sleep 1000\n", 0755);
}

static int set_up(void **state)
{
    (void)test_shared_directory_make(state);
    (void)unsetenv("BUDGET_SERVICE_DIR");
    assert_int_equal(setenv("HOME", test_shared_path("home"), 1),
                     0); /* no service, and no keyring */
    (void)unsetenv("XDG_STATE_HOME");
    start_service();
    prepare_hosts();
    return 0;
}

static int tear_down(void **state)
{
    (void)kill(service.pid, SIGTERM);
    (void)test_program_wait(&service);
    return test_shared_directory_remove(state);
}

/* ---- a job ---- */

static several with_token(const char *nodes, const char *ranks, const char *token)
{
    return (several){several_address,
                     nodes,
                     NULL,
                     {"--mode", "gate-check", "--ranks", ranks, "--token", token, "--budget-dir",
                      service_dir, "--keyring", keyring, NULL}};
}

/* The head asks for the token. */
static several asking(const char *label)
{
    return (several){several_address,
                     "2",
                     NULL,
                     {"--mode", "gate-check", "--authorize", "1", "--label", label, "--vendor",
                      "runpod", "--instance-type", "X", "--max-price", "0.1", "--max-hours", "1",
                      "--budget-dir", service_dir, NULL}};
}

static void start_agent(int node, const several *job)
{
    several_start(node, job, FLAGS("--keyring", keyring));
}

static void start_all(const several *job)
{
    several_start(0, job, job->flags);
    for (int node = 1; node < job->nodes[0] - '0'; node++) {
        start_agent(node, job);
    }
}

static void expect_all(const several *job, int exit_code)
{
    for (int node = 0; node < job->nodes[0] - '0'; node++) {
        several_expect(node, exit_code);
    }
}

/* Writes JOB.json as the head would, and authorizes 1.00 and two attempts for it. Returns the token's path. */
static const char *authorize(const char *label, const char *nodes, const char *ranks,
                             const char *instances)
{
    static char token[SEVERAL_PATH_BYTES];
    char job[SEVERAL_PATH_BYTES];
    make_path(job, "JOB.json");
    several_run_quietly(FLAGS(LAUNCHER_PATH, "--nodes", nodes, "--rendezvous", several_address,
                              "--job-key", several_key, "--mode", "gate-check", "--ranks", ranks,
                              "--write-job", job),
                        0);
    make_path(token, label);
    BUDGET(0, "authorize", label, "1", "--account", "phase", "--job", job, "--vendor", "runpod",
           "--instance-type", "X", "--tier", "spot", "--gpus", "1", "--max-price", "0.1",
           "--max-hours", "1", "--instances", instances, "--max-attempts", "2", "--out", token,
           "--json");
    const char *found = strstr(asked.text[TEST_STDOUT], "\"jti\":\"");
    assert_non_null(found);
    (void)snprintf(jti, sizeof jti, "%s", found + 7);
    return token;
}

/* Nothing is left of a job. */
static void wait_for_the_service_alone(void)
{
    char path[64];
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_S * BASE_NS_PER_S);
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", getpid(), getpid());
    for (;;) {
        char text[256] = "";
        char *rest = NULL;
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        FILE *children = fopen(path, "re");
        assert_non_null(children);
        assert_non_null(fgets(text, sizeof text, children));
        (void)fclose(children);
        assert_int_equal(strtol(text, &rest, 10), service.pid);
        if (rest[strspn(rest, " \n")] == '\0') {
            return;
        }
        if (base_now_ns() > deadline_ns) {
            fail_msg("processes %s are left", rest);
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
}

/* ---- tests ---- */

static void a_token_lets_in_the_ranks_of_all_hosts(void **state)
{
    (void)state;
    several_make_key("three");
    const char *token = authorize("three", "3", "6", "3");
    const several job = with_token("3", "6", token);
    start_all(&job);
    expect_all(&job, 0);
    const char *out = several_runs[0].program.text[TEST_STDOUT];
    assert_has(out, "the gate let all 6 ranks in: label three");
    several_assert_says(1, "the keyring is the launcher's own");
    /* used: no rank starts, and all say why */
    start_all(&job);
    expect_all(&job, 6);
    for (int node = 0; node < 3; node++) {
        several_assert_says(node, "three was redeemed under another job key");
    }
    assert_string_equal(several_runs[0].program.text[TEST_STDOUT], "");
    wait_for_the_service_alone();
}

static void what_was_not_granted_does_not_start(void **state)
{
    (void)state;
    several_make_key("refused");
    several job = with_token("2", "4", authorize("other-job", "2", "2", "2"));
    several_start(0, &job, job.flags);
    several_expect(0, 6);
    several_assert_says(0, "the token does not allow this job");
    job = with_token("2", "2", authorize("one-instance", "2", "2", "1"));
    several_start(0, &job, job.flags);
    several_expect(0, 6);
    several_assert_says(0,
                        "is for 1 instance, the job has 2 hosts: authorize it with --instances 2");
    const char *const over[] = {"--mode",          "gate-check", "--authorize", "50",
                                "--budget-dir",    service_dir,  "--vendor",    "runpod",
                                "--instance-type", "X",          "--max-price", "1",
                                "--max-hours",     "1",          NULL};
    several_start(0, &job, over);
    several_expect(0, 3);
    several_assert_says(0, "estimate: $2.00 and"); /* an instance for each host */
    several_assert_says(0, "over the cap of phase");
    several_start(0, &job, FLAGS("--mode", "gate-check", "--authorize", "local"));
    several_expect(0, 2);
    several_assert_says(0, "--authorize local is for this machine alone");
}

/* A host that cannot verify tokens does not use one up. */
static void an_agent_without_a_keyring_starts_nothing(void **state)
{
    (void)state;
    several_make_key("keyring");
    const several job = with_token("2", "2", authorize("keyring", "2", "2", "2"));
    several_start(0, &job, job.flags);
    several_start(1, &job, several_no_flags);
    several_expect(1, 1);
    several_assert_says(1, "no keyring to verify the token with");
    several_wait_says(0, "host host-1 (node 1) has left before the job began");
    start_agent(1, &job);
    expect_all(&job, 0);
}

/* An instance for each host is asked for, and recorded. */
static void the_head_may_ask_for_the_token(void **state)
{
    (void)state;
    several_make_key("asked");
    const several job = asking("asked");
    start_all(&job);
    expect_all(&job, 0);
    several_assert_says(0, "estimate: $0.20 at most (2 × X of runpod");
    assert_has(several_runs[0].program.text[TEST_STDOUT],
               "the gate let all 2 ranks in: label asked");
    BUDGET(4, "void", "asked"); /* redeemed */
    BUDGET(0, "audit");
}

/* Where the head cannot reach the service. */
static void receipts_may_be_fetched_beforehand(void **state)
{
    (void)state;
    char receipts[SEVERAL_PATH_BYTES];
    several_make_key("receipts");
    make_path(receipts, "receipts");
    const char *token = authorize("receipts.token", "2", "2", "2");
    BUDGET(0, "redeem", token, "--ranks", "2", "--attempt", "1", "--out", receipts);
    const several job = SEVERAL("2", "--mode", "gate-check", "--ranks", "2", "--token", token,
                                "--receipts", receipts, "--keyring", keyring);
    start_all(&job);
    expect_all(&job, 0);
    assert_has(several_runs[0].program.text[TEST_STDOUT],
               "the gate let all 2 ranks in: label receipts.token");
}

/* The agents do not take a head that waits for the service for lost, and hear why nothing starts. */
static void a_service_that_does_not_answer_starts_nothing(void **state)
{
    (void)state;
    several_make_key("mute");
    several job = with_token("2", "2", authorize("mute", "2", "2", "2"));
    several_add(&job, "--host-timeout", "6");
    (void)kill(service.pid, SIGSTOP);
    start_all(&job);
    for (int node = 0; node < 2; node++) {
        several_wait_says(node, "no answer from the service at ");
    }
    (void)kill(service.pid, SIGCONT);
    expect_all(&job, 1);
    assert_string_equal(several_runs[0].program.text[TEST_STDOUT], "");
}

/* Waits until a file of /proc has a text; it is never longer than `text`. */
static void wait_for_text(const char *path, const char *wanted, char text[PROC_BYTES])
{
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_S * BASE_NS_PER_S);
    for (;;) {
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        text[fread(text, 1, PROC_BYTES - 1, file)] = '\0';
        (void)fclose(file);
        if (strstr(text, wanted) != NULL) {
            return;
        }
        if (base_now_ns() > deadline_ns) {
            fail_msg("'%s' is not in %s: %s", wanted, path, text);
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
}

/* Waits until the kernel has a timer that kills the process. Not all kernels show timers. */
static void wait_for_timer(pid_t pid)
{
    char path[64];
    char text[PROC_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%d/timers", pid);
    if (access("/proc/self/timers", R_OK) == 0) {
        wait_for_text(path, "signal: 9/", text);
    }
}

/* Neither the token nor a receipt stands where others of the host can read it. */
static void assert_nothing_on_the_command_line(pid_t pid)
{
    char path[64];
    char text[8192];
    (void)snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    const size_t bytes = fread(text, 1, sizeof text, file);
    (void)fclose(file);
    assert_true(bytes > 0 && bytes < sizeof text);
    assert_null(memmem(text, bytes, "v4.public", 9));
}

/* What a driver writes of the instances that are gone. */
static void write_evidence(const char *path, const char *const *instances)
{
    char text[2048];
    char at[32];
    struct tm utc;
    const time_t now = time(NULL);
    assert_non_null(gmtime_r(&now, &utc));
    (void)strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &utc);
    size_t used =
        (size_t)snprintf(text, sizeof text,
                         "{\"evidence\":\"ringfence/termination/v1\",\"vendor\":"
                         "\"runpod\",\"vendor_account\":\"team\",\"jti\":\"%s\",\"describe\":[",
                         jti);
    for (size_t i = 0; instances[i] != NULL; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"at\":\"%s\",\"instance_id\":\"%s\",\"name\":\"rf-%s\","
                                 "\"status\":\"terminated\"}",
                                 i == 0 ? "" : ",", at, instances[i], jti);
    }
    (void)snprintf(text + used, sizeof text - used, "],\"list\":{\"at\":\"%s\",\"instances\":[]}}",
                   at);
    put(path, text, 0600);
}

/* The end of one host's instance is no proof for the other's. */
static void a_lost_host_stays_reserved(void **state)
{
    (void)state;
    char evidence[SEVERAL_PATH_BYTES];
    several_make_key("lost");
    const several job = with_token("2", "2", authorize("lost", "2", "2", "2"));
    several_launchers[1] = held_launcher;
    BUDGET(0, "attach", "lost", "--instance-id", "pod-0", "--vendor-account", "team");
    BUDGET(0, "attach", "lost", "--instance-id", "pod-1", "--vendor-account", "team");
    BUDGET(0, "remaining", "phase");
    char before[64];
    (void)snprintf(before, sizeof before, "%s", asked.text[TEST_STDOUT]);
    start_all(&job);
    several_launchers[1] = NULL;
    several_wait_says(0, "[rank 1] held");
    (void)kill(several_runs[1].program.pid, SIGKILL);
    several_expect(1, 128 + SIGKILL);
    several_expect(0, 1);
    several_assert_says(0, "host host-1 (node 1) is lost");
    several_assert_says(0, "nobody saw the end of 1 rank on host host-1 (node 1)");
    several_assert_says(0, "what lost has reserved stays reserved");
    wait_for_the_service_alone();

    make_path(evidence, "evidence.json");
    write_evidence(evidence, FLAGS("pod-0"));
    BUDGET(4, "terminated", "lost", "--evidence", evidence, "--key", "request");
    assert_asked_says("describe lacks instance pod-1");
    BUDGET(4, "void", "lost");
    BUDGET(0, "remaining", "phase");
    assert_string_equal(asked.text[TEST_STDOUT], before);
    write_evidence(evidence, FLAGS("pod-0", "pod-1"));
    BUDGET(0, "terminated", "lost", "--evidence", evidence, "--key", "request");
}

/* The second attempt has receipts of its own, of the same token. */
static void a_second_attempt_passes_the_gate(void **state)
{
    (void)state;
    several_make_key("twice");
    several job = with_token("2", "2", authorize("twice", "2", "2", "2"));
    several_add(&job, "--max-restarts", "5"); /* the token allows fewer */
    several_launchers[1] = held_launcher;
    start_all(&job);
    several_launchers[1] = NULL;
    several_wait_says(0, "[rank 1] held");
    (void)kill(several_runs[1].program.pid, SIGKILL);
    several_expect(1, 128 + SIGKILL);
    start_agent(1, &job);
    expect_all(&job, 0);
    several_assert_says(0, "nobody saw the end of 1 rank on host host-1 (node 1)");
    several_assert_says(0, "starting again: attempt 2 of at most 2");
    assert_has(several_runs[0].program.text[TEST_STDOUT],
               "the gate let all 2 ranks in: label twice");
    wait_for_the_service_alone();
    BUDGET(0, "audit");
}

static void the_loss_of_the_head_releases_nothing(void **state)
{
    (void)state;
    several_make_key("headless");
    const several job = with_token("2", "2", authorize("headless", "2", "2", "2"));
    several_launchers[0] = held_launcher;
    start_all(&job);
    several_launchers[0] = NULL;
    several_wait_says(0, "[rank 0] held");
    const pid_t agent = several_runs[1].program.pid;
    const pid_t rank = several_only_child(agent);
    wait_for_timer(rank);
    assert_nothing_on_the_command_line(agent);
    assert_nothing_on_the_command_line(rank);
    (void)kill(several_runs[0].program.pid, SIGKILL);
    several_expect(0, 128 + SIGKILL);
    several_expect(1, 1);
    several_assert_says(1, "the head at tcp://10.77.0.1:29400 is lost");
    wait_for_the_service_alone();
    BUDGET(4, "void", "headless");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_lets_in_the_ranks_of_all_hosts),
        cmocka_unit_test(what_was_not_granted_does_not_start),
        cmocka_unit_test(an_agent_without_a_keyring_starts_nothing),
        cmocka_unit_test(the_head_may_ask_for_the_token),
        cmocka_unit_test(receipts_may_be_fetched_beforehand),
        cmocka_unit_test(a_service_that_does_not_answer_starts_nothing),
        cmocka_unit_test(a_lost_host_stays_reserved),
        cmocka_unit_test(a_second_attempt_passes_the_gate),
        cmocka_unit_test(the_loss_of_the_head_releases_nothing),
    };
    if (access("/etc/ringfence/keyring.json", F_OK) == 0) {
        (void)fprintf(stderr, "skipped: this machine has a keyring of its own\n");
        return TEST_EXIT_SKIPPED;
    }
    const int skipped = test_hosts_skip(TEST_HOSTS_MAX);
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, set_up, tear_down);
}
