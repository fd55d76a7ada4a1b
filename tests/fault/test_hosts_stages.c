/* Kills, stops and continues the launchers and ranks of two hosts at each stage of a job. Every job
 * ends, or is done, and each end names its cause. Nothing is left on any host. Fake ranks hold the
 * job at a stage. The jobs of one test run at the same time. Needs root for its hosts. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fake_job.h"
#include "several.h"

enum { HEAD = 0, AGENT = 1, HOSTS = 2, PATH_BYTES = 512, PORT = 29400 };

/* The points of a fake rank's life, as in fake_rank.c. */
static const char *const stages[] = {"0", "1", "2", "3", "4", "5", "6", "-2"};
enum { STAGES = sizeof stages / sizeof stages[0] };

/* One job. Its rank `held` does `what` (as in fake_rank.c) at a stage. */
typedef struct trial {
    test_program launchers[HOSTS];
    const char *stage;
    int held;
} trial;

/* A job for each stage, and for each host as the victim. */
static trial trials[HOSTS][STAGES];

#define FOR_EACH_TRIAL(one)                                                                        \
    for (trial *one = &trials[0][0]; one < &trials[HOSTS - 1][STAGES]; one++)

static int victim_of(const trial *one)
{
    return one < trials[1] ? HEAD : AGENT;
}

static void start(trial *one, const char *what, const char *host_timeout)
{
    static const char *const own[HOSTS] = {"0", "1"};
    const int index = (int)(one - &trials[0][0]);
    char environment[3][64];
    char rendezvous[64];
    char out[PATH_BYTES];
    char key[PATH_BYTES];
    (void)snprintf(rendezvous, sizeof rendezvous, "tcp://10.77.0.1:%d", PORT + index);
    (void)snprintf(environment[0], sizeof environment[0], "FAKE_WHAT=%s", what);
    (void)snprintf(environment[1], sizeof environment[1], "FAKE_RANK=%d", one->held);
    (void)snprintf(environment[2], sizeof environment[2], "FAKE_AT=%s", one->stage);
    (void)snprintf(out, sizeof out, "%s/%d", test_shared_directory.path, index);
    (void)snprintf(key, sizeof key, "%s/key", test_shared_directory.path);
    enum { NODE_RANK = 9, JOB_FLAGS = 15 };
    const char *flags[] = {"/usr/bin/env",
                           environment[0],
                           environment[1],
                           environment[2],
                           "FAKE_SAY=1",
                           FAKE_LAUNCHER_PATH,
                           "--nodes",
                           "2",
                           "--node-rank",
                           own[HEAD],
                           "--rendezvous",
                           rendezvous,
                           "--job-key",
                           key,
                           "--no-bind",
                           "--data",
                           test_shared_path("data.jsonl"),
                           "--tokenizer",
                           test_shared_path("tokenizer.json"),
                           "--out",
                           out,
                           "--overwrite",
                           "--steps",
                           "2",
                           "--timeout",
                           "40",
                           "--host-timeout",
                           host_timeout,
                           NULL};
    test_hosts_start(&one->launchers[HEAD], HEAD, NULL, flags);
    flags[NODE_RANK] = own[AGENT];
    flags[JOB_FLAGS] = NULL; /* the agent takes them from the head */
    test_hosts_start(&one->launchers[AGENT], AGENT, NULL, flags);
}

/* Starts all jobs, and waits until each has reached its stage. held: by victim. */
static void start_all(const char *what, const int held[HOSTS], const char *host_timeout)
{
    for (int i = 0; i < HOSTS * STAGES; i++) {
        trial *one = &trials[i / STAGES][i % STAGES];
        one->held = held[i / STAGES];
        one->stage = stages[i % STAGES];
        start(one, what, host_timeout);
    }
    FOR_EACH_TRIAL(one)
    {
        char says[64];
        const bool stops = strcmp(what, "stop") == 0;
        (void)snprintf(says, sizeof says, "[rank %d] here I stay", one->held);
        test_program_wait_text(&one->launchers[HEAD], stops ? TEST_STDERR : TEST_STDOUT,
                               stops ? "is stopped by SIGSTOP" : says);
    }
}

