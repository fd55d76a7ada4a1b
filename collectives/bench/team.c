/* Barriers, and what ranks tell rank 0: over shared memory among forked ranks, with the library's
 * own operations among those of a launcher. Called by rank.c and measure.c. */
#include "team.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ringfence/coll_error.h"

/* What a rank says of itself. */
typedef struct introduction {
    int32_t pid;
    int32_t processor;
    char host[BASE_HOSTNAME_BYTES];
} introduction;

coll_status bench_team_pass(bench_shared *shared, coll_comm *comm, coll_error *reterr)
{
    if (shared->apart) {
        return coll_barrier(comm, reterr);
    }
    return bench_gate_pass(&shared->gate)
               ? COLL_OK
               : coll_fail(reterr, COLL_ERR_ABORTED, "another rank has failed");
}

static coll_status gather_introductions(bench_shared *shared, coll_comm *comm, coll_error *reterr)
{
    const int rank = coll_comm_rank(comm);
    static introduction own;
    static introduction all[FORKED_RANKS_MAX];
    own = (introduction){.pid = shared->pids[rank], .processor = shared->processors[rank]};
    memcpy(own.host, shared->hosts[rank], sizeof own.host);
    const coll_status status = coll_all_gather(comm, &own, all, sizeof own, COLL_UINT8, reterr);
    for (int r = 0; status == COLL_OK && r < coll_comm_size(comm); r++) {
        shared->pids[r] = all[r].pid;
        shared->processors[r] = all[r].processor;
        memcpy(shared->hosts[r], all[r].host, sizeof shared->hosts[r]);
        shared->hosts[r][sizeof shared->hosts[r] - 1] = '\0';
    }
    return status;
}

coll_status bench_team_enter(bench_shared *shared, coll_comm *comm, coll_error *reterr)
{
    const int rank = coll_comm_rank(comm);
    shared->pids[rank] = getpid();
    shared->processors[rank] = sched_getcpu();
    if (gethostname(shared->hosts[rank], sizeof shared->hosts[rank] - 1) != 0) {
        memcpy(shared->hosts[rank], "?", 2);
    }
    return shared->apart ? gather_introductions(shared, comm, reterr)
                         : bench_team_pass(shared, comm, reterr);
}

coll_status bench_team_agree(bench_shared *shared, coll_comm *comm, coll_error *reterr)
{
    int32_t numbers[] = {shared->samples, shared->batch};
    if (!shared->apart) {
        return bench_team_pass(shared, comm, reterr);
    }
    const coll_status status = coll_broadcast(comm, numbers, 2, COLL_INT32, 0, reterr);
    shared->samples = numbers[0];
    shared->batch = numbers[1];
    return status;
}

/* The longest of all ranks' times, in the first rank's samples: from 0 to so many nanoseconds. */
static coll_status merge_samples(bench_shared *shared, coll_comm *comm, coll_error *reterr)
{
    const size_t count = (size_t)shared->samples;
    const bench_sample *own =
        &shared->sample[(size_t)coll_comm_rank(comm) * (size_t)shared->samples_max];
    uint64_t *times_ns = malloc(2 * count * sizeof times_ns[0]);
    if (times_ns == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for %zu samples", count);
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t spent = own[i].end - own[i].begin;
        const uint64_t cost = bench_ticks_cost();
        times_ns[i] =
            (uint64_t)((double)(spent > cost ? spent - cost : 0) * 1e3 / bench_ticks_per_us());
    }
    uint64_t *longest_ns = times_ns + count;
    const coll_status status =
        coll_all_reduce(comm, times_ns, longest_ns, count, COLL_UINT64, COLL_MAX, reterr);
    for (size_t i = 0; status == COLL_OK && i < count; i++) {
        shared->sample[i] = (bench_sample){.end = longest_ns[i]};
    }
    free(times_ns);
    return status;
}

coll_status bench_team_collect(bench_shared *shared, coll_comm *comm, coll_error *reterr)
{
    const int rank = coll_comm_rank(comm);
    if (!shared->apart) {
        return bench_team_pass(shared, comm, reterr);
    }
    const int64_t own = shared->wrong[rank];
    shared->wrong[rank] = 0;
    const coll_status status =
        coll_all_reduce(comm, &own, &shared->wrong[0], 1, COLL_INT64, COLL_SUM, reterr);
    return status == COLL_OK ? merge_samples(shared, comm, reterr) : status;
}
