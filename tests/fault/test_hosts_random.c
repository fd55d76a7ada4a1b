/* Jobs of two hosts in which one process is killed, or stopped and continued, at a random moment
 * between the first start and the last end. Each is done, or ends with the cause. Real ranks. Slow:
 * 120 jobs. Needs root for its hosts. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/splitmix.h"
#include "several.h"

enum { JOBS = 120, DELAY_MS_MAX = 1200, STOPPED_MS = 3000 };

typedef enum victim { HEAD, AGENT, RANK_0, RANK_1, VICTIMS } victim;

/* The pid of the victim. 0: it does not run. */
static pid_t find(victim which)
{
    return which < RANK_0 ? several_runs[which % 2].program.pid : several_find_rank(which % 2);
}

static bool says(int node, const char *text)
{
    return strstr(several_runs[node].program.text[TEST_STDERR], text) != NULL;
}

/* The other launcher of one that was killed: it was done already, or says whom it misses. */
static bool is_right_of_other(int node, int exit_code)
{
    return exit_code == 0 ||
           (exit_code == 1 && (node == 0 ? says(0, "host host-1 (node 1) is lost: ") ||
                                               says(0, "have not joined within 10 s: node 1")
                                         : says(1, "the head at tcp://10.77.0.1:29400 is lost: ") ||
                                               says(1, "no head at tcp://10.77.0.1:29400")));
}

static bool is_right(victim which, int sent, const int *exit_codes)
{
    char rank[64];
    (void)snprintf(rank, sizeof rank, "error: rank %d (pid ", (int)which % 2);
    if (sent == 0 || sent == SIGSTOP) {
        return exit_codes[0] == 0 && exit_codes[1] == 0;
    }
    if (which < RANK_0) {
        const int own = exit_codes[which];
        return (own == 128 + SIGKILL || own == 0) &&
               is_right_of_other(1 - (int)which, exit_codes[1 - which]);
    }
    return exit_codes[0] == exit_codes[1] &&
           (exit_codes[0] == 0 || (exit_codes[0] == 128 + SIGKILL && says(0, rank)));
}

/* One job. The moment, the victim and what happens to it follow from the seed. */
static void run_job(uint64_t seed)
{
    static const char *const join[] = {"--join-timeout", "10", NULL};
    const several job =
        SEVERAL("2", "--ranks", "2", "--join-timeout", "10", "--host-timeout", "40", "--overwrite");
    uint64_t random = seed;
    int exit_codes[2];
    const victim which = (victim)(base_splitmix_next(&random) % VICTIMS);
    const int wanted = base_splitmix_next(&random) % 2 == 0 ? SIGKILL : SIGSTOP;
    const int delay_ms = (int)(base_splitmix_next(&random) % DELAY_MS_MAX);
    several_start_head(&job, "random");
    several_start(1, &job, join);
    (void)poll(NULL, 0, delay_ms); /* the moment is the test */
    const pid_t pid = find(which);
    const int sent = pid > 0 && kill(pid, wanted) == 0 ? wanted : 0;
    if (sent == SIGSTOP) {
        (void)poll(NULL, 0, which < RANK_0 ? STOPPED_MS : 100);
        (void)kill(pid, SIGCONT);
    }
    for (int node = 0; node < 2; node++) {
        exit_codes[node] = test_program_wait(&several_runs[node].program);
    }
    if (!is_right(which, sent, exit_codes)) {
        fail_msg("seed %d: victim %d, signal %d after %d ms: ended with %d and %d\n%s\n%s",
                 (int)seed, (int)which, sent, delay_ms, exit_codes[0], exit_codes[1],
                 several_runs[0].program.text[TEST_STDERR],
                 several_runs[1].program.text[TEST_STDERR]);
    }
    test_program_wait_no_children();
    test_hosts_assert_no_sockets(2);
}

static void any_moment_will_do(void **state)
{
    (void)state;
    several_make_key("random");
    for (int i = 0; i < JOBS; i++) {
        run_job((uint64_t)i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_moment_will_do)};
    const int skipped = test_hosts_skip(2);
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests(tests, test_shared_directory_make,
                                                 test_shared_directory_remove);
}
