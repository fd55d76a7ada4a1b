/* Sums gradients over micro-batches and ranks, bucket by bucket, while backward goes on. Called by
 * train/: prepare.c wraps the model, step.c runs each step, finish.c compares the parameters. */
#include "rank/ddp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "coll/backend.h"
#include "ringfence/coll_error.h"

enum { ALGORITHM_BYTES = 128 };

/* One range of the gradient array and its operation. */
typedef struct bucket {
    size_t offset;
    size_t count;
    size_t missing; /* elements that are not ready yet in this step */
    bool started;
    coll_op *op;
    rank_signal *full; /* on a device */
} bucket;

/* The device writes it and the host reads it. */
typedef struct results {
    uint8_t initial_digest[RANK_DIGEST_BYTES];
    double largest_difference;
    bool equal;
} results;

struct rank_ddp {
    coll_comm *comm;
    rank_device device;
    rank_queue *reduces; /* of the all-reduces: device's queue on the CPU, else one of its own */
    size_t param_count;
    size_t bucket_elements;
    int micro_batches;
    bool bracketed;
    int micro_batch; /* the current one */
    rank_leaf_plan plan;
    coll_arena *arena;                  /* NULL on a device */
    float *levels[RANK_DDP_LEVELS_MAX]; /* 0: exchanged, in the arena or NCCL's; the others are
                                         * private */
    bucket *buckets;                    /* from the end of the array to its start */
    size_t bucket_count;
    size_t started_count; /* on a device: whose signals are set */
    bool reducing;        /* on a device: the all-reduces of this step are enqueued */
    rank_graphs *graphs;
    int64_t inside_ns; /* time of this step inside collective calls */
    uint64_t busy_ns;  /* coll_device_busy_ns at the end of the last step */
    results *found;
    char algorithm[ALGORITHM_BYTES];
    base_status failed;
    base_error error;
};

/* Lists the buckets' algorithms, each once. */
static void name_algorithms(rank_ddp *ddp)
{
    bool named[COLL_ALGORITHM_NATIVE + 1] = {false};
    size_t length = 0;
    for (size_t i = 0; i < ddp->bucket_count; i++) {
        const coll_algorithm algorithm = coll_op_algorithm(ddp->buckets[i].op);
        if (!named[algorithm] && length < sizeof ddp->algorithm) {
            named[algorithm] = true;
            length +=
                (size_t)snprintf(ddp->algorithm + length, sizeof ddp->algorithm - length, "%s%s",
                                 length > 0 ? "+" : "", coll_algorithm_name(algorithm));
        }
    }
}

/* The all-reduces' stream; NULL on the CPU. */
static void *stream_of(const rank_ddp *ddp)
{
    return ddp->device.backend->stream(ddp->reduces);
}

static bool on_device(const rank_ddp *ddp)
{
    return ddp->reduces != ddp->device.queue;
}

/* What the all-reduces' queue does from now on comes after all that is enqueued to compute. */
static void reduce_after_compute(const rank_ddp *ddp)
{
    const rank_backend *backend = ddp->device.backend;
    if (on_device(ddp)) {
        backend->after(ddp->reduces, backend->mark(ddp->device.queue));
    }
}

/* Broadcasts rank 0's parameters to `at` on all ranks. */
static base_status broadcast(const rank_ddp *ddp, float *at, base_error *reterr)
{
    coll_error error;
    coll_op *op = NULL;
    const coll_op_desc desc = {
        .size = sizeof(coll_op_desc),
        .kind = COLL_BROADCAST,
        .send = at,
        .recv = at,
        .count = ddp->param_count,
        .type = COLL_FLOAT32,
        .stream = stream_of(ddp),
    };
    coll_status status = coll_op_create(ddp->comm, &desc, &op, &error);
    if (status == COLL_OK) {
        reduce_after_compute(ddp);
        status = coll_op_start(op, &error);
    }
    if (status == COLL_OK) {
        status = coll_op_wait(op, &error);
    }
    coll_op_destroy(op);
    return coll_to_base(status, &error, reterr);
}

