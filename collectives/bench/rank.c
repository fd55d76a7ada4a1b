/* One rank of coll-bench: measures all sizes, types and operations. Called by run.c in each forked
 * child, which makes its own context, and by launched_run.c. */
#include "rank.h"

#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/log.h"
#include "coll/backend.h"
#include "common/kinds.h"
#include "data.h"
#include "measure.h"
#include "options.h"
#include "ringfence/coll_error.h"
#include "table.h"
#include "team.h"
#include "tune.h"

enum { PAGE_BYTES = 4096 };

#define TIMEOUT_NS (60 * BASE_NS_PER_S)

typedef struct state {
    const bench_job *job;
    int rank;
    coll_context *context;
    coll_arena *arena;
    uint8_t *own[2]; /* ordinary memory, where there is no arena */
    bench_buffers buffers;
    coll_error *error;
} state;

static size_t buffer_bytes(const bench_options *options)
{
    return (options->end_bytes / PAGE_BYTES + 1) * PAGE_BYTES;
}

static coll_status alloc_on_device(state *s, uint8_t **buffer)
{
    void *memory = NULL;
    const coll_status status =
        coll_device_alloc(coll_context_world(s->context), s->buffers.each_bytes, &memory, s->error);
    *buffer = memory;
    return status;
}

static coll_status open_buffers(state *s)
{
    const size_t each_bytes = buffer_bytes(s->job->options);
    bench_buffers *buffers = &s->buffers;
    buffers->each_bytes = each_bytes;
    if (!s->job->options->arena || s->job->device != NULL) {
        buffers->send = s->own[0] = aligned_alloc(PAGE_BYTES, each_bytes);
        buffers->recv = s->own[1] = aligned_alloc(PAGE_BYTES, each_bytes);
        if (buffers->send == NULL || buffers->recv == NULL) {
            return coll_fail(s->error, COLL_ERR_MEMORY, "no memory for 2 buffers of %zu bytes",
                             each_bytes);
        }
        if (s->job->device == NULL) {
            return COLL_OK;
        }
        const coll_status status = alloc_on_device(s, &buffers->device_send);
        return status == COLL_OK ? alloc_on_device(s, &buffers->device_recv) : status;
    }
    const coll_status status =
        coll_arena_create(coll_context_world(s->context), 2 * each_bytes, &s->arena, s->error);
    if (status == COLL_OK) {
        buffers->send = coll_arena_data(s->arena);
        buffers->recv = buffers->send + each_bytes;
    }
    return status;
}

static void close_buffers(state *s)
{
    free(s->own[0]);
    free(s->own[1]);
    if (s->job->device != NULL) {
        coll_device_free(coll_context_world(s->context), s->buffers.device_send);
        coll_device_free(coll_context_world(s->context), s->buffers.device_recv);
    }
    coll_arena_destroy(s->arena);
}

/* Both columns of one row; what rank 0 has found goes to the shared rows and to the screen. */
static coll_status measure_row(state *s, bench_row *row, const bench_data *data)
{
    const bench_options *options = s->job->options;
    bench_shared *shared = s->job->shared;
    const bool prints = s->rank == 0;
    coll_status status = COLL_OK;
    if (prints) {
        bench_table_row_begin(stdout, row);
    }
    for (int place = 0; status == COLL_OK && place < 2; place++) {
        bench_cell cell = bench_cell_make(coll_context_world(s->context), options->kind, row, data,
                                          place == 1, &s->buffers);
        if (options->by_counts) {
            bench_cell_vary(&cell);
        }
        status = bench_cell_open(&cell, s->job->device, &s->buffers, s->error);
        if (status == COLL_OK) {
            status = bench_measure(options, &cell, shared, &row->columns[place], s->error);
        }
        bench_cell_close(&cell);
        if (status == COLL_OK && prints) {
            bench_table_column(stdout, &row->columns[place]);
        }
    }
    if (prints) {
        bench_table_row_end(stdout);
    }
    if (status == COLL_OK && prints) {
        shared->rows[shared->row_count++] = *row;
    }
    return status;
}

