/* Starts launchers of one job on several hosts, and sees them end. Used by test_hosts.c and
 * fault/test_hosts_faults.c. */
#include "several.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

training_run several_runs[TEST_HOSTS_MAX];
const char *several_launchers[TEST_HOSTS_MAX];
char several_key[SEVERAL_PATH_BYTES];
const char several_address[] = "tcp://10.77.0.1:29400";
const char *const several_no_flags[] = {NULL};

void several_run_quietly(const char *const *arguments, int exit_code)
{
    static test_program program;
    test_program_start(&program, arguments, NULL);
    assert_int_equal(test_program_wait(&program), exit_code);
}

void several_make_key(const char *name)
{
    char file[64];
    (void)snprintf(file, sizeof file, "%s.key", name);
    (void)snprintf(several_key, sizeof several_key, "%s", test_shared_path(file));
    several_run_quietly(FLAGS(LAUNCHER_PATH, "make-job-key", several_key), 0);
}

void several_add(several *job, const char *flag, const char *value)
{
    size_t count = 0;
    while (job->flags[count] != NULL) {
        count++;
    }
    assert_true(count + 2 < SEVERAL_FLAGS_MAX);
    job->flags[count] = flag;
    job->flags[count + 1] = value;
    job->flags[count + 2] = NULL;
}

void several_start(int node, const several *job, const char *const *flags)
{
    static const char *const ranks[] = {"0", "1", "2"};
    const char *all[TEST_PROGRAM_ARGS_MAX] = {
        several_launchers[node] != NULL ? several_launchers[node] : LAUNCHER_PATH,
        "--nodes",
        job->nodes,
        "--node-rank",
        ranks[node],
        "--rendezvous",
        job->rendezvous,
        "--job-key",
        several_key,
        "--no-bind"};
    size_t count = 10;
    for (size_t i = 0; flags[i] != NULL; i++) {
        assert_true(count + 1 < TEST_PROGRAM_ARGS_MAX - 12);
        all[count++] = flags[i];
    }
    all[count] = NULL;
    test_hosts_start(&several_runs[node].program, node, job->hosts_file, all);
}

void several_start_head(const several *job, const char *name)
{
    static const char *const small[] = {"--width", "32",      "--layers",  "1",         "--heads",
                                        "2",       "--batch", "2",         "--context", "64",
                                        "--steps", "6",       "--timeout", "40"};
    const char *flags[SEVERAL_FLAGS_MAX] = {NULL};
    size_t count = 0;
    for (; count < sizeof small / sizeof small[0]; count++) {
        flags[count] = small[count];
    }
    (void)snprintf(several_runs[0].out, sizeof several_runs[0].out, "%s", test_shared_path(name));
    flags[count++] = "--out";
    flags[count++] = several_runs[0].out;
    for (size_t i = 0; job->flags[i] != NULL; i++) {
        flags[count++] = job->flags[i];
    }
    several_start(0, job, flags);
}

void several_wait_checkpoint(uint64_t step)
{
    training_wait_checkpoint(&several_runs[0], step);
}

void several_start_hosts(const char *name, const several *job)
{
    several_start_head(job, name);
    for (int node = 1; node < job->nodes[0] - '0'; node++) {
        several_start(node, job, several_no_flags);
    }
}

void several_start_all(const char *name, const several *job)
{
    several_make_key(name);
    several_start_hosts(name, job);
}

/* The other launchers wait for the head: it may not wait long for them. */
static void start_head_last(const char *name, const several *job, uint64_t gate)
{
    several_make_key(name);
    for (int node = 1; node < job->nodes[0] - '0'; node++) {
        several_start(node, job, several_no_flags);
    }
    for (int node = 1; node < job->nodes[0] - '0'; node++) {
        several_wait_says(node, "waiting for the head at ");
    }
    training_gate_at(gate);
    several_start_head(job, name);
    training_gate_at(0);
}

void several_start_saving(const char *name, const several *job)
{
    start_head_last(name, job, 0);
    several_wait_checkpoint(10);
}

void several_start_gated(const char *name, const several *job, uint64_t step)
{
    start_head_last(name, job, step);
    several_wait_checkpoint(10);
}

pid_t several_pid(int node)
{
    return several_runs[node].program.pid;
}

void several_kill(int node)
{
    (void)kill(several_pid(node), SIGKILL);
    several_expect(node, 128 + SIGKILL);
}

void several_expect(int node, int exit_code)
{
    test_program *program = &several_runs[node].program;
    const int got = test_program_wait(program);
    if (got != exit_code) {
        fail_msg("node %d ended with %d, not %d:\n%s%s", node, got, exit_code,
                 program->text[TEST_STDOUT], program->text[TEST_STDERR]);
    }
}

void several_expect_all(int nodes, int exit_code)
{
    for (int node = 0; node < nodes; node++) {
        several_expect(node, exit_code);
    }
}

pid_t several_find_rank(int node)
{
    char path[64];
    char text[256] = "";
    const pid_t launcher = several_pid(node);
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", launcher, launcher);
    FILE *children = fopen(path, "re");
    const bool has_child = children != NULL && fgets(text, sizeof text, children) != NULL;
    if (children != NULL) {
        (void)fclose(children);
    }
    const pid_t pid = has_child ? (pid_t)strtol(text, NULL, 10) : 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *stat = has_child ? fopen(path, "re") : NULL;
    const bool is_rank = stat != NULL && fgets(text, sizeof text, stat) != NULL &&
                         strstr(text, " (rank) ") != NULL && strstr(text, " (rank) Z ") == NULL;
    if (stat != NULL) {
        (void)fclose(stat);
    }
    return is_rank ? pid : 0;
}

pid_t several_only_child(pid_t launcher)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", launcher, launcher);
    for (int i = 0; i < 3000; i++) {
        FILE *children = fopen(path, "re");
        assert_non_null(children);
        char text[64] = "";
        const bool has_one = fgets(text, sizeof text, children) != NULL;
        (void)fclose(children);
        if (has_one) {
            return (pid_t)strtol(text, NULL, 10);
        }
        (void)usleep(10 * 1000);
    }
    fail_msg("launcher %d has no rank", launcher);
    return -1;
}

void several_assert_says(int node, const char *text)
{
    assert_has(several_runs[node].program.text[TEST_STDERR], text);
}

void several_wait_says(int node, const char *text)
{
    test_program_wait_text(&several_runs[node].program, TEST_STDERR, text);
}