static base_status make_buckets(rank_ddp *ddp, coll_algorithm algorithm, base_error *reterr)
{
    coll_error error;
    ddp->bucket_count = (ddp->param_count + ddp->bucket_elements - 1) / ddp->bucket_elements;
    if (ddp->bucket_count > RANK_DDP_BUCKETS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "%zu gradient buckets of %zu bytes: at most %d; use larger buckets",
                         ddp->bucket_count, ddp->bucket_elements * sizeof(float),
                         RANK_DDP_BUCKETS_MAX);
    }
    ddp->buckets = calloc(ddp->bucket_count, sizeof *ddp->buckets);
    if (ddp->buckets == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for gradient buckets");
    }
    size_t end = ddp->param_count;
    for (size_t i = 0; i < ddp->bucket_count; i++) {
        bucket *made = &ddp->buckets[i];
        made->count = end < ddp->bucket_elements ? end : ddp->bucket_elements;
        made->offset = end - made->count;
        end = made->offset;
        const coll_op_desc desc = {
            .size = sizeof(coll_op_desc),
            .kind = COLL_ALL_REDUCE,
            .send = ddp->levels[0] + made->offset,
            .recv = ddp->levels[0] + made->offset,
            .count = made->count,
            .type = COLL_FLOAT32,
            .reduce = COLL_SUM,
            .algorithm = algorithm,
            .stream = stream_of(ddp),
        };
        base_status status =
            coll_to_base(coll_op_create(ddp->comm, &desc, &made->op, &error), &error, reterr);
        if (status == BASE_OK && on_device(ddp)) {
            status = ddp->device.backend->signal_open(ddp->reduces, &made->full, reterr);
        }
        if (status != BASE_OK) {
            return status;
        }
    }
    BASE_ASSERT(end == 0); /* the buckets cover the whole array */
    name_algorithms(ddp);
    return BASE_OK;
}

/* Memory that all-reduces work on: an arena, so that peers read it directly, or the device's. */
static base_status make_exchanged(rank_ddp *ddp, size_t size_bytes, base_error *reterr)
{
    coll_error error;
    const rank_device *device = &ddp->device;
    void *memory = NULL;
    coll_status status = COLL_OK;
    ddp->reduces = device->queue;
    if (device->backend->stream(device->queue) == NULL) {
        status = coll_arena_create(ddp->comm, size_bytes, &ddp->arena, &error);
        memory = status == COLL_OK ? coll_arena_data(ddp->arena) : NULL;
    } else {
        const base_status opened = device->backend->open(&ddp->reduces, reterr);
        if (opened != BASE_OK) {
            ddp->reduces = device->queue;
            return opened;
        }
        status = coll_device_open(ddp->comm, &error);
        if (status == COLL_OK) {
            status = coll_device_alloc(ddp->comm, size_bytes, &memory, &error);
        }
    }
    if (status != COLL_OK) {
        return coll_to_base(status, &error, reterr);
    }
    ddp->levels[0] = memory;
    return device->backend->adopt(device->queue, memory, size_bytes, reterr);
}

static int count_levels(int micro_batches)
{
    int levels = 1;
    for (int leaf = 0; leaf < micro_batches; leaf++) {
        const int level = rank_leaf_plan_make(micro_batches, leaf).level;
        levels = level + 1 > levels ? level + 1 : levels;
    }
    BASE_ASSERT(levels <= RANK_DDP_LEVELS_MAX);
    return levels;
}

void rank_ddp_plan(const rank_ddp_options *options, rank_memory_use *use)
{
    const size_t size_bytes = options->param_count * sizeof(float);
    use->bytes[RANK_MEMORY_EXCHANGED] += size_bytes;
    use->bytes[RANK_MEMORY_WORK] += (size_t)(count_levels(options->micro_batches) - 1) * size_bytes;
    use->bytes[RANK_MEMORY_QUEUES] += options->device->backend->queue_bytes;
}

