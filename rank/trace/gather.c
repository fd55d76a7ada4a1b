/* Gathers the ranks' traces. Called by worker/traced.c. */
#include "trace/gather.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/host.h"
#include "base/limits.h"
#include "base/log.h"
#include "ringfence/coll_error.h"
#include "trace/chrome.h"

/* What each rank tells all others. */
typedef struct announcement {
    base_host host;
    int32_t steps;           /* that it has whole */
    int32_t operation_steps; /* the same with operations */
    uint64_t count;          /* of the spans that it gives; told second */
} announcement;

typedef struct gathering {
    const rank_trace *trace;
    coll_comm *comm;
    int rank;
    int ranks;
    int steps;
    int operation_steps;
    rank_trace_span *mine; /* (2 * capacity) */
    size_t mine_count;
    rank_trace_span *all; /* on rank 0 */
    announcement told[BASE_COLL_RANKS_MAX];
} gathering;

/* Whether two ranks have one clock. */
static bool is_one_host(const base_host *a, const base_host *b)
{
    return a->boot_id[0] != '\0' && strcmp(a->boot_id, b->boot_id) == 0 &&
           a->pid_namespace == b->pid_namespace && a->net_namespace == b->net_namespace &&
           a->time_namespace == b->time_namespace;
}

/* Only what needs no escape in JSON. */
static void put_name(const base_host *host, char name[RANK_TRACE_HOST_BYTES])
{
    (void)snprintf(name, RANK_TRACE_HOST_BYTES, "%s", host->hostname);
    for (char *at = name; *at != '\0'; at++) {
        const bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                           (*at >= '0' && *at <= '9') || *at == '.' || *at == '-';
        *at = plain ? *at : '_';
    }
}

static base_status tell(gathering *self, const announcement *mine, base_error *reterr)
{
    if (self->comm == NULL) {
        self->told[0] = *mine;
        return BASE_OK;
    }
    return (base_status)coll_all_gather(self->comm, mine, self->told, sizeof *mine, COLL_UINT8,
                                        coll_error_of(reterr));
}

/* Peers are not trusted: their counts become sizes, and their names are printed. All ranks see the same, and refuse
 * the same. */
static base_status check_told(gathering *self, base_error *reterr)
{
    const size_t capacity = rank_trace_capacity(self->ranks);
    for (int r = 0; r < self->ranks; r++) {
        announcement *told = &self->told[r];
        told->host.hostname[sizeof told->host.hostname - 1] = '\0';
        told->host.boot_id[sizeof told->host.boot_id - 1] = '\0';
        if (told->count > 2 * capacity || told->steps < 0 || (size_t)told->steps > capacity ||
            told->operation_steps < 0 || told->operation_steps > told->steps) {
            return base_fail(reterr, BASE_ERR_PEER,
                             "rank %d announced %" PRIu64 " spans of %" PRId32 " steps", r,
                             told->count, told->steps);
        }
    }
    return BASE_OK;
}

