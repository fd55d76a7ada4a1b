/* Tensor parallelism: which rank has which leaves, and the group of ranks that exchange sums.
 * rank/generate's engine makes a group, and a family's decode calls its all-reduce. */
#include "parallel/tensor/tp.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "coll/backend.h"
#include "ringfence/coll_error.h"

enum {
    LEAF_STEP = 32,      /* RANK_PANEL of the backends */
    LENGTHS_MAX = 8,     /* of all-reduces on a device, in one place */
    STREAM_OPS_MAX = 64, /* of all places */
};

/* An all-reduce on the device's stream. To make one is costly and collective, so all are kept. */
typedef struct stream_op {
    const float *at;
    size_t count;
    coll_op *op;
} stream_op;

struct rank_tp_group {
    rank_tp tp;
    coll_comm *comm;
    rank_device device;
    void *stream; /* NULL on the CPU */
    stream_op ops[STREAM_OPS_MAX];
    int op_count;
    rank_tp_costs on_device; /* all-reduces on the stream */
    coll_arena *arena;
    float *memory;
    bool adopted;
    size_t float_count;     /* of memory */
    int64_t ns;             /* in all-reduces */
    rank_tp_costs before;   /* libcoll's counters when the group was made */
    rank_exchange_log *log; /* NULL: none */
    rank_trace *trace;      /* the same */
    base_status failed;
    base_error error;
};

int32_t rank_tp_leaf_width(int vocab_size)
{
    const int32_t width = (vocab_size + RANK_TP_LEAVES - 1) / RANK_TP_LEAVES;
    return (width + LEAF_STEP - 1) / LEAF_STEP * LEAF_STEP;
}

int rank_tp_first_leaf(int ranks, int rank)
{
    return RANK_TP_LEAVES * rank / ranks;
}

rank_tp_ids rank_tp_ids_of(int vocab_size, int ranks, int rank)
{
    const int32_t width = rank_tp_leaf_width(vocab_size);
    const int32_t first = rank_tp_first_leaf(ranks, rank) * width;
    const int32_t end = rank_tp_first_leaf(ranks, rank + 1) * width;
    const int32_t last = end < vocab_size ? end : vocab_size;
    return (rank_tp_ids){.first = first, .count = last > first ? last - first : 0};
}

int rank_tp_leaves(size_t units)
{
    int leaves = 1;
    while (leaves < RANK_TP_LEAVES && units % (2 * (size_t)leaves) == 0) {
        leaves *= 2;
    }
    return leaves;
}

/* Few lengths serve all steps: the memory's, halved again and again. */
static size_t padded(const rank_tp_group *group, const float *at, size_t count)
{
    const size_t room = group->float_count - (size_t)(at - group->memory);
    size_t length = group->float_count;
    for (int i = 0; i < LENGTHS_MAX && length / 2 >= count && length > 1; i++) {
        length -= length / 2;
    }
    return length < room ? length : room;
}

/* A vector is half of the memory at most, in each half. Lengths that are halved add up to less than twice
 * the longest. `direct` has a piece from each rank, and their sum. */
uint64_t rank_tp_plan_collectives(size_t float_count, int ranks)
{
    const uint64_t lengths = 2 * (uint64_t)float_count * sizeof(float);
    return ranks == 1 ? 0 : lengths + lengths / (uint64_t)ranks;
}

/* The operation of this place and length, made when it is first wanted. Steps are the same on all
 * ranks, so they make it together. */
static coll_status find_op(rank_tp_group *group, float *at, size_t count, coll_op **op,
                           coll_error *reterr)
{
    const coll_op_desc desc = {
        .size = sizeof(coll_op_desc),
        .kind = COLL_ALL_REDUCE,
        .send = at,
        .recv = at,
        .count = count,
        .type = COLL_FLOAT32,
        .reduce = COLL_SUM,
        .stream = group->stream,
    };
    for (int i = 0; i < group->op_count; i++) {
        if (group->ops[i].at == at && group->ops[i].count == count) {
            *op = group->ops[i].op;
            return COLL_OK;
        }
    }
    BASE_ASSERT(group->op_count < STREAM_OPS_MAX); /* a family reduces in a few places */
    const coll_status status = coll_op_create(group->comm, &desc, op, reterr);
    if (status == COLL_OK) {
        group->ops[group->op_count++] = (stream_op){at, count, *op};
    }
    return status;
}

static coll_status reduce(rank_tp_group *group, float *at, size_t count, coll_error *reterr)
{
    coll_op *op = NULL;
    if (group->stream == NULL) {
        return coll_all_reduce(group->comm, at, at, count, COLL_FLOAT32, COLL_SUM, reterr);
    }
    const size_t length = padded(group, at, count);
    const coll_status status = find_op(group, at, length, &op, reterr);
    group->on_device.count++;
    group->on_device.bytes += length * sizeof *at;
    return status == COLL_OK ? coll_op_start(op, reterr) : status;
}

static void all_reduce(void *user, float *at, size_t count)
{
    rank_tp_group *group = user;
    if (group->comm == NULL || group->failed != BASE_OK) {
        return;
    }
    BASE_ASSERT(at >= group->memory);
    BASE_ASSERT(count <= group->float_count - (size_t)(at - group->memory));
    const int64_t before_ns = base_now_ns();
    group->failed = (base_status)reduce(group, at, count, coll_error_of(&group->error));
    const rank_span span = {.begin_ns = before_ns, .end_ns = base_now_ns()};
    group->ns += span.end_ns - span.begin_ns;
    if (group->log != NULL) {
        rank_exchange_log_add(group->log, span);
    }
    rank_trace_add(group->trace, (rank_trace_span){.kind = RANK_TRACE_PARTS,
                                                   .of = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE |
                                                         RANK_TRACE_ALL_RANKS,
                                                   .begin_ns = span.begin_ns,
                                                   .end_ns = span.end_ns,
                                                   .index = -1,
                                                   .bytes = count * sizeof *at});
}

