/* One job on several hosts: the same bytes as on one host, whoever comes first; who is refused; and
 * what programs of users see. docs/DEPLOY.md has the same commands. Needs root for its hosts. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "several.h"

/* A busy machine may let a launcher wait; a test's own patience is 120 s. */
#define PATIENT "110"

static training_run one; /* its buffers are big */

static void assert_same_states(int ranks)
{
    for (int rank = 0; rank < ranks; rank++) {
        char name[64];
        (void)snprintf(name, sizeof name, "state-rank-%d.safetensors", rank);
        training_assert_same_file(&one, name, &several_runs[0], name);
    }
}

/* Trains on one host, then on two. */
static void compare(const char *name, several job, const char *ranks)
{
    char alone[64];
    const char *flags[TRAINING_FLAGS_MAX] = {"--ranks", ranks};
    (void)snprintf(alone, sizeof alone, "%s-alone", name);
    for (size_t i = 0; job.flags[i] != NULL; i++) {
        flags[i] = job.flags[i];
    }
    training_expect(&one, &test_shared_directory, alone, 0, flags);
    several_start_head(&job, name);
    several_start(1, &job, several_no_flags);
    several_expect_all(2, 0);
    assert_same_states(atoi(ranks)); /* NOLINT(cert-err34-c): the test's own text */
    test_program_assert_no_children();
}

static void two_hosts_train_the_bytes_of_one(void **state)
{
    (void)state;
    several_make_key("same");
    compare("tcp", (several)SEVERAL("2", "--ranks", "2", "--transport", "tcp"), "2");
    compare("auto", (several)SEVERAL("2", "--ranks", "4"), "4");
    compare("zmq", (several)SEVERAL("2", "--ranks", "2", "--transport", "zmq"), "2");
}

/* Rank 0, which is on the head's host, writes the model of all stages: of one pipeline across the hosts, and of a
 * pipeline on each. */
static void two_hosts_are_stages_of_one_model(void **state)
{
    (void)state;
    static const char *const layouts[][3] = {{"stages", "2", "2"}, {"pipelines", "4", "1"}};
    training_expect(&one, &test_shared_directory, "stages-alone", 0,
                    FLAGS("--ranks", "1", "--layers", "2", "--micro-batches", "2"));
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        several_make_key(layouts[i][0]);
        const several job = SEVERAL("2", "--mode", "pp-cpu", "--ranks", layouts[i][1], "--layers",
                                    "2", "--stages", "2", "--micro-batches", layouts[i][2]);
        several_start_hosts(layouts[i][0], &job);
        several_expect_all(2, 0);
        training_assert_same_file(&one, "model.safetensors", &several_runs[0], "model.safetensors");
        test_program_assert_no_children();
    }
}

/* A training of two hosts goes on from the checkpoint that one host has written, in the head's --out. */
static void two_hosts_go_on_after_one(void **state)
{
    (void)state;
    several_make_key("go-on");
    const several job = SEVERAL("2", "--ranks", "2", "--save-every", "4", "--resume");
    training_expect(&one, &test_shared_directory, "go-on", 0,
                    FLAGS("--ranks", "2", "--steps", "3", "--save-every", "4", "--resume"));
    training_expect(&one, &test_shared_directory, "go-on-alone", 0, FLAGS("--ranks", "2"));
    several_start_hosts("go-on", &job);
    several_expect_all(2, 0);
    several_assert_says(0, "--resume: goes on after step 3 of 6");
    training_assert_same_file(&one, "model.safetensors", &several_runs[0], "model.safetensors");
    test_program_assert_no_children();
}

/* Two hosts, with drafts, answer as one does without. */
static void answer(const char *mode, const char *prompts, const char *checkpoint)
{
    static test_program alone;
    char out[SEVERAL_PATH_BYTES];
    (void)snprintf(out, sizeof out, "%s", test_shared_path(mode));
    const char *recorded = strcmp(mode, "generate") != 0 ? "--out" : NULL;
    const char *all[TEST_PROGRAM_ARGS_MAX] = {
        LAUNCHER_PATH, "--speculate",      "0",        "--mode",       mode,     "--ranks",
        "2",           "--checkpoint",     checkpoint, "--prompts",    prompts,  "--quiet",
        "--no-bind",   "--max-new-tokens", "40",       "--ignore-eos", recorded, out};
    test_program_start(&alone, all, NULL);
    assert_int_equal(test_program_wait(&alone), 0);
    const several job = SEVERAL("2", NULL);
    all[2] = "4";
    several_start(0, &job, &all[1]);
    several_start(1, &job, several_no_flags);
    several_expect_all(2, 0);
    assert_true(alone.text_bytes[TEST_STDOUT] > 0);
    assert_string_equal(several_runs[0].program.text[TEST_STDOUT], alone.text[TEST_STDOUT]);
}