static pid_t held_pid(const trial *one)
{
    return several_only_child(one->launchers[one->held].pid);
}

static void signal_victims(int signal_number)
{
    FOR_EACH_TRIAL(one)
    {
        assert_int_equal(kill(one->launchers[victim_of(one)].pid, signal_number), 0);
    }
}

static void continue_held(void)
{
    FOR_EACH_TRIAL(one)
    {
        assert_int_equal(kill(held_pid(one), SIGCONT), 0);
    }
}

/* Waits for a launcher of a trial. `says` is in its stderr. */
static void expect(trial *one, int node, int exit_code, const char *says)
{
    test_program *program = &one->launchers[node];
    const int got = test_program_wait(program);
    if (got != exit_code || strstr(program->text[TEST_STDERR], says) == NULL) {
        fail_msg("at %s, node %d ended with %d (%d wanted), '%s' wanted in:\n%s", one->stage, node,
                 got, exit_code, says, program->text[TEST_STDERR]);
    }
}

static void expect_nothing_left(void)
{
    test_program_wait_no_children();
    test_hosts_assert_no_sockets(HOSTS);
}

static const int agents_rank[HOSTS] = {1, 1};
static const int victims_rank[HOSTS] = {0, 1};

static void a_launcher_may_be_killed(void **state)
{
    (void)state;
    static const char *const says[HOSTS] = {
        "error: host host-1 (node 1) is lost: its launcher's connection has ended",
        " is lost: its connection has ended; this host's ranks are ended"};
    start_all("hang", agents_rank, "40");
    signal_victims(SIGKILL);
    FOR_EACH_TRIAL(one)
    {
        const int other = 1 - victim_of(one);
        expect(one, victim_of(one), 128 + SIGKILL, "");
        expect(one, other, 1, says[other]);
    }
    expect_nothing_left();
}

static void a_rank_may_be_killed(void **state)
{
    (void)state;
    pid_t pids[HOSTS * STAGES];
    start_all("hang", victims_rank, "40");
    int count = 0;
    FOR_EACH_TRIAL(one)
    {
        pids[count] = held_pid(one);
        assert_int_equal(kill(pids[count++], SIGKILL), 0);
    }
    count = 0;
    FOR_EACH_TRIAL(one)
    {
        char says[96];
        (void)snprintf(says, sizeof says, "error: rank %d (pid %d) was ended by SIGKILL", one->held,
                       pids[count++]);
        expect(one, HEAD, 128 + SIGKILL, says);
        expect(one, AGENT, 128 + SIGKILL, says);
    }
    expect_nothing_left();
}

/* Once it wakes, it ends, and says why. */
static void a_stopped_launcher_is_given_up(void **state)
{
    (void)state;
    static const char *const says[HOSTS] = {"error: host host-1 (node 1) is lost: no heartbeat for",
                                            " is lost: no heartbeat for"};
    static const char *const wakes[HOSTS] = {
        "error: host host-1 (node 1) is lost: its launcher's connection has ended",
        "error: host host-1 (node 1) is lost: no heartbeat for"}; /* the head's last word */
    start_all("hang", agents_rank, "5");
    signal_victims(SIGSTOP);
    FOR_EACH_TRIAL(one)
    {
        const int other = 1 - victim_of(one);
        expect(one, other, 1, says[other]);
    }
    signal_victims(SIGCONT);
    FOR_EACH_TRIAL(one)
    {
        expect(one, victim_of(one), 1, wakes[victim_of(one)]);
    }
    expect_nothing_left();
}

