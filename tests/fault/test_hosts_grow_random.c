/* Jobs whose hosts come and go at random moments, and whose ranks and launchers are killed, or stopped and
 * continued. Each ends with the parameters of a job that nobody disturbed, and its attempts are counted as
 * DEPLOY.md says. Real ranks. Slow: 42 jobs. Needs root for its hosts. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/splitmix.h"
#include "several.h"

enum { JOBS = 42, EVENTS_MAX = 12, DELAY_MS_MAX = 500, STOPPED_MS_MAX = 1200, RESTARTS = 50 };

typedef enum event {
    START,
    KILL_AGENT,
    END_AGENT,
    STOP_AGENT,
    KILL_RANK,
    STOP_RANK,
    HEAD,
    EVENTS
} event;

typedef struct kind {
    several job;
    int nodes;
    int save_every;
} kind;

#define ALONE                                                                                      \
    "--transport", "tcp", "--join-timeout", "1", "--min-nodes", "1", "--max-restarts", "50",       \
        "--resume"

static const kind kinds[] = {
    {SEVERAL("2", "--ranks", "2", "--micro-batches", "2", "--steps", "1500", ALONE, "--save-every",
             "20"),
     2, 20},
    {SEVERAL("2", "--ranks", "2", "--micro-batches", "2", "--steps", "150", ALONE, "--save-every",
             "1", "--keep", "3"),
     2, 1},
    {SEVERAL("3", "--ranks", "3", "--micro-batches", "2", "--steps", "700", ALONE, "--save-every",
             "30"),
     3, 30},
    {SEVERAL("2", "--ranks", "4", "--micro-batches", "2", "--steps", "400", ALONE, "--save-every",
             "20", "--zero", "2"),
     2, 20},
    {SEVERAL("2", "--ranks", "2", "--micro-batches", "2", "--steps", "400", ALONE, "--save-every",
             "20", "--experts", "4", "--expert-ranks", "2"),
     2, 20},
    {SEVERAL("2", "--ranks", "2", "--micro-batches", "2", "--steps", "500", ALONE, "--save-every",
             "7", "--eval-every", "50", "--keep-best"),
     2, 7},
    {SEVERAL("3", "--ranks", "6", "--micro-batches", "1", "--steps", "120", ALONE, "--save-every",
             "5", "--zero", "2"),
     3, 5},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static training_run quiet[KINDS]; /* nobody disturbed it */
static bool has_quiet[KINDS];
static bool runs[TEST_HOSTS_MAX]; /* the launcher of this node, as far as the test has seen */
static char story[4096];

static int below(uint64_t *random, int limit)
{
    return (int)(base_splitmix_next(random) % (uint64_t)limit);
}

static void tell(const char *what, int node, int value)
{
    const size_t used = strlen(story);
    (void)snprintf(story + used, sizeof story - used, " %s %d (%d)", what, node, value);
}

static void fail_with(const char *what)
{
    fail_msg("%s:%s\n--- 0\n%s\n--- 1\n%s\n--- 2\n%s", what, story,
             several_runs[0].program.text[TEST_STDERR], several_runs[1].program.text[TEST_STDERR],
             several_runs[2].program.text[TEST_STDERR]);
}

static void start_agent(const kind *of, int node)
{
    static const char *const join[] = {"--join-timeout", "10", NULL};
    several_start(node, &of->job, join);
    runs[node] = true;
}

static void stop_for(pid_t pid, int ms)
{
    if (pid > 0 && kill(pid, SIGSTOP) == 0) {
        (void)poll(NULL, 0, ms);
        (void)kill(pid, SIGCONT);
    }
}

/* For a while, until another checkpoint is there. */
static void await_checkpoint(void)
{
    char path[BASE_PATH_BYTES + 16];
    struct stat before = {0};
    struct stat now = {0};
    (void)snprintf(path, sizeof path, "%s/checkpoints", several_runs[0].out);
    (void)stat(path, &before);
    for (int i = 0; i < 600; i++) {
        if (stat(path, &now) == 0 &&
            memcmp(&before.st_mtim, &now.st_mtim, sizeof now.st_mtim) != 0) {
            return;
        }
        (void)usleep(500);
    }
}

static bool says(int node, const char *text)
{
    return strstr(several_runs[node].program.text[TEST_STDERR], text) != NULL;
}

static void await_agent(int node, int head_code)
{
    if (!runs[node]) {
        return;
    }
    runs[node] = false;
    const int code = test_program_wait(&several_runs[node].program);
    const bool away = says(node, "is sent away");
    if (code != head_code && !away &&
        !(code == 1 && (says(node, "no head at tcp://") || says(node, "the head at tcp://")))) {
        fail_with("an agent's end");
    }
}

/* All end. Returns the head's exit code. */
static int await_all(const kind *of)
{
    const int code = test_program_wait(&several_runs[0].program);
    for (int node = 1; node < of->nodes; node++) {
        await_agent(node, code);
    }
    return code;
}