static base_status make_levels(rank_ddp *ddp, base_error *reterr)
{
    const size_t size_bytes = ddp->param_count * sizeof(float);
    const rank_device *device = &ddp->device;
    base_status given = make_exchanged(ddp, size_bytes, reterr);
    if (given != BASE_OK) {
        return base_error_prepend(reterr, given, "memory for gradients");
    }
    const int levels = count_levels(ddp->micro_batches);
    for (int level = 1; given == BASE_OK && level < levels; level++) {
        void *memory = NULL;
        given =
            device->backend->alloc(device->queue, RANK_MEMORY_WORK, size_bytes, &memory, reterr);
        ddp->levels[level] = memory;
    }
    void *found = NULL;
    if (given == BASE_OK) {
        given = device->backend->alloc(device->queue, RANK_MEMORY_HOST, sizeof *ddp->found, &found,
                                       reterr);
        ddp->found = found;
    }
    return given == BASE_OK ? BASE_OK
                            : base_error_prepend(reterr, given, "gradients of %d micro-batches",
                                                 ddp->micro_batches);
}

/* Broadcasts rank 0's parameters, and checks by digest that all ranks have them. */
static base_status share_params(rank_ddp *ddp, float *params, base_error *reterr)
{
    coll_error error;
    const int size = coll_comm_size(ddp->comm);
    const rank_device *device = &ddp->device;
    uint8_t *mine = ddp->found->initial_digest;
    uint8_t *all = malloc((size_t)size * RANK_DIGEST_BYTES);
    if (all == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for digests");
    }
    base_status status = broadcast(ddp, params, reterr);
    if (status == BASE_OK) {
        device->backend->digest(device->queue,
                                &(rank_digest){.at = params,
                                               .size_bytes = ddp->param_count * sizeof *params,
                                               .digest = mine});
        status = device->backend->sync(device->queue, reterr);
    }
    if (status == BASE_OK) {
        status = coll_to_base(
            coll_all_gather(ddp->comm, mine, all, RANK_DIGEST_BYTES, COLL_UINT8, &error), &error,
            reterr);
    }
    for (int rank = 1; status == BASE_OK && rank < size; rank++) {
        if (memcmp(all, all + (size_t)rank * RANK_DIGEST_BYTES, RANK_DIGEST_BYTES) != 0) {
            status = base_fail(reterr, BASE_ERR_MISMATCH,
                               "the initial parameters of rank %d differ from rank 0's", rank);
        }
    }
    free(all);
    return status == BASE_OK ? BASE_OK
                             : base_error_prepend(reterr, status, "sharing the parameters");
}

static base_status check_options(const rank_ddp_options *options, base_error *reterr)
{
    if (options->param_count == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "a model without parameters");
    }
    if (options->micro_batches < 1 || options->micro_batches > RANK_DDP_MICRO_BATCHES_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "%d micro-batches: 1 to %d are possible",
                         options->micro_batches, RANK_DDP_MICRO_BATCHES_MAX);
    }
    if (options->bucket_bytes < sizeof(float)) {
        return base_fail(reterr, BASE_ERR_INVALID, "a bucket of %zu bytes holds no gradient",
                         options->bucket_bytes);
    }
    return BASE_OK;
}

base_status rank_ddp_wrap(coll_comm *comm, const rank_ddp_options *options, float *params,
                          rank_ddp **ddp, base_error *reterr)
{
    base_status status = check_options(options, reterr);
    if (status != BASE_OK) {
        return status;
    }
    rank_ddp *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for data-parallel training");
    }
    made->comm = comm;
    made->device = *options->device;
    made->param_count = options->param_count;
    made->bucket_elements =
        options->bracketed ? options->param_count : options->bucket_bytes / sizeof(float);
    made->micro_batches = options->micro_batches;
    made->bracketed = options->bracketed;
    made->graphs = options->graphs;
    status = make_levels(made, reterr);
    if (status == BASE_OK) {
        status = make_buckets(made, options->algorithm, reterr);
    }
    if (status == BASE_OK) {
        status = share_params(made, params, reterr);
    }
    if (status != BASE_OK) {
        rank_ddp_destroy(made);
        return status;
    }
    made->busy_ns = coll_device_busy_ns(comm); /* the broadcast is of no step */
    *ddp = made;
    return BASE_OK;
}