/* All write the same steps: those that everybody has. */
static base_status agree(gathering *self, announcement *mine, base_error *reterr)
{
    const rank_trace *trace = self->trace;
    mine->steps = rank_trace_whole_steps(trace, &trace->spans, trace->steps_wanted);
    mine->operation_steps = rank_trace_whole_steps(trace, &trace->operations, mine->steps);
    base_status status = tell(self, mine, reterr);
    if (status == BASE_OK) {
        status = check_told(self, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    self->steps = mine->steps;
    self->operation_steps = mine->operation_steps;
    for (int r = 0; r < self->ranks; r++) {
        const announcement *told = &self->told[r];
        self->steps = told->steps < self->steps ? told->steps : self->steps;
        self->operation_steps = told->operation_steps < self->operation_steps
                                    ? told->operation_steps
                                    : self->operation_steps;
    }
    self->mine_count = rank_trace_take(trace, &trace->spans, self->steps, self->mine);
    self->mine_count += rank_trace_take(trace, &trace->operations, self->operation_steps,
                                        self->mine + self->mine_count);
    mine->count = self->mine_count;
    status = tell(self, mine, reterr);
    return status == BASE_OK ? check_told(self, reterr) : status;
}

/* Every rank's spans to rank 0. */
static base_status collect(gathering *self, base_error *reterr)
{
    size_t counts[BASE_COLL_RANKS_MAX];
    size_t bytes = 0;
    for (int r = 0; r < self->ranks; r++) {
        counts[r] = (size_t)self->told[r].count * sizeof *self->mine;
        bytes += counts[r];
    }
    if (self->rank == 0) {
        self->all = malloc(bytes + 1);
        if (self->all == NULL) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the spans of all ranks");
        }
    }
    if (self->comm == NULL) {
        memcpy(self->all, self->mine, bytes);
        return BASE_OK;
    }
    return (base_status)coll_run(self->comm,
                                 &(coll_op_desc){.size = sizeof(coll_op_desc),
                                                 .kind = COLL_GATHER,
                                                 .send = self->mine,
                                                 .recv = self->all,
                                                 .counts = counts,
                                                 .type = COLL_UINT8},
                                 coll_error_of(reterr));
}

/* The clocks of all hosts against that of rank 0's host, from all pairs of their ranks. */
static void find_clocks(const rank_trace_of_rank *ranks, int count, rank_trace_clock *clocks)
{
    for (int first = 0; first < count; first++) {
        rank_trace_bounds bounds = RANK_TRACE_UNBOUNDED;
        if (ranks[first].clock == 0) {
            clocks[first] = (rank_trace_clock){.known = true};
            continue;
        }
        for (int pair = 0; pair < count * count; pair++) {
            const rank_trace_of_rank *a = &ranks[pair / count];
            const rank_trace_of_rank *b = &ranks[pair % count];
            if (a->clock == 0 && b->clock == first) {
                rank_trace_narrow_all(&bounds, a->spans, a->count, b->spans, b->count);
            }
        }
        clocks[first] = rank_trace_clock_of(&bounds);
    }
}

static base_status check_spans(const gathering *self, const rank_trace_place *place,
                               base_error *reterr)
{
    const rank_trace_span *at = self->all;
    for (int r = 0; r < self->ranks; r++) {
        for (uint64_t i = 0; i < self->told[r].count; i++, at++) {
            if (!rank_trace_is_span(at, place->operation_name)) {
                return base_fail(reterr, BASE_ERR_PEER,
                                 "span %" PRIu64 " of rank %d is none (kind %d)", i, r, at->kind);
            }
        }
    }
    return BASE_OK;
}

static const char *algorithm_name(int algorithm)
{
    const char *name = coll_algorithm_name((coll_algorithm)algorithm);
    return name != NULL ? name : "";
}

static base_status write_file(gathering *self, const rank_trace_place *place, base_error *reterr)
{
    rank_trace_of_rank ranks[BASE_COLL_RANKS_MAX];
    rank_trace_clock clocks[BASE_COLL_RANKS_MAX];
    char names[BASE_COLL_RANKS_MAX][RANK_TRACE_HOST_BYTES];
    rank_trace_span *at = self->all;
    const base_status status = check_spans(self, place, reterr);
    if (status != BASE_OK) {
        return status;
    }
    for (int r = 0; r < self->ranks; r++) {
        const announcement *told = &self->told[r];
        int first = 0;
        while (first < r && !is_one_host(&self->told[first].host, &told->host)) {
            first++;
        }
        put_name(&told->host, names[r]);
        ranks[r] = (rank_trace_of_rank){
            .host = names[r], .clock = first, .spans = at, .count = (size_t)told->count};
        at += told->count;
    }
    find_clocks(ranks, self->ranks, clocks);
    const rank_trace_all all = {.ranks = ranks,
                                .rank_count = self->ranks,
                                .steps = self->steps,
                                .operation_steps = self->operation_steps,
                                .clocks = clocks,
                                .operation_name = place->operation_name,
                                .algorithm_name = algorithm_name};
    return rank_trace_write(&all, place->path, reterr);
}

base_status rank_trace_gather(const rank_trace *trace, coll_comm *comm,
                              const rank_trace_place *place, base_error *reterr)
{
    if (trace == NULL || trace->spans.count == 0) {
        return BASE_OK; /* on all ranks: they take the same steps */
    }
    gathering self = {.trace = trace,
                      .comm = comm,
                      .rank = comm != NULL ? coll_comm_rank(comm) : 0,
                      .ranks = comm != NULL ? coll_comm_size(comm) : 1,
                      .mine = malloc(2 * trace->capacity * sizeof *self.mine)};
    announcement mine = {.steps = 0};
    base_error unwritten;
    BASE_ASSERT(self.ranks <= BASE_COLL_RANKS_MAX);
    base_host_get(&mine.host);
    base_status status = self.mine != NULL
                             ? agree(&self, &mine, reterr)
                             : base_fail(reterr, BASE_ERR_MEMORY, "no memory to gather a trace");
    if (status == BASE_OK) {
        status = collect(&self, reterr);
    }
    if (status == BASE_OK && self.rank == 0 && write_file(&self, place, &unwritten) != BASE_OK) {
        base_log(BASE_LOG_WARNING, "no trace of the last steps: %s", unwritten.message);
        (void)unlink(place->path); /* one of an older run */
    }
    free(self.mine);
    free(self.all);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "gathering the trace");
}
