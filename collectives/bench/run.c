/* A run of coll-bench: forks the ranks, waits for them, and writes table, JSON and plot; or the part of
 * one rank that others have started. Called by main.c, launched_run.c and on_device.c. */
#include "run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "base/exitcode.h"
#include "base/file.h"
#include "base/free_memory.h"
#include "base/log.h"
#include "json.h"
#include "plot.h"
#include "rank.h"
#include "ringfence/coll_error.h"
#include "roofline.h"
#include "table.h"

enum { GRACE_S = 10 }; /* what the other ranks have when one has failed */

#define BYTES_PER_GB 1e9

typedef struct children {
    pid_t pids[FORKED_RANKS_MAX]; /* 0: has ended */
    int left;
    int signal; /* that ended us */
    bool failed;
    bool killed; /* by us */
} children;

static void kill_children(children *c, int count)
{
    c->killed = true;
    for (int r = 0; r < count; r++) {
        if (c->pids[r] != 0) {
            (void)kill(c->pids[r], SIGKILL);
        }
    }
}

static void reap(children *c, int count, bench_shared *shared)
{
    for (int r = 0; r < count; r++) {
        int status = 0;
        if (c->pids[r] == 0 || waitpid(c->pids[r], &status, WNOHANG) != c->pids[r]) {
            continue;
        }
        c->pids[r] = 0;
        c->left--;
        if (WIFEXITED(status) && WEXITSTATUS(status) == BASE_EXIT_DONE) {
            continue;
        }
        if (WIFSIGNALED(status) && !c->killed) {
            /* The terminal sends Ctrl-C to all of us; a broken pipe is the end of the reader. */
            if (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGPIPE) {
                c->signal = WTERMSIG(status);
            } else {
                base_log(BASE_LOG_ERROR, "rank %d was ended by signal %d (%s)", r, WTERMSIG(status),
                         sigdescr_np(WTERMSIG(status)));
            }
        }
        c->failed = true;
        bench_gate_fail(&shared->gate);
    }
}

/* Until all ranks have ended. SIGCHLD and the signals that end us are blocked. */
static void wait_for_children(children *c, int count, const sigset_t *watched, bench_shared *shared)
{
    while (c->left > 0) {
        const struct timespec grace = {.tv_sec = GRACE_S};
        const int got = c->failed || c->signal != 0 ? sigtimedwait(watched, NULL, &grace)
                                                    : sigwaitinfo(watched, NULL);
        if (got < 0 && errno == EAGAIN) {
            kill_children(c, count);
        }
        if (got > 0 && got != SIGCHLD && c->signal == 0) {
            c->signal = got;
        }
        if (c->signal != 0) {
            kill_children(c, count);
        }
        reap(c, count, shared);
    }
}

/* Zeroed, shared with children, and never unmapped; NULL: no memory. */
static bench_shared *map_shared(const bench_options *options)
{
    const size_t samples =
        (size_t)(options->iterations > BENCH_SAMPLES_AUTO_MAX ? options->iterations
                                                              : BENCH_SAMPLES_AUTO_MAX);
    const size_t bytes =
        sizeof(bench_shared) + (size_t)options->ranks * samples * sizeof(bench_sample);
    bench_shared *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shared == MAP_FAILED) {
        return NULL;
    }
    shared->samples_max = (int)samples;
    return shared;
}

/* Prints the table's end, and writes JSON and plot. An exit code. Logs its errors. */
static int finish(const bench_options *options, const bench_shared *shared,
                  const bench_roofline *roofline)
{
    coll_error error = {.status = COLL_OK};
    coll_status status = COLL_OK;
    int code = BASE_EXIT_DONE;
    if (!options->tune) {
        bench_table_footer(stdout, options, shared, roofline);
    }
    if (ferror(stdout) != 0 || shared->unwritten) {
        base_log(BASE_LOG_ERROR, "the results could not all be written to standard output");
        code = BASE_EXIT_ERROR;
    }
    const int64_t wrong = bench_total_wrong(shared);
    if (wrong > 0) {
        base_log(BASE_LOG_ERROR, "%lld wrong values", (long long)wrong);
        code = BASE_EXIT_ERROR;
    }
    if (options->json_path[0] != '\0') {
        status = bench_json_write(options->json_path, options, shared, roofline, &error);
    }
    if (status == COLL_OK && options->plot_path[0] != '\0') {
        status = bench_plot_draw(options->plot_path, options, shared, &error);
    }
    if (status != COLL_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        code = BASE_EXIT_ERROR;
    }
    return code;
}