void rank_ddp_destroy(rank_ddp *ddp)
{
    if (ddp == NULL) {
        return;
    }
    for (size_t i = 0; ddp->buckets != NULL && i < ddp->bucket_count; i++) {
        coll_op_destroy(ddp->buckets[i].op);
        if (ddp->buckets[i].full != NULL) {
            ddp->device.backend->signal_close(ddp->buckets[i].full);
        }
    }
    free(ddp->buckets);
    const rank_device *device = &ddp->device;
    for (int level = 1; level < RANK_DDP_LEVELS_MAX; level++) {
        device->backend->release(device->queue, ddp->levels[level]);
    }
    device->backend->release(device->queue, ddp->found);
    if (ddp->levels[0] != NULL) {
        device->backend->disown(device->queue, ddp->levels[0]);
    }
    if (ddp->arena == NULL) {
        coll_device_free(ddp->comm, ddp->levels[0]);
    }
    coll_arena_destroy(ddp->arena);
    if (ddp->reduces != device->queue) {
        device->backend->close(ddp->reduces);
    }
    free(ddp);
}

bool rank_ddp_is_main(const rank_ddp *ddp)
{
    return coll_comm_rank(ddp->comm) == 0;
}

const char *rank_ddp_algorithm(const rank_ddp *ddp)
{
    return ddp->algorithm;
}

const uint8_t *rank_ddp_initial_digest(const rank_ddp *ddp)
{
    return ddp->found->initial_digest;
}

static void empty_buckets(rank_ddp *ddp)
{
    for (size_t i = 0; i < ddp->bucket_count; i++) {
        ddp->buckets[i].missing = ddp->buckets[i].count;
        ddp->buckets[i].started = false;
    }
    ddp->started_count = 0;
}

void rank_ddp_begin(rank_ddp *ddp)
{
    empty_buckets(ddp);
    ddp->reducing = false;
    ddp->inside_ns = 0;
    ddp->micro_batch = -1;
}

float *rank_ddp_grads(rank_ddp *ddp, int micro_batch)
{
    BASE_ASSERT(micro_batch == ddp->micro_batch + 1);
    BASE_ASSERT(micro_batch < ddp->micro_batches);
    ddp->micro_batch = micro_batch;
    ddp->plan = rank_leaf_plan_make(ddp->micro_batches, micro_batch);
    return ddp->levels[ddp->plan.level];
}

static bool is_last(const rank_ddp *ddp)
{
    return ddp->micro_batch == ddp->micro_batches - 1;
}

uint64_t rank_ddp_key(const rank_ddp *ddp)
{
    return (uint64_t)ddp->plan.merges * 2 + is_last(ddp);
}

void rank_ddp_pass(void *user, bool replayed)
{
    rank_ddp *ddp = user;
    if (is_last(ddp)) {
        empty_buckets(ddp);
        ddp->started_count = replayed ? ddp->bucket_count : 0;
    }
}

/* Adds this micro-batch's range to the sums that wait for it. */
static void merge_leaf(const rank_ddp *ddp, size_t offset, size_t count)
{
    for (int merge = 0; merge < ddp->plan.merges; merge++) {
        const int level = ddp->plan.level - merge;
        ddp->device.backend->add(ddp->device.queue,
                                 &(rank_add){.count = count,
                                             .from = ddp->levels[level] + offset,
                                             .to = ddp->levels[level - 1] + offset});
    }
}

static void keep_failure(rank_ddp *ddp, base_status status)
{
    if (status != BASE_OK && ddp->failed == BASE_OK) {
        ddp->failed = status;
    }
}

/* Starts every bucket that is full, in order from the end, and makes progress on the started
 * ones. */
