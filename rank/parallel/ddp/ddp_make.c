/* Makes and frees what data-parallel training works on: the buffers of gradients, and a bucket's
 * operations. Called by train/prepare.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/limits.h"
#include "coll/backend.h"
#include "parallel/ddp/ddp_parts.h"
#include "ringfence/coll_error.h"

/* Lists the buckets' algorithms, each once. */
static void name_algorithms(rank_ddp *ddp)
{
    bool named[COLL_ALGORITHM_NATIVE + 1] = {false};
    size_t length = 0;
    for (size_t i = 0; i < ddp->bucket_count; i++) {
        const coll_algorithm algorithm = coll_op_algorithm(ddp->buckets[i].op.op);
        if (!named[algorithm] && length < sizeof ddp->algorithm) {
            named[algorithm] = true;
            length +=
                (size_t)snprintf(ddp->algorithm + length, sizeof ddp->algorithm - length, "%s%s",
                                 length > 0 ? "+" : "", coll_algorithm_name(algorithm));
        }
    }
}

/* The operation of a bucket: an all-reduce, or with ZeRO the reduce-scatter of a unit. Both are in
 * place. */
static base_status make_op(rank_ddp *ddp, rank_ddp_bucket *made, coll_algorithm algorithm,
                           base_error *reterr)
{
    size_t counts[BASE_COLL_RANKS_MAX];
    float *at = ddp->levels[0] + made->offset;
    coll_op_desc desc = {
        .size = sizeof(coll_op_desc),
        .kind = COLL_ALL_REDUCE,
        .send = at,
        .recv = at,
        .count = made->count,
        .type = COLL_FLOAT32,
        .reduce = COLL_SUM,
        .algorithm = algorithm,
        .stream = rank_ddp_stream(ddp),
    };
    if (rank_ddp_is_sharded(ddp)) {
        const rank_ddp_unit unit = rank_ddp_unit_of(&ddp->shards.units, made->offset);
        rank_ddp_piece_counts(&unit, counts);
        desc.kind = COLL_REDUCE_SCATTER;
        desc.recv = ddp->levels[0] + unit.mine.offset;
        desc.counts = counts;
    }
    return (base_status)coll_op_create(made->comm, &desc, &made->op.op, coll_error_of(reterr));
}

/* What a trace says of the operation of bucket `index`. Nobody has a sum before all have begun it. */
static rank_trace_span describe(const rank_ddp *ddp, const rank_ddp_bucket *made, size_t index)
{
    const bool scatters = rank_ddp_is_sharded(ddp);
    const bool all = !scatters && made->comm == ddp->comm;
    return (rank_trace_span){.kind = scatters ? RANK_TRACE_SCATTER : RANK_TRACE_REDUCE,
                             .of =
                                 (uint8_t)(RANK_TRACE_EXCHANGE | (all ? RANK_TRACE_ALL_RANKS : 0)),
                             .index = (int32_t)index,
                             .bytes = made->count * sizeof(float),
                             .detail = (uint8_t)(1 + coll_op_algorithm(made->op.op))};
}

/* Where the bucket before `end` begins: in what the same ranks have. Those of ZeRO are counted from the start of
 * that. */
static size_t begin_of(const rank_ddp *ddp, size_t end)
{
    const size_t elements = ddp->bucket_elements;
    if (rank_ddp_is_sharded(ddp)) {
        return rank_ddp_unit_of(&ddp->shards.units, end - 1).all.offset;
    }
    const size_t wished = end < elements ? 0 : end - elements;
    return base_max_size(wished, rank_ddp_stretch_of(&ddp->apart, ddp->comm, end - 1).offset);
}

static size_t count_buckets(const rank_ddp *ddp)
{
    size_t count = 0;
    for (size_t end = ddp->param_count; end > 0; end = begin_of(ddp, end)) {
        count++;
    }
    return count;
}

static base_status make_buckets(rank_ddp *ddp, coll_algorithm algorithm, base_error *reterr)
{
    ddp->bucket_count = count_buckets(ddp);
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
        rank_ddp_bucket *made = &ddp->buckets[i];
        made->offset = begin_of(ddp, end);
        made->count = end - made->offset;
        made->comm = rank_ddp_stretch_of(&ddp->apart, ddp->comm, made->offset).comm;
        end = made->offset;
        base_status status = make_op(ddp, made, algorithm, reterr);
        if (status == BASE_OK) {
            made->op.under_way = describe(ddp, made, i);
        }
        if (status == BASE_OK && rank_ddp_on_device(ddp)) {
            status = ddp->device.backend->signal_open(ddp->reduces, false, &made->full, reterr);
        }
        if (status != BASE_OK) {
            return status;
        }
    }
    BASE_ASSERT(end == 0); /* the buckets cover the whole array */
    name_algorithms(ddp);
    return BASE_OK;
}

