/* One job on several hosts: the same bytes as on one host, whoever comes first; who is refused; and
 * what programs of users see. docs/DEPLOY.md has the same commands. Needs root for its hosts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "several.h"

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
    several_expect(0, 0);
    several_expect(1, 0);
    assert_same_states(atoi(ranks)); /* NOLINT(cert-err34-c): the test's own text */
    test_program_assert_no_children();
}

static void two_hosts_train_the_bytes_of_one(void **state)
{
    (void)state;
    several_make_key("same");
    compare("tcp",
            (several){several_address, "2", NULL, {"--ranks", "2", "--transport", "tcp", NULL}},
            "2");
    compare("auto", (several){several_address, "2", NULL, {"--ranks", "4", NULL}}, "4");
    compare("zmq",
            (several){several_address, "2", NULL, {"--ranks", "2", "--transport", "zmq", NULL}},
            "2");
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
    (void)snprintf(head_file, sizeof head_file, "%s",
                   test_directory_path(&test_shared_directory, "hosts-0"));
    assert_ok(base_file_write(head_file, own, sizeof own - 1, &error), &error);
    const several job = {"tcp://host-0:29400", "2", head_file, {"--ranks", "2", NULL}};
    several_start_head(&job, "named");
    const several same = {several_address, "2", NULL, {NULL}};
    several_start(1, &same, several_no_flags);
    several_expect(0, 0);
    several_expect(1, 0);
    assert_same_states(2);
}

static void an_agent_may_come_first(void **state)
{
    (void)state;
    several_make_key("first");
    const several job = {several_address, "3", NULL, {"--ranks", "3", NULL}};
    training_expect(&one, &test_shared_directory, "first-alone", 0,
                    (const char *const[]){"--ranks", "3", NULL});
    several_start(1, &job, several_no_flags);
    several_start(2, &job, several_no_flags);
    several_start_head(&job, "first");
    for (int node = 0; node < 3; node++) {
        several_expect(node, 0);
    }
    assert_same_states(3);
    test_program_assert_no_children();
}

static void programs_know_their_host(void **state)
{
    (void)state;
    several_make_key("program");
    const several job = {several_address, "2", NULL, {NULL}};
    const char *const flags[] = {
        "--ranks-per-node",
        "2",
        "--",
        "sh",
        "-c",
        "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname); echo $RANK >&2",
        NULL};
    several_start(0, &job, flags);
    several_start(1, &job, flags);
    several_expect(0, 0);
    several_expect(1, 0);
    const char *out = several_runs[0].program.text[TEST_STDOUT];
    assert_non_null(strstr(out, "[rank 0] 0/4 0/2 host-0\n"));
    assert_non_null(strstr(out, "[rank 1] 1/4 1/2 host-0\n"));
    assert_non_null(strstr(out, "[rank 2] 2/4 0/2 host-1\n"));
    assert_non_null(strstr(out, "[rank 3] 3/4 1/2 host-1\n"));
    several_assert_says(0, "[rank 3] 3\n");
    assert_string_equal(several_runs[1].program.text[TEST_STDOUT], "");
}

static void a_program_must_stand_on_each_host(void **state)
{
    (void)state;
    several_make_key("unsaid");
    const several job = {several_address, "2", NULL, {NULL}};
    several_start(0, &job, (const char *const[]){"--join-timeout", "3", "--", "true", NULL});
    several_start(1, &job, several_no_flags);
    several_expect(1, 2);
    several_expect(0, 1);
    several_assert_says(1, "it was given no program");
    several_assert_says(0, "1 of 2 hosts have not joined within 3 s: node 1");
}

static void other_flags_are_refused(void **state)
{
    (void)state;
    several_make_key("flags");
    const several job = {several_address, "2", NULL, {"--ranks", "2", "--join-timeout", "3", NULL}};
    several_start_head(&job, "flags");
    several_start(1, &job, (const char *const[]){"--steps", "7", NULL});
    several_expect(1, 2);
    several_assert_says(1, "its flags of the job are not the head's");
    several_start(1, &job, (const char *const[]){"--ranks-per-node", "2", NULL});
    several_expect(1, 2);
    several_assert_says(1, "--ranks-per-node 2, the head 1");
    several_expect(0, 1);
    several_assert_says(0, "warning: refused host host-1 (node 1)");
}