static void start_full_buckets(rank_ddp *ddp)
{
    coll_error error;
    const int64_t before_ns = base_now_ns();
    while (ddp->failed == BASE_OK && ddp->started_count < ddp->bucket_count &&
           ddp->buckets[ddp->started_count].missing == 0) {
        bucket *full = &ddp->buckets[ddp->started_count];
        BASE_ASSERT(!full->started);
        keep_failure(ddp, coll_to_base(coll_op_start(full->op, &error), &error, &ddp->error));
        full->started = true;
        ddp->started_count++;
    }
    if (ddp->failed == BASE_OK && ddp->started_count > 0) {
        bool done = false;
        keep_failure(ddp, coll_to_base(coll_op_test(ddp->buckets[0].op, &done, &error), &error,
                                       &ddp->error));
    }
    ddp->inside_ns += base_now_ns() - before_ns;
}

/* Sets the signal of every bucket that is full, in order from the end. */
static void signal_full_buckets(rank_ddp *ddp)
{
    const rank_device *device = &ddp->device;
    while (ddp->started_count < ddp->bucket_count &&
           ddp->buckets[ddp->started_count].missing == 0) {
        device->backend->signal_set(device->queue, ddp->buckets[ddp->started_count].full);
        ddp->started_count++;
    }
}

/* The all-reduces of a step, each after its bucket's signal: a rank_graph_work's. */
static void enqueue_reduces(void *user)
{
    rank_ddp *ddp = user;
    coll_error error;
    for (size_t i = 0; ddp->failed == BASE_OK && i < ddp->bucket_count; i++) {
        ddp->device.backend->signal_await(ddp->reduces, ddp->buckets[i].full);
        keep_failure(ddp,
                     coll_to_base(coll_op_start(ddp->buckets[i].op, &error), &error, &ddp->error));
    }
}

/* A graph with operations of NCCL is one of all ranks: none has it unless all have. */
static bool all_capture(void *user, bool mine)
{
    rank_ddp *ddp = user;
    double missing = mine ? 0.0 : 1.0;
    if (ddp->failed == BASE_OK) {
        keep_failure(ddp, rank_ddp_sum(ddp, &missing, 1, &ddp->error));
    }
    return ddp->failed == BASE_OK && missing == 0.0;
}

static void reduce_on_device(rank_ddp *ddp)
{
    const int64_t before_ns = base_now_ns();
    if (ddp->failed == BASE_OK && ddp->started_count == ddp->bucket_count) {
        (void)rank_graphs_do(ddp->graphs, &(rank_graph_work){.key = {{RANK_GRAPH_REDUCE}},
                                                             .queue = ddp->reduces,
                                                             .enqueue = enqueue_reduces,
                                                             .all = all_capture,
                                                             .user = ddp});
    }
    ddp->reducing = true;
    ddp->inside_ns += base_now_ns() - before_ns;
}

void rank_ddp_reduce(rank_ddp *ddp)
{
    if (on_device(ddp) && !ddp->bracketed) {
        reduce_on_device(ddp);
    }
}

void rank_ddp_ready(void *user, size_t offset, size_t count, rank_mark mark)
{
    rank_ddp *ddp = user;
    ddp->device.backend->after(ddp->device.queue, mark);
    BASE_ASSERT(ddp->micro_batch >= 0);
    BASE_ASSERT(offset <= ddp->param_count);
    BASE_ASSERT(count <= ddp->param_count - offset);
    merge_leaf(ddp, offset, count);
    if (!is_last(ddp)) {
        return;
    }
    for (size_t i = 0; i < ddp->bucket_count; i++) {
        bucket *part = &ddp->buckets[i];
        const size_t from = offset > part->offset ? offset : part->offset;
        const size_t to_range = offset + count;
        const size_t to_bucket = part->offset + part->count;
        const size_t to = to_range < to_bucket ? to_range : to_bucket;
        if (from < to) {
            BASE_ASSERT(part->missing >= to - from);
            part->missing -= to - from;
        }
    }
    if (on_device(ddp)) {
        signal_full_buckets(ddp);
    } else if (!ddp->bracketed) {
        start_full_buckets(ddp);
    }
}