/* All sizes of one type, operation and root. */
static coll_status measure_series(state *s, bench_row base)
{
    const bench_options *options = s->job->options;
    const size_t element_bytes = coll_type_size_bytes(base.type);
    coll_status status = COLL_OK;
    bench_data *data =
        bench_data_create(options->ranks, base.type, base.reduce,
                          bench_data_operands(options->kind, options->ranks, s->rank));
    if (data == NULL) {
        return coll_fail(s->error, COLL_ERR_MEMORY, "no memory for patterns");
    }
    size_t bytes = options->begin_bytes;
    do {
        const bench_layout layout =
            bench_layout_make(options->kind, options->ranks, bytes, element_bytes);
        bench_row row = base;
        row.size_bytes = layout.size_bytes;
        row.count = layout.count;
        status = measure_row(s, &row, data);
        bytes = bench_next_size(options, bytes);
    } while (status == COLL_OK && bytes != 0);
    bench_data_destroy(data);
    return status;
}

static coll_status measure_all(state *s)
{
    const bench_options *options = s->job->options;
    const bool rooted = coll_kind_has_root(options->kind);
    const bool reduces = coll_kind_reduces(options->kind);
    const bool all_roots = rooted && options->root == BENCH_ROOT_ALL;
    const int root_first = !rooted ? -1 : all_roots ? 0 : options->root;
    const int root_last = all_roots ? options->ranks - 1 : root_first;
    const int type_first = options->type == 0 ? 1 : (int)options->type;
    const int type_last = options->type == 0 ? COLL_TYPE_LAST : (int)options->type;
    const int reduce_first = !reduces ? 0 : options->reduce == 0 ? 1 : (int)options->reduce;
    const int reduces_here = s->job->device != NULL ? COLL_AVERAGE : COLL_REDUCE_OP_LAST;
    const int reduce_last = reduces && options->reduce == 0 ? reduces_here : reduce_first;
    coll_status status = COLL_OK;
    for (int type = type_first; type <= type_last; type++) {
        for (int reduce = reduce_first; reduce <= reduce_last; reduce++) {
            if (!coll_reduce_op_takes((coll_reduce_op)reduce, (coll_type)type) ||
                !coll_kind_takes(options->kind, (coll_reduce_op)reduce)) {
                continue;
            }
            for (int root = root_first; status == COLL_OK && root <= root_last; root++) {
                status = measure_series(s, (bench_row){.type = (coll_type)type,
                                                       .reduce = (coll_reduce_op)reduce,
                                                       .root = root});
            }
        }
    }
    return status;
}

coll_status bench_rank_work(const bench_job *job, coll_context *context, coll_error *reterr)
{
    coll_comm *world = coll_context_world(context);
    bench_shared *shared = job->shared;
    state s = {.job = job, .rank = coll_comm_rank(world), .context = context, .error = reterr};
    coll_status status = open_buffers(&s);
    if (s.rank == 0) {
        shared->transport = job->device != NULL ? (coll_transport)BENCH_TRANSPORT_NCCL
                                                : coll_context_transport(context);
        shared->algorithm =
            job->device != NULL ? job->options->algorithm : coll_context_algorithm(context);
    }
    if (status == COLL_OK) {
        status = bench_team_enter(shared, world, reterr);
    }
    if (status == COLL_OK && s.rank == 0) {
        bench_table_header(stdout, job->options, shared, job->roofline);
    }
    if (status == COLL_OK) {
        status = job->options->tune ? bench_tune(job->options, context, shared, stdout, reterr)
                                    : measure_all(&s);
    }
    close_buffers(&s);
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        shared->unwritten = true;
    }
    return status;
}

static coll_status open_context(const bench_options *options, forked_rank *rank,
                                coll_context **context, coll_error *reterr)
{
    const coll_context_options context_options = {FORKED_OPTIONS(rank),
                                                  .transport = options->transport,
                                                  .algorithm = options->algorithm,
                                                  .tcp_auth = options->tcp_auth,
                                                  .interface = options->interface,
                                                  .timeout_ns = TIMEOUT_NS};
    bench_gate_prepare(rank->size);
    (void)bench_bind(rank->rank, rank->size);
    (void)bench_ticks_per_us();
    return coll_context_create(&context_options, context, reterr);
}

int bench_rank(forked_rank *rank, void *user)
{
    const bench_job *job = user;
    coll_context *context = NULL;
    coll_error error = {.status = COLL_OK};
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    coll_status status = open_context(job->options, rank, &context, &error);
    if (status == COLL_OK) {
        status = bench_rank_work(job, context, &error);
    }
    if (status != COLL_OK) {
        bench_gate_fail(&job->shared->gate);
        if (status != COLL_ERR_ABORTED) {
            base_log(BASE_LOG_ERROR, "rank %d: %s", rank->rank, error.message);
        }
    }
    coll_context_destroy(context);
    return status == COLL_OK ? BASE_EXIT_DONE : BASE_EXIT_ERROR;
}