/* A rank alone has memory of its device, ranks of a CPU an arena, and those of devices memory that
 * their collectives like best. */
static base_status make_memory(rank_tp_group *group, size_t float_count, base_error *reterr)
{
    const rank_device *device = &group->device;
    const size_t size_bytes = float_count * sizeof(float);
    void *memory = NULL;
    coll_status status = COLL_OK;
    if (group->comm == NULL) {
        const base_status given = device->backend->alloc(device->queue, RANK_MEMORY_EXCHANGED,
                                                         size_bytes, &memory, reterr);
        group->memory = memory;
        return given;
    }
    if (group->stream == NULL) {
        status = coll_arena_create(group->comm, size_bytes, &group->arena, coll_error_of(reterr));
        memory = status == COLL_OK ? coll_arena_data(group->arena) : NULL;
    } else {
        status = coll_device_open(group->comm, coll_error_of(reterr));
        if (status == COLL_OK) {
            status = coll_device_alloc(group->comm, size_bytes, &memory, coll_error_of(reterr));
        }
    }
    if (status != COLL_OK) {
        return (base_status)status;
    }
    group->memory = memory;
    const base_status taken = device->backend->adopt(device->queue, memory, size_bytes, reterr);
    group->adopted = taken == BASE_OK;
    return taken;
}

static rank_tp_costs counters(const coll_comm *comm)
{
    rank_tp_costs now = {0};
    if (comm != NULL) {
        now.count = coll_comm_operations(comm, COLL_ALL_REDUCE);
        now.bytes = coll_comm_operation_bytes(comm, COLL_ALL_REDUCE);
    }
    return now;
}

base_status rank_tp_group_create(coll_comm *comm, const rank_device *device, int vocab_size,
                                 size_t float_count, rank_tp_group **group, base_error *reterr)
{
    const int rank = comm != NULL ? coll_comm_rank(comm) : 0;
    const int ranks = comm != NULL ? coll_comm_size(comm) : 1;
    const int32_t width = rank_tp_leaf_width(vocab_size);
    *group = NULL;
    if (ranks > RANK_TP_LEAVES) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a model is cut between %d ranks at most, there are %d", RANK_TP_LEAVES,
                         ranks);
    }
    rank_tp_group *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a group of ranks");
    }
    const int first = rank_tp_first_leaf(ranks, rank);
    made->comm = comm;
    made->device = *device;
    made->stream = comm != NULL ? device->backend->stream(device->queue) : NULL;
    made->float_count = float_count;
    made->tp = (rank_tp){
        .rank = rank,
        .ranks = ranks,
        .vocab_first = first * width,
        .vocab_count = (rank_tp_first_leaf(ranks, rank + 1) - first) * width,
        .all_reduce = all_reduce,
        .group = made,
    };
    const base_status status = make_memory(made, float_count, reterr);
    made->before = counters(comm);
    if (status != BASE_OK) {
        rank_tp_group_destroy(made);
        return base_error_prepend(reterr, status, "what the ranks exchange");
    }
    *group = made;
    return BASE_OK;
}

void rank_tp_group_destroy(rank_tp_group *group)
{
    if (group == NULL) {
        return;
    }
    const rank_device *device = &group->device;
    for (int i = 0; i < group->op_count; i++) {
        coll_op_destroy(group->ops[i].op);
    }
    if (group->adopted) {
        device->backend->disown(device->queue, group->memory);
    }
    if (group->comm == NULL) {
        device->backend->release(device->queue, group->memory);
    } else if (group->stream != NULL) {
        coll_device_free(group->comm, group->memory);
    }
    coll_arena_destroy(group->arena);
    free(group);
}

const rank_tp *rank_tp_group_tp(const rank_tp_group *group)
{
    return &group->tp;
}

float *rank_tp_group_memory(const rank_tp_group *group)
{
    return group->memory;
}

base_status rank_tp_group_check(rank_tp_group *group, base_error *reterr)
{
    if (group->stream != NULL && group->failed == BASE_OK) {
        group->failed =
            (base_status)coll_device_wait(group->comm, group->stream, coll_error_of(&group->error));
    }
    if (group->failed != BASE_OK && reterr != NULL) {
        *reterr = group->error;
    }
    return group->failed;
}

rank_tp_costs rank_tp_group_costs(const rank_tp_group *group)
{
    rank_tp_costs costs = group->on_device;
    if (group->stream == NULL) {
        costs = counters(group->comm);
        costs.count -= group->before.count;
        costs.bytes -= group->before.bytes;
    }
    costs.ns = group->ns;
    return costs;
}

void rank_tp_group_recount(rank_tp_group *group, uint64_t count, uint64_t bytes)
{
    group->on_device.count = count;
    group->on_device.bytes = bytes;
}

void rank_tp_group_log(rank_tp_group *group, rank_exchange_log *log)
{
    group->log = log;
}

void rank_tp_group_trace(rank_tp_group *group, rank_trace *trace)
{
    group->trace = trace;
}