static void a_stopped_rank_goes_on(void **state)
{
    (void)state;
    start_all("stop", victims_rank, "40");
    continue_held();
    FOR_EACH_TRIAL(one)
    {
        expect(one, HEAD, 0, "is stopped by SIGSTOP");
        expect(one, AGENT, 0, "");
    }
    expect_nothing_left();
}

/* A launcher that stood still is missed by the other one, misses nobody itself, and goes on. */
static void a_stopped_launcher_goes_on(void **state)
{
    (void)state;
    static const char *const missed[HOSTS] = {"the head: no heartbeat for",
                                              "host host-1 (node 1): no heartbeat for"};
    static const char *const back[HOSTS] = {"the head is back", "host host-1 (node 1) is back"};
    start_all("stop", agents_rank, "40");
    signal_victims(SIGSTOP);
    FOR_EACH_TRIAL(one)
    {
        test_program_wait_text(&one->launchers[1 - victim_of(one)], TEST_STDERR,
                               missed[victim_of(one)]);
    }
    signal_victims(SIGCONT);
    FOR_EACH_TRIAL(one)
    {
        test_program_wait_text(&one->launchers[1 - victim_of(one)], TEST_STDERR,
                               back[victim_of(one)]);
    }
    continue_held();
    FOR_EACH_TRIAL(one)
    {
        expect(one, HEAD, 0, "");
        expect(one, AGENT, 0, "");
        assert_null(strstr(one->launchers[victim_of(one)].text[TEST_STDERR], "no heartbeat"));
    }
    expect_nothing_left();
}

/* Ctrl-C at either launcher, and again where the first one waits for a rank that hangs. */
static void a_user_may_end_it(void **state)
{
    (void)state;
    static const char *const heard[HOSTS] = {"Ctrl-C", "the head is asked to end the job"};
    start_all("hang", agents_rank, "40");
    signal_victims(SIGINT);
    FOR_EACH_TRIAL(one)
    {
        test_program_wait_text(&one->launchers[victim_of(one)], TEST_STDERR, heard[victim_of(one)]);
    }
    signal_victims(SIGINT);
    FOR_EACH_TRIAL(one)
    {
        expect(one, HEAD, 128 + SIGINT, "error: ended at once by Ctrl-C");
        expect(one, AGENT, 128 + SIGINT, "error: ended at once by Ctrl-C");
    }
    expect_nothing_left();
}

/* Both hosts stood still, for longer than either may be silent. */
static void hosts_that_slept_together_go_on(void **state)
{
    (void)state;
    start_all("stop", agents_rank, "5");
    for (int node = 0; node < HOSTS; node++) {
        FOR_EACH_TRIAL(one)
        {
            assert_int_equal(kill(one->launchers[node].pid, SIGSTOP), 0);
        }
    }
    (void)poll(NULL, 0, 6000); /* nobody runs who could say that time has passed */
    for (int node = HOSTS - 1; node >= 0; node--) {
        FOR_EACH_TRIAL(one)
        {
            assert_int_equal(kill(one->launchers[node].pid, SIGCONT), 0);
        }
    }
    continue_held();
    FOR_EACH_TRIAL(one)
    {
        expect(one, HEAD, 0, "");
        expect(one, AGENT, 0, "");
    }
    expect_nothing_left();
}

static int setup(void **state)
{
    (void)fake_job_setup(state);
    several_run_quietly(FLAGS(LAUNCHER_PATH, "make-job-key", test_shared_path("key")), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launcher_may_be_killed),        cmocka_unit_test(a_rank_may_be_killed),
        cmocka_unit_test(a_stopped_launcher_is_given_up),  cmocka_unit_test(a_stopped_rank_goes_on),
        cmocka_unit_test(a_stopped_launcher_goes_on),      cmocka_unit_test(a_user_may_end_it),
        cmocka_unit_test(hosts_that_slept_together_go_on),
    };
    const int skipped = test_hosts_skip(HOSTS);
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, setup, fake_job_teardown);
}