static void two_hosts_answer_as_one_does(void **state)
{
    (void)state;
    static const char prompts[] = "he go home\nwe be too loud right now\n";
    char file[SEVERAL_PATH_BYTES];
    base_error error;
    several_make_key("answers");
    training_expect(&one, &test_shared_directory, "checkpoint", 0, FLAGS("--ranks", "2"));
    (void)snprintf(file, sizeof file, "%s", test_shared_path("prompts.txt"));
    assert_ok(base_file_write(file, prompts, sizeof prompts - 1, &error), &error);
    answer("tp-cpu", file, one.out);
    answer("generate", file, one.out);
}

static void ipv6_and_names_lead_to_the_head(void **state)
{
    (void)state;
    several_make_key("addresses");
    compare("ipv6", (several){"tcp://[fd77:1::1]:29400", "2", NULL, {"--ranks", "2", NULL}}, "2");
    /* as on hosts whose own name means a loopback several_address */
    char head_file[SEVERAL_PATH_BYTES];
    base_error error;
    static const char own[] = "127.0.1.1 host-0\n10.77.0.2 host-1\n";
    (void)snprintf(head_file, sizeof head_file, "%s", test_shared_path("hosts-0"));
    assert_ok(base_file_write(head_file, own, sizeof own - 1, &error), &error);
    const several job = {"tcp://host-0:29400", "2", head_file, {"--ranks", "2", NULL}};
    several_start_head(&job, "named");
    const several same = SEVERAL("2", NULL);
    several_start(1, &same, several_no_flags);
    several_expect_all(2, 0);
    assert_same_states(2);
    several_assert_says(1, " is done\n");
}

static void an_agent_may_come_first(void **state)
{
    (void)state;
    several_make_key("first");
    const several job = SEVERAL("3", "--ranks", "3");
    training_expect(&one, &test_shared_directory, "first-alone", 0, FLAGS("--ranks", "3"));
    several_start(1, &job, several_no_flags);
    several_start(2, &job, several_no_flags);
    several_start_head(&job, "first");
    several_expect_all(3, 0);
    assert_same_states(3);
    test_program_assert_no_children();
}

/* Runs a user's program on two hosts, with these flags on both. Returns what the head has printed. */
static const char *run_program(const char *key, const char *const *flags)
{
    const several job = SEVERAL("2", NULL);
    several_make_key(key);
    several_start(0, &job, flags);
    several_start(1, &job, flags);
    several_expect_all(2, 0);
    return several_runs[0].program.text[TEST_STDOUT];
}

static void programs_know_their_host(void **state)
{
    (void)state;
    static const char script[] =
        "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname); echo $RANK >&2";
    const char *out =
        run_program("program", FLAGS("--ranks-per-node", "2", "--", "sh", "-c", script));
    assert_has(out, "[rank 0] 0/4 0/2 host-0\n");
    assert_has(out, "[rank 1] 1/4 1/2 host-0\n");
    assert_has(out, "[rank 2] 2/4 0/2 host-1\n");
    assert_has(out, "[rank 3] 3/4 1/2 host-1\n");
    several_assert_says(0, "[rank 3] 3\n");
    assert_string_equal(several_runs[1].program.text[TEST_STDOUT], "");
}

static void programs_can_meet_at_the_master_port(void **state)
{
    (void)state;
    const char *out =
        run_program("meet", FLAGS("--ranks-per-node", "2", "--", MEET_AT_MASTER_PATH));
    assert_has(out, "[rank 0] met 0\n");
    assert_has(out, "[rank 3] met 3\n");
}

/* One table, as nccl-tests prints it under mpirun. */
static void coll_bench_measures_between_hosts(void **state)
{
    (void)state;
    const char *out =
        run_program("bench", FLAGS("--ranks", "4", "--", COLL_BENCH_PATH, "all_reduce", "-b", "8",
                                   "-e", "32K", "-f", "64", "-n", "20"));
    const char *table = strstr(out, "Collective test starting");
    assert_non_null(table);
    assert_null(strstr(table + 1, "Collective test starting"));
    assert_has(out, "on     host-0 processor");
    assert_has(out, "on     host-1 processor");
    assert_has(out, "# Out of bounds values : 0 OK");
    assert_string_equal(several_runs[1].program.text[TEST_STDOUT], "");
}