static bool disturb(const kind *of, uint64_t *random, event what, int node)
{
    const pid_t rank = several_find_rank(below(random, 2) == 0 && runs[node] ? node : 0);
    const int ms = below(random, STOPPED_MS_MAX);
    if (what == START && !runs[node]) {
        start_agent(of, node);
    } else if (what == KILL_AGENT && runs[node]) {
        (void)kill(several_pid(node), SIGKILL);
        (void)test_program_wait(&several_runs[node].program);
        runs[node] = false;
    } else if (what == END_AGENT && runs[node]) {
        (void)kill(several_pid(node), SIGTERM);
        (void)test_program_wait(&several_runs[node].program);
        runs[node] = false;
    } else if (what == STOP_AGENT && runs[node]) {
        stop_for(several_pid(node), ms);
    } else if (what == KILL_RANK && rank > 0) {
        (void)kill(rank, SIGKILL);
    } else if (what == STOP_RANK) {
        stop_for(rank, ms / 8);
    } else if (what == HEAD) {
        (void)kill(several_pid(0), below(random, 2) == 0 ? SIGKILL : SIGTERM);
        return true;
    }
    return false;
}

/* Each attempt but the last has failed, or has ended as planned at the checkpoint from which the next one went on. */
static void check_history(const kind *of)
{
    json_t *manifest = training_manifest(&several_runs[0]);
    const json_t *history = json_object_get(manifest, "attempt_history");
    const size_t count = json_array_size(history);
    int pauses = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(history, i);
        const char *planned = json_string_value(json_object_get(one, "planned_end"));
        const bool failed = !json_is_null(json_object_get(one, "failure"));
        if (failed + (planned != NULL) != (i + 1 < count ? 1 : 0) ||
            json_integer_value(json_object_get(one, "attempt")) != (json_int_t)i + 1) {
            fail_with("attempt_history");
        }
        if (planned != NULL) {
            static const char at[] = "at the checkpoint of step ";
            assert_int_equal(strncmp(planned, at, sizeof at - 1), 0);
            const long step = strtol(planned + sizeof at - 1, NULL, 10);
            const json_t *next = json_object_get(json_array_get(history, i + 1), "first_step");
            if (step <= 0 || step % of->save_every != 0 ||
                (!json_is_null(next) && json_integer_value(next) != step)) {
                fail_with("planned_end");
            }
            pauses++;
        }
    }
    json_decref(manifest);
    char most[64];
    (void)snprintf(most, sizeof most, "attempt %zu of at most %d", count, RESTARTS + 1 + pauses);
    if (count > 1 && !says(0, most)) {
        fail_with(most);
    }
}

static void run_job(int seed)
{
    const int which = seed % KINDS;
    const kind *of = &kinds[which];
    uint64_t random = (uint64_t)seed;
    char name[32];
    if (!has_quiet[which]) {
        (void)snprintf(name, sizeof name, "quiet-%d", which);
        several_start_hosts(name, &of->job);
        several_expect_all(of->nodes, 0);
        quiet[which] = several_runs[0];
        has_quiet[which] = true;
    }
    (void)snprintf(name, sizeof name, "job-%d", seed);
    (void)snprintf(story, sizeof story, " seed %d:", seed);
    several_start_head(&of->job, name);
    for (int node = 1; node < of->nodes; node++) {
        runs[node] = false;
        if (below(&random, 3) > 0) {
            start_agent(of, node);
        }
    }
    int code = -1;
    for (int i = 1 + below(&random, EVENTS_MAX); i > 0; i--) {
        const int delay_ms = below(&random, DELAY_MS_MAX);
        const int node = 1 + below(&random, of->nodes - 1);
        event what = (event)below(&random, EVENTS);
        what = what == HEAD && below(&random, 3) > 0 ? START : what;
        if (below(&random, 3) == 0) { /* the moment is the test */
            (void)poll(NULL, 0, delay_ms);
        } else {
            await_checkpoint();
            (void)usleep((useconds_t)(below(&random, 20) * below(&random, 1000)));
        }
        if (!runs[node] && below(&random, 3) > 0) {
            start_agent(of, node);
            continue;
        }
        tell((const char *const[]){"start", "kill", "end", "stop", "kill-rank", "stop-rank",
                                   "head"}[what],
             node, delay_ms);
        if (disturb(of, &random, what, node)) {
            code = await_all(of);
            if (code != 0 && code != 1 && code != 128 + SIGKILL && code != 128 + SIGTERM) {
                fail_with("the head's end");
            }
            several_start_head(&of->job, name);
        }
        if (what == KILL_AGENT && below(&random, 2) == 0) {
            start_agent(of, node);
        }
    }
    if (await_all(of) != 0) {
        fail_with("the end");
    }
    check_history(of);
    training_assert_same_file(&quiet[which], "model.safetensors", &several_runs[0],
                              "model.safetensors");
    test_program_wait_no_children();
    test_hosts_assert_no_sockets(of->nodes);
}

static void any_moment_will_do(void **state)
{
    (void)state;
    several_make_key("random");
    for (int i = 0; i < JOBS; i++) {
        run_job(i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_moment_will_do)};
    const int skipped = test_hosts_skip(TEST_HOSTS_MAX);
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests(tests, test_shared_directory_make,
                                                 test_shared_directory_remove);
}