coll_status bench_check_files(const bench_options *options, coll_error *reterr)
{
    coll_status status = COLL_OK;
    if (options->json_path[0] != '\0') {
        status = bench_json_check(options->json_path, reterr);
    }
    if (status == COLL_OK && options->plot_path[0] != '\0') {
        status = (coll_status)base_file_check_writable(options->plot_path, base_error_of(reterr));
    }
    return status;
}

coll_status bench_check_room(const bench_options *options, int ranks_here, coll_error *reterr)
{
    const double needed = 2.0 * ranks_here * (double)options->end_bytes; /* send and recv */
    const double room = (double)base_free_memory_find("").most_bytes;
    if (needed > room) {
        return coll_fail(
            reterr, COLL_ERR_MEMORY,
            "2 buffers of --maxbytes for each of %d ranks take %.1f GB, and %.1f GB are "
            "available on this host, with swap: take less",
            ranks_here, needed / BYTES_PER_GB, room / BYTES_PER_GB);
    }
    return COLL_OK;
}

coll_status bench_run_apart(const bench_options *options, coll_context *context,
                            const bench_device *device, int *code, coll_error *reterr)
{
    const bool is_first = coll_comm_rank(coll_context_world(context)) == 0;
    const bool on_host = device == NULL;
    bench_roofline roofline = {.processors = 0};
    bench_shared *shared = map_shared(options);
    if (shared == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for the samples");
    }
    shared->apart = true;
    coll_status status = is_first ? bench_check_files(options, reterr) : COLL_OK;
    if (status == COLL_OK && is_first && on_host) {
        roofline = bench_roofline_measure(options->ranks > 2 ? options->ranks : 2);
    }
    const bench_job job = {.options = options,
                           .roofline = on_host ? &roofline : NULL,
                           .shared = shared,
                           .device = device};
    if (status == COLL_OK) {
        status = bench_rank_work(&job, context, reterr);
    }
    if (status == COLL_OK && is_first) {
        *code = finish(options, shared, job.roofline);
    }
    return status;
}

int bench_run(const bench_options *options)
{
    sigset_t watched;
    coll_error error = {.status = COLL_OK};
    children c = {.left = options->ranks};
    if (bench_check_room(options, options->ranks, &error) != COLL_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_ERROR;
    }
    bench_shared *shared = map_shared(options);
    if (shared == NULL) {
        base_log(BASE_LOG_ERROR, "no memory for the samples");
        return BASE_EXIT_ERROR;
    }
    const bench_roofline roofline = bench_roofline_measure(options->ranks > 2 ? options->ranks : 2);
    bench_job job = {.options = options, .roofline = &roofline, .shared = shared};
    (void)sigemptyset(&watched);
    (void)sigaddset(&watched, SIGCHLD);
    (void)sigaddset(&watched, SIGINT);
    (void)sigaddset(&watched, SIGTERM);
    (void)sigaddset(&watched, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &watched, NULL);
    (void)fflush(stdout);
    if (forked_start(options->ranks, bench_rank, &job, c.pids, &error) != COLL_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_ERROR;
    }
    wait_for_children(&c, options->ranks, &watched, shared);
    if (c.signal != 0) {
        return BASE_EXIT_SIGNAL_BASE + c.signal;
    }
    return c.failed ? BASE_EXIT_ERROR : finish(options, shared, &roofline);
}