/* Ends a head that waits for a host. */
static void stop_waiting(void)
{
    (void)kill(several_runs[0].program.pid, SIGTERM);
    several_expect(0, 128 + SIGTERM);
}

/* No other host can mean this one by that name. */
static void a_head_at_localhost_hears_this_host_only(void **state)
{
    (void)state;
    several_make_key("localhost");
    const several job = {"tcp://localhost:29407", "2", NULL, {"--ranks", "2", NULL}};
    several_start_head(&job, "localhost");
    several_wait_says(0, "waiting at tcp://");
    const char *said = several_runs[0].program.text[TEST_STDERR];
    assert_true(strstr(said, "at tcp://127.0.0.1:29407") != NULL ||
                strstr(said, "at tcp://[::1]:29407") != NULL);
    stop_waiting();
    test_program_assert_no_children();
}

static void launchers_of_one_host_share_its_local_ranks(void **state)
{
    (void)state;
    several_make_key("shared");
    const several job = SEVERAL("2", NULL);
    const char *const *flags = FLAGS("--ranks-per-node", "2", "--", "sh", "-c",
                                     "echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE");
    const char *const second[] = {
        LAUNCHER_PATH,   "--nodes",   "2",         "--node-rank", "1",      "--rendezvous",
        several_address, "--job-key", several_key, "--no-bind",   flags[0], flags[1],
        flags[2],        flags[3],    flags[4],    flags[5],      NULL};
    several_start(0, &job, flags);
    test_hosts_start(&several_runs[1].program, 0, NULL, second);
    several_expect_all(2, 0);
    const char *out = several_runs[0].program.text[TEST_STDOUT];
    assert_has(out, "[rank 1] 1 1/4\n");
    assert_has(out, "[rank 2] 2 2/4\n");
    assert_has(out, "[rank 3] 3 3/4\n");
}

/* Starts a launcher that may bind its rank, on the first host whatever its node. In a network
 * namespace it would not: so it finds what the machine's first one has (job/affinity.c). */
static void start_on_one_host(int node, const char *script)
{
    static const char as_first_namespace[] =
        "mount -t tmpfs none /proc/sys/net/core && : >/proc/sys/net/core/netdev_max_backlog && "
        "exec \"$@\"";
    test_hosts_start(&several_runs[node].program, 0, NULL,
                     FLAGS("sh", "-c", as_first_namespace, "sh", LAUNCHER_PATH, "--nodes", "2",
                           "--node-rank", node == 0 ? "0" : "1", "--rendezvous", several_address,
                           "--job-key", several_key, "--ranks", "2", "--", "sh", "-c", script));
}

static void launchers_of_one_host_share_its_cpus(void **state)
{
    (void)state;
    static const char script[] = "echo $RANK of CPU "
                                 "$(sed -n 's/Cpus_allowed_list:[^0-9]*//p' /proc/self/status).";
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    if (CPU_COUNT(&allowed) < 2) {
        skip();
    }
    several_make_key("cpus");
    start_on_one_host(0, script);
    start_on_one_host(1, script);
    several_expect_all(2, 0);
    const test_program *head = &several_runs[0].program;
    const long first = test_program_number_after(head, TEST_STDOUT, "0 of CPU ");
    const long second = test_program_number_after(head, TEST_STDOUT, "1 of CPU ");
    assert_int_not_equal(first, second);
    char line[64];
    (void)snprintf(line, sizeof line, "0 of CPU %ld.\n", first); /* this one alone */
    assert_has(head->text[TEST_STDOUT], line);
    (void)snprintf(line, sizeof line, "1 of CPU %ld.\n", second);
    assert_has(head->text[TEST_STDOUT], line);
}

static void a_program_must_stand_on_each_host(void **state)
{
    (void)state;
    several_make_key("unsaid");
    const several job = SEVERAL("2", NULL);
    several_start(0, &job, FLAGS("--ranks", "4", "--transport", "zmq", "--", "true"));
    several_start(1, &job, several_no_flags);
    several_expect(1, 2);
    several_assert_says(1, "it was given no program");
    several_start(1, &job, FLAGS("--", "false"));
    several_expect(1, 2);
    several_assert_says(1, "the program behind -- differs from the head's: it must be the same on");
    several_start(1, &job, FLAGS("--", "true")); /* the flags may stand at the head only */
    several_expect_all(2, 0);
}

