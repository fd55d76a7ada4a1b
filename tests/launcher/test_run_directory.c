/* agent/files.h: agents of one host that begin and end at the same time leave each other's directories
 * alone, and remove those of killed ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent_impl.h"
#include "base/file.h"
#include "support.h"

enum { AGENTS = 6, ROUNDS = 200 };

static launch_options options;
static launch_agent agent;

/* Makes the directory of the test's own agent. */
static base_status make(int node, agent_files *files, base_error *reterr)
{
    (void)snprintf(options.hosts.cache, sizeof options.hosts.cache, "%s",
                   test_shared_directory.path);
    (void)snprintf(agent.bootstrap.run_id, sizeof agent.bootstrap.run_id, "run");
    options.hosts.node_rank = node;
    agent.options = &options;
    *files = (agent_files){.run_fd = -1};
    return agent_run_directory(&agent, files, reterr);
}

/* An agent's life, again and again. Returns an exit code. */
static int begin_and_end(int node)
{
    static agent_files files;
    for (int round = 0; round < ROUNDS; round++) {
        char inside[BASE_PATH_BYTES + 8];
        base_error error;
        if (make(node, &files, &error) != BASE_OK) {
            (void)fprintf(stderr, "round %d: %s\n", round, error.message);
            return 1;
        }
        (void)snprintf(inside, sizeof inside, "%s/state", files.run);
        if (base_file_write(inside, "x", 1, &error) != BASE_OK || access(inside, F_OK) != 0) {
            (void)fprintf(stderr, "round %d: its directory is gone\n", round);
            return 1;
        }
        agent_run_directory_remove(&files);
        if (access(files.run, F_OK) == 0) {
            (void)fprintf(stderr, "round %d: its directory is still there\n", round);
            return 1;
        }
    }
    return 0;
}

static void agents_that_begin_together_have_their_directories(void **state)
{
    (void)state;
    pid_t agents[AGENTS];
    int failed = 0;
    for (int i = 0; i < AGENTS; i++) {
        agents[i] = fork();
        assert_true(agents[i] >= 0);
        if (agents[i] == 0) {
            _exit(begin_and_end(i));
        }
    }
    for (int i = 0; i < AGENTS; i++) {
        int how = 0;
        assert_int_equal(waitpid(agents[i], &how, 0), agents[i]);
        failed += how != 0;
    }
    assert_int_equal(failed, 0);
}

static void a_killed_agents_directory_is_removed(void **state)
{
    (void)state;
    static agent_files killed;
    static agent_files next;
    base_error error;
    assert_ok(make(1, &killed, &error), &error);
    (void)close(killed.run_fd);
    assert_ok(make(2, &next, &error), &error);
    assert_int_not_equal(access(killed.run, F_OK), 0);
    assert_int_equal(access(next.run, F_OK), 0);
    agent_run_directory_remove(&next);
}

/* Its lock looks free here, as that of a live agent of another host may over a network. */
static void another_hosts_directory_is_left_alone(void **state)
{
    (void)state;
    static agent_files own;
    char theirs[BASE_PATH_BYTES + 32];
    char lock[BASE_PATH_BYTES + 48];
    base_error error;
    (void)snprintf(theirs, sizeof theirs, "%s/runs/another-boot.run-1-42",
                   test_shared_directory.path);
    (void)snprintf(lock, sizeof lock, "%s.lock", theirs);
    assert_ok(base_mkdirs(theirs, &error), &error);
    assert_ok(base_file_write(lock, "", 0, &error), &error);
    assert_ok(make(1, &own, &error), &error);
    assert_int_equal(access(theirs, F_OK), 0);
    assert_int_equal(access(lock, F_OK), 0);
    agent_run_directory_remove(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agents_that_begin_together_have_their_directories),
        cmocka_unit_test(a_killed_agents_directory_is_removed),
        cmocka_unit_test(another_hosts_directory_is_left_alone),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