/* An arena, so that peers read each other's gradients directly. */
static base_status make_arena(rank_ddp *ddp, size_t size_bytes, base_error *reterr)
{
    ddp->reduces = ddp->device.queue;
    const base_status status =
        (base_status)coll_arena_create(ddp->comm, size_bytes, &ddp->arena, coll_error_of(reterr));
    ddp->levels[0] = status == BASE_OK ? coll_arena_data(ddp->arena) : NULL;
    return status;
}

/* Memory that all-reduces work on. */
static base_status make_exchanged(rank_ddp *ddp, size_t size_bytes, base_error *reterr)
{
    const rank_device *device = &ddp->device;
    const bool on_device = device->backend->stream(device->queue) != NULL;
    const base_status status = on_device ? rank_ddp_open_device(ddp, size_bytes, reterr)
                                         : make_arena(ddp, size_bytes, reterr);
    return status == BASE_OK
               ? device->backend->adopt(device->queue, ddp->levels[0], size_bytes, reterr)
               : status;
}

void rank_ddp_plan(const rank_ddp_options *options, int rank, int ranks, rank_memory_use *use)
{
    const size_t size_bytes = options->param_count * sizeof(float);
    const size_t levels = (size_t)rank_leaf_plan_levels(options->micro_batches);
    use->bytes[RANK_MEMORY_QUEUES] += options->device->backend->queue_bytes;
    if (options->zero < RANK_DDP_ZERO_GRADIENTS) {
        use->bytes[RANK_MEMORY_EXCHANGED] += size_bytes;
        use->bytes[RANK_MEMORY_WORK] += (levels - 1) * size_bytes;
        return;
    }
    const rank_zero_cut cut = rank_ddp_cut(options, ranks);
    const size_t shard_bytes = rank_zero_shard(&cut, rank) * sizeof(float);
    use->bytes[RANK_MEMORY_EXCHANGED] += rank_ddp_plan_used(options, &cut);
    use->bytes[RANK_MEMORY_WORK] += levels * shard_bytes;
    if (options->zero == RANK_DDP_ZERO_PARAMETERS) {
        use->bytes[RANK_MEMORY_WEIGHTS] += shard_bytes + rank_ddp_plan_window(options, &cut);
    }
}