/* On a device, calls only enqueue. How long its all-reduces took is what its own clock says. */
static void take_device_time(rank_ddp *ddp, rank_ddp_times *times)
{
    const uint64_t busy_ns = coll_device_busy_ns(ddp->comm);
    const int64_t device_ns = busy_ns > ddp->busy_ns ? (int64_t)(busy_ns - ddp->busy_ns) : 0;
    ddp->busy_ns = busy_ns;
    times->allreduce_ns =
        device_ns > times->allreduce_exposed_ns ? device_ns : times->allreduce_exposed_ns;
}

/* Waits for each bucket; on a device for the stream of all of them. */
static void wait_for_buckets(rank_ddp *ddp)
{
    coll_error error;
    if (ddp->failed == BASE_OK && on_device(ddp)) {
        keep_failure(ddp, coll_to_base(coll_device_wait(ddp->comm, stream_of(ddp), &error), &error,
                                       &ddp->error));
        if (ddp->failed == BASE_OK) { /* a stream that got nothing is idle, too */
            keep_failure(ddp, ddp->device.backend->sync(ddp->reduces, &ddp->error));
        }
        return;
    }
    for (size_t i = 0; ddp->failed == BASE_OK && i < ddp->bucket_count; i++) {
        keep_failure(ddp,
                     coll_to_base(coll_op_wait(ddp->buckets[i].op, &error), &error, &ddp->error));
    }
}

base_status rank_ddp_finish(rank_ddp *ddp, rank_ddp_times *times, base_error *reterr)
{
    coll_error error;
    if (ddp->failed == BASE_OK && ddp->bracketed) {
        keep_failure(ddp, coll_to_base(coll_barrier(ddp->comm, &error), &error, &ddp->error));
    }
    const int64_t before_ns = base_now_ns();
    const int64_t hidden_ns = ddp->inside_ns;
    if (!on_device(ddp)) {
        start_full_buckets(ddp);
    } else if (!ddp->reducing) {
        reduce_on_device(ddp);
    }
    if (ddp->failed == BASE_OK && ddp->started_count != ddp->bucket_count) {
        ddp->failed = base_fail(&ddp->error, BASE_ERR_STATE,
                                "backward left gradients of %zu of %zu buckets unset",
                                ddp->bucket_count - ddp->started_count, ddp->bucket_count);
    }
    wait_for_buckets(ddp);
    times->allreduce_exposed_ns = base_now_ns() - before_ns;
    times->allreduce_ns = hidden_ns + times->allreduce_exposed_ns;
    if (ddp->reduces != ddp->device.queue) {
        take_device_time(ddp, times);
    }
    BASE_ASSERT(times->allreduce_ns >= times->allreduce_exposed_ns);
    if (ddp->failed != BASE_OK && reterr != NULL) {
        *reterr = ddp->error;
    }
    return ddp->failed;
}

const float *rank_ddp_sums(const rank_ddp *ddp)
{
    return ddp->levels[0];
}

base_status rank_ddp_sum(rank_ddp *ddp, double *values, size_t count, base_error *reterr)
{
    coll_error error;
    return coll_to_base(
        coll_all_reduce(ddp->comm, values, values, count, COLL_FLOAT64, COLL_SUM, &error), &error,
        reterr);
}

base_status rank_ddp_compare(rank_ddp *ddp, const float *params, bool *byte_equal,
                             double *max_abs_difference, base_error *reterr)
{
    /* The sums are not needed any more, so their memory can take rank 0's parameters. */
    const rank_device *device = &ddp->device;
    float *reference = ddp->levels[0];
    if (rank_ddp_is_main(ddp)) {
        device->backend->copy(device->queue, reference, params, ddp->param_count * sizeof *params);
    }
    base_status status = broadcast(ddp, reference, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "comparing the parameters");
    }
    device->backend->difference(device->queue,
                                &(rank_difference){.a = params,
                                                   .b = reference,
                                                   .count = ddp->param_count,
                                                   .equal = &ddp->found->equal,
                                                   .largest = &ddp->found->largest_difference});
    status = device->backend->sync(device->queue, reterr);
    *byte_equal = ddp->found->equal;
    *max_abs_difference = ddp->found->largest_difference;
    return status;
}