static void a_host_that_does_not_come_is_named(void **state)
{
    (void)state;
    several_make_key("alone");
    const several job = SEVERAL("2", "--ranks", "2", "--join-timeout", "1");
    several_start_head(&job, "alone");
    several_expect(0, 1);
    several_assert_says(0, "1 of 2 hosts have not joined within 1 s: node 1");
    several_start(1, &job, FLAGS("--join-timeout", "1"));
    several_expect(1, 1);
    several_assert_says(
        1, "no head at tcp://10.77.0.1:29400 within 1 s: no connection: nobody listens there");
}

static void other_flags_are_refused(void **state)
{
    (void)state;
    several_make_key("flags");
    const several job = SEVERAL("2", "--ranks", "2", "--join-timeout", PATIENT);
    several_start_head(&job, "flags");
    several_wait_says(0, "waiting at tcp://10.77.0.1:29400");
    several_start(1, &job, FLAGS("--steps", "7", "--join-timeout", PATIENT));
    several_expect(1, 2);
    several_assert_says(1, "the head has refused this host: --steps differs from the head's, which "
                           "is 6: give it the same flags of the job, or none");
    several_start(1, &job,
                  FLAGS("--width", "32", "--layers", "1", "--heads", "2", "--batch", "2",
                        "--context", "64", "--steps", "6", "--timeout", "40", "--data",
                        "some.jsonl", "--join-timeout", PATIENT));
    several_expect(1, 2);
    several_assert_says(1, "the head has no --data: give it the same flags of the job, or none");
    several_start(1, &job, FLAGS("--steps", "6", "--join-timeout", PATIENT));
    several_expect(1, 2);
    several_assert_says(1, "the head has --out ");
    several_assert_says(1, ", and it has not: give it the same flags of the job, or none");
    several_start(1, &job, FLAGS("--ranks-per-node", "2", "--join-timeout", PATIENT));
    several_expect(1, 2);
    several_assert_says(1, "--ranks-per-node 2, the head 1");
    several_wait_says(0, "--ranks-per-node 2, the head 1");
    stop_waiting();
}

/* Somebody starts it again and again. The head says it once for each reason. */
static void a_host_that_is_refused_again_fills_no_log(void **state)
{
    (void)state;
    several_make_key("again");
    const several job = SEVERAL("2", "--ranks", "2", "--join-timeout", PATIENT);
    several_start_head(&job, "again");
    several_wait_says(0, "waiting at tcp://10.77.0.1:29400");
    for (int i = 0; i < 3; i++) {
        several_start(1, &job, FLAGS("--steps", i < 2 ? "7" : "8", "--join-timeout", PATIENT));
        several_expect(1, 2);
    }
    several_start(1, &job, FLAGS("--ranks-per-node", "2", "--join-timeout", PATIENT));
    several_expect(1, 2);
    several_wait_says(0, "--ranks-per-node 2, the head 1");
    assert_int_equal(test_count(several_runs[0].program.text[TEST_STDERR],
                                "warning: refused host host-1 (node 1)"),
                     2);
    stop_waiting();
}

static void another_key_is_kept_out(void **state)
{
    (void)state;
    several_make_key("old");
    const several job = SEVERAL("2", "--ranks", "2");
    char old[SEVERAL_PATH_BYTES];
    (void)snprintf(old, sizeof old, "%s", several_key);
    several_make_key("new");
    several_start_head(&job, "keys");
    several_wait_says(0, "waiting at tcp://10.77.0.1:29400");
    (void)snprintf(several_key, sizeof several_key, "%s", old);
    several_start(1, &job, FLAGS("--join-timeout", "4"));
    several_expect(1, 1);
    several_assert_says(1, "before the handshake's end: it has another key, fewer --nodes, or too "
                           "many connections (key of run ");
    several_wait_says(0, "refused a launcher that does not have this job's key (run ");
    stop_waiting();
}

/* Starts a launcher of three on a host that is not its node's. */
static void start_elsewhere(training_run *run, int host, const char *node)
{
    const char *all[] = {LAUNCHER_PATH,    "--nodes",       "3",         "--node-rank", node,
                         "--rendezvous",   several_address, "--job-key", several_key,   "--no-bind",
                         "--join-timeout", PATIENT,         NULL};
    test_hosts_start(&run->program, host, NULL, all);
}