static void another_key_is_kept_out(void **state)
{
    (void)state;
    several_make_key("old");
    const several job = {several_address, "2", NULL, {"--ranks", "2", "--join-timeout", "3", NULL}};
    char old[SEVERAL_PATH_BYTES];
    (void)snprintf(old, sizeof old, "%s", several_key);
    several_make_key("new");
    several_start_head(&job, "keys");
    (void)snprintf(several_key, sizeof several_key, "%s", old);
    several_start(1, &job, (const char *const[]){"--join-timeout", "2", NULL});
    several_expect(1, 1);
    several_assert_says(1, "it does not know the key of this launcher (key of run ");
    several_expect(0, 1);
    several_assert_says(0, "refused a launcher that does not have this job's key (run ");
    several_assert_says(0, "have not joined within 3 s");
}

/* A second launcher for a node that is there. */
static void a_node_is_there_once(void **state)
{
    (void)state;
    several_make_key("twice");
    const several job = {
        several_address, "3", NULL, {"--ranks", "3", "--join-timeout", "20", NULL}};
    several_start_head(&job, "twice");
    several_start(1, &job, several_no_flags);
    test_program_wait_text(&several_runs[0].program, TEST_STDERR, "(node 1) has joined");
    const char *again[] = {LAUNCHER_PATH,  "--nodes",       "3",         "--node-rank", "1",
                           "--rendezvous", several_address, "--job-key", several_key,   NULL};
    test_hosts_start(&several_runs[2].program, 2, NULL, again);
    several_expect(2, 2);
    several_assert_says(2, "node 1 is in the job already: host host-1");
    several_start(2, &job, several_no_flags);
    for (int node = 0; node < 3; node++) {
        several_expect(node, 0);
    }
}

static void a_key_file_is_its_owners(void **state)
{
    (void)state;
    several_make_key("mine");
    several_run_quietly((const char *const[]){LAUNCHER_PATH, "make-job-key", several_key, NULL}, 1);
    assert_int_equal(chmod(several_key, 0644), 0);
    const several job = {several_address, "2", NULL, {NULL}};
    several_start(1, &job, several_no_flags);
    several_expect(1, 1);
    several_assert_says(1, "others than its owner may read it");
}

static void flags_that_do_not_go_together(void **state)
{
    (void)state;
    static const char *const lines[][8] = {
        {"--node-rank", "1", NULL},
        {"--nodes", "2", NULL},
        {"--nodes", "2", "--rendezvous", "tcp://a:1", NULL},
        {"--nodes", "2", "--rendezvous", "tcp://a", "--job-key", "k", NULL},
        {"--nodes", "2", "--rendezvous", "tcp://fd00::1:1", "--job-key", "k", NULL},
    };
    const char *all[12] = {LAUNCHER_PATH};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        memcpy(&all[1], lines[i], sizeof lines[i]);
        several_run_quietly(all, 2);
    }
    const char *const uneven[] = {LAUNCHER_PATH,  "--nodes",   "2",         "--ranks", "3",
                                  "--rendezvous", "tcp://a:1", "--job-key", "k",       NULL};
    several_run_quietly(uneven, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_that_do_not_go_together),
        cmocka_unit_test(two_hosts_train_the_bytes_of_one),
        cmocka_unit_test(ipv6_and_names_lead_to_the_head),
        cmocka_unit_test(an_agent_may_come_first),
        cmocka_unit_test(programs_know_their_host),
        cmocka_unit_test(a_program_must_stand_on_each_host),
        cmocka_unit_test(other_flags_are_refused),
        cmocka_unit_test(another_key_is_kept_out),
        cmocka_unit_test(a_node_is_there_once),
        cmocka_unit_test(a_key_file_is_its_owners),
    };
    const int skipped = test_hosts_skip(TEST_HOSTS_MAX);
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests(tests, test_shared_directory_make,
                                                 test_shared_directory_remove);
}
