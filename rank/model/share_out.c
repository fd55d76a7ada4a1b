/* Work on a large array by several threads. Called when weights are drawn and written. */
#include "model/share_out.h"

#include <sched.h>

#include "base/thread.h"

enum { THREADS_MAX = 16 };

typedef struct share {
    pthread_t thread;
    rank_share_work work;
    void *user;
    size_t first;
    size_t end;
} share;

static void *run(void *of)
{
    const share *mine = of;
    mine->work(mine->user, mine->first, mine->end);
    return NULL;
}

static size_t count_threads(size_t count, size_t least)
{
    cpu_set_t allowed;
    const size_t useful = count / least;
    size_t threads = 1;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        threads = (size_t)CPU_COUNT(&allowed);
    }
    threads = threads < THREADS_MAX ? threads : (size_t)THREADS_MAX;
    threads = threads < useful ? threads : useful;
    return threads > 0 ? threads : 1;
}

void rank_share_out(size_t count, size_t least, rank_share_work work, void *user)
{
    share shares[THREADS_MAX];
    const size_t threads = count_threads(count, least);
    size_t started = 1;
    for (size_t i = 0; i < threads; i++) {
        const size_t end = i + 1 < threads ? count / threads * (i + 1) : count;
        shares[i] = (share){.work = work, .user = user, .first = count / threads * i, .end = end};
    }
    while (started < threads && base_thread_start(&shares[started].thread, run, &shares[started],
                                                  "a share", NULL) == BASE_OK) {
        started++;
    }
    (void)run(&shares[0]);
    if (started < threads) { /* what has no thread */
        work(user, shares[started].first, count);
    }
    for (size_t i = 1; i < started; i++) {
        (void)pthread_join(shares[i].thread, NULL);
    }
}