/* A second launcher for a node that is there. */
static void a_node_is_there_once(void **state)
{
    (void)state;
    several_make_key("twice");
    const several job = SEVERAL("3", "--ranks", "3");
    several_start_head(&job, "twice");
    several_start(1, &job, several_no_flags);
    test_program_wait_text(&several_runs[0].program, TEST_STDERR, "(node 1) has joined");
    start_elsewhere(&several_runs[2], 2, "1");
    several_wait_says(2, "node 1 is in the job already: host host-1; trying again");
    (void)kill(several_runs[2].program.pid, SIGINT);
    several_expect(2, 128 + SIGINT);
    several_start(2, &job, several_no_flags);
    several_expect_all(3, 0);
}

/* A host that stands still before the job begins loses its place to the launcher that waits for it. */
static void a_silent_launcher_is_replaced(void **state)
{
    (void)state;
    several_make_key("replaced");
    const several job =
        SEVERAL("3", "--ranks", "3", "--host-timeout", "3", "--join-timeout", PATIENT);
    several_start_head(&job, "replaced");
    several_start(1, &job, several_no_flags);
    several_wait_says(0, "host host-1 (node 1) has joined");
    (void)kill(several_runs[1].program.pid, SIGSTOP);
    start_elsewhere(&several_runs[2], 2, "1");
    several_wait_says(2, "node 1 is in the job already: host host-1; trying again");
    several_wait_says(0, "host host-1 (node 1) has left before the job began: no heartbeat for");
    several_wait_says(0, "host host-2 (node 1) has joined");
    (void)kill(several_runs[1].program.pid, SIGKILL);
    several_expect(1, 128 + SIGKILL);
    start_elsewhere(&several_runs[1], 1, "2");
    several_expect_all(3, 0);
}

static void a_key_file_is_its_owners(void **state)
{
    (void)state;
    several_make_key("mine");
    several_run_quietly(FLAGS(LAUNCHER_PATH, "make-job-key", several_key), 1);
    assert_int_equal(chmod(several_key, 0644), 0);
    const several job = SEVERAL("2", NULL);
    several_start(1, &job, several_no_flags);
    several_expect(1, 1);
    several_assert_says(1, "others than its owner may read it");
}

static void flags_that_do_not_go_together(void **state)
{
    (void)state;
    static const char *const lines[][12] = {
        {"--node-rank", "1", NULL},
        {"--listen-ports", "29500-29509", NULL},
        {"--nodes", "2", NULL},
        {"--nodes", "2", "--rendezvous", "tcp://a:1", NULL},
        {"--nodes", "2", "--rendezvous", "tcp://a", "--job-key", "k", NULL},
        {"--nodes", "2", "--rendezvous", "tcp://fd00::1:1", "--job-key", "k", NULL},
        {"--nodes", "2", "--ranks", "3", "--rendezvous", "tcp://a:1", "--job-key", "k", NULL},
        {"--nodes", "2", "--mode", "gate-check", "--authorize", "local", "--rendezvous",
         "tcp://a:1", "--job-key", "k", NULL},
    };
    const char *all[13] = {LAUNCHER_PATH};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        memcpy(&all[1], lines[i], sizeof lines[i]);
        several_run_quietly(all, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_that_do_not_go_together),
        cmocka_unit_test(two_hosts_train_the_bytes_of_one),
        cmocka_unit_test(two_hosts_are_stages_of_one_model),
        cmocka_unit_test(two_hosts_go_on_after_one),
        cmocka_unit_test(two_hosts_answer_as_one_does),
        cmocka_unit_test(ipv6_and_names_lead_to_the_head),
        cmocka_unit_test(an_agent_may_come_first),
        cmocka_unit_test(programs_know_their_host),
        cmocka_unit_test(programs_can_meet_at_the_master_port),
        cmocka_unit_test(coll_bench_measures_between_hosts),
        cmocka_unit_test(a_head_at_localhost_hears_this_host_only),
        cmocka_unit_test(launchers_of_one_host_share_its_local_ranks),
        cmocka_unit_test(launchers_of_one_host_share_its_cpus),
        cmocka_unit_test(a_program_must_stand_on_each_host),
        cmocka_unit_test(a_host_that_does_not_come_is_named),
        cmocka_unit_test(other_flags_are_refused),
        cmocka_unit_test(a_host_that_is_refused_again_fills_no_log),
        cmocka_unit_test(another_key_is_kept_out),
        cmocka_unit_test(a_node_is_there_once),
        cmocka_unit_test(a_silent_launcher_is_replaced),
        cmocka_unit_test(a_key_file_is_its_owners),
    };
    const int skipped = test_hosts_skip(TEST_HOSTS_MAX);
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests(tests, test_shared_directory_make,
                                                 test_shared_directory_remove);
}