static base_status make_levels(rank_ddp *ddp, base_error *reterr)
{
    const size_t size_bytes = ddp->param_count * sizeof(float);
    const rank_device *device = &ddp->device;
    base_status given = make_exchanged(ddp, size_bytes, reterr);
    if (given != BASE_OK) {
        return base_error_prepend(reterr, given, "memory for gradients");
    }
    const int levels =
        rank_ddp_shards_gradients(ddp) ? 1 : rank_leaf_plan_levels(ddp->micro_batches);
    for (int level = 1; given == BASE_OK && level < levels; level++) {
        void *memory = NULL;
        given =
            device->backend->alloc(device->queue, RANK_MEMORY_WORK, size_bytes, &memory, reterr);
        ddp->levels[level] = memory;
        ddp->waiting_bytes += given == BASE_OK ? size_bytes : 0;
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

size_t rank_ddp_wished_elements(const rank_ddp_options *options)
{
    return options->bracketed ? options->param_count : options->bucket_bytes / sizeof(float);
}

/* Of `direct`, a piece from each rank, and their sum. An operation that is made has as many bytes as it moves
 * once more: a slice of a broadcast, or a bucket. */
uint64_t rank_ddp_plan_collectives(const rank_ddp_options *options, int ranks)
{
    const uint64_t size_bytes = options->param_count * sizeof(float);
    const uint64_t wished = rank_ddp_wished_elements(options) * sizeof(float);
    const uint64_t bucket = wished < size_bytes ? wished : size_bytes;
    const uint64_t most = bucket > RANK_DDP_SLICE_BYTES ? bucket : (uint64_t)RANK_DDP_SLICE_BYTES;
    const bool pieces = options->algorithm != COLL_ALGORITHM_NATIVE;
    return ranks == 1 ? 0 : most + (pieces ? size_bytes + size_bytes / (uint64_t)ranks : 0);
}

rank_zero_cut rank_ddp_cut(const rank_ddp_options *options, int ranks)
{
    return rank_zero_cut_make(options->param_count, rank_ddp_wished_elements(options), ranks);
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

/* Gives all ranks rank 0's parameters, or their shards of them, and notes the digest of all. */
static base_status share_params(rank_ddp *made, float *params, base_error *reterr)
{
    const rank_device *device = &made->device;
    base_status status = BASE_OK;
    if (made->shards.stage != RANK_DDP_ZERO_PARAMETERS) {
        status = rank_ddp_share(made, params, made->param_count, "parameters", reterr);
        memcpy(made->initial_digest, made->found->digest, sizeof made->initial_digest);
        return status;
    }
    status = rank_ddp_spread(made, params, rank_ddp_shard(made), "parameters", reterr);
    if (status == BASE_OK && params != NULL) {
        device->backend->digest(device->queue,
                                &(rank_digest){.at = params,
                                               .size_bytes = made->param_count * sizeof *params,
                                               .digest = made->initial_digest});
        status = device->backend->sync(device->queue, reterr);
    }
    return status == BASE_OK
               ? (base_status)coll_broadcast(made->comm, made->initial_digest, RANK_DIGEST_BYTES,
                                             COLL_UINT8, 0, coll_error_of(reterr))
               : status;
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
    made->bucket_elements = rank_ddp_wished_elements(options);
    if (options->zero > 0) {
        made->shards.stage = options->zero;
        made->shards.cut = rank_ddp_cut(options, coll_comm_size(comm));
        made->bucket_elements = made->shards.cut.unit_elements;
    }
    made->micro_batches = options->micro_batches;
    made->bracketed = options->bracketed;
    made->local = options->local;
    made->ranks_first = options->ranks_first;
    made->graphs = options->graphs;
    made->trace = options->trace;
    status = make_levels(made, reterr);
    BASE_ASSERT(!made->local || (!rank_ddp_on_device(made) && options->zero == 0));
    if (status == BASE_OK) {
        status = rank_ddp_make_apart(made, options, reterr);
        made->shards.units =
            rank_ddp_units_make(options, coll_comm_rank(comm), coll_comm_size(comm));
        made->shards.units.comm = comm;
        made->shards.units.apart = made->apart;
    }
    if (status == BASE_OK) {
        status = make_buckets(made, options->algorithm, reterr);
    }
    if (status == BASE_OK && rank_ddp_is_sharded(made)) {
        status = rank_ddp_make_shards(made, options, params, reterr);
    }
    if (status == BASE_OK) {
        status = share_params(made, params, reterr);
    }
    if (status != BASE_OK) {
        rank_ddp_destroy(made);
        return status;
    }
    *ddp = made;
    return BASE_OK;
}

void rank_ddp_memory(const rank_ddp *ddp, rank_memory_use *use)
{
    const rank_ddp_shards *shards = &ddp->shards;
    use->bytes[RANK_MEMORY_WORK] += ddp->waiting_bytes;
    if (ddp->arena != NULL) {
        use->bytes[RANK_MEMORY_EXCHANGED] += rank_ddp_shards_gradients(ddp)
                                                 ? shards->used_bytes_max
                                                 : coll_arena_size_bytes(ddp->arena);
    }
    if (shards->stage == RANK_DDP_ZERO_PARAMETERS) {
        use->bytes[RANK_MEMORY_WEIGHTS] +=
            rank_zero_shard(&shards->cut, coll_comm_rank(ddp->comm)) * sizeof(float) +
            ddp->window.used_bytes_max;
    }
}

void rank_ddp_destroy(rank_ddp *ddp)
{
    if (ddp == NULL) {
        return;
    }
    for (size_t i = 0; ddp->buckets != NULL && i < ddp->bucket_count; i++) {
        coll_op_destroy(ddp->buckets[i].op.op);
        if (ddp->buckets[i].full != NULL) {
            ddp->device.backend->signal_close(ddp->buckets[i].full);
        }
    }
    free(ddp->buckets);
    rank_ddp_free_shards(ddp);
    rank_ddp_free_apart(ddp);
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
    rank_ddp_close_device(ddp);
    free(ddp);
}

const char *rank_ddp_algorithm(const rank_ddp *ddp)
{
    return ddp->algorithm;
}

const uint8_t *rank_ddp_initial_digest(const rank_ddp *ddp)
{
    return ddp->initial_digest;
}
