/* Stage 1 of ZeRO in rank/ddp.h where ranks have different ranges of the array: which pieces each updates, and values
 * that go to shards and come back. Two groups of two ranks; ranges apart differ inside a group. */
#include <stdlib.h>
#include <string.h>

#include "rank/ddp.h"
#include "ranks.h"
#include "ringfence/coll_error.h"
#include "support.h"

enum { RANKS = 4, GROUP = 2, PARAMS = 40000, RANGES = 3 };

/* The first begins the array, the second is smaller than a piece, and the last ends it. */
static const rank_zero_range ranges[RANGES] = {{0, 9000}, {15000, 700}, {30000, 10000}};

static bool is_apart(size_t element)
{
    bool found = false;
    for (int i = 0; i < RANGES; i++) {
        found =
            found || (element >= ranges[i].offset && element < ranges[i].offset + ranges[i].count);
    }
    return found;
}

typedef struct shared_work {
    size_t bucket_bytes;
    uint8_t pieces[RANKS][PARAMS]; /* how many pieces of the rank have the element */
} shared_work;

static float value(int rank, size_t element)
{
    return (float)element + (is_apart(element) ? 0.5F * (float)(rank % GROUP) : 0.0F);
}

static void mark_pieces(test_rank *rank, const rank_ddp_options *options)
{
    shared_work *work = rank->user;
    const size_t count = rank_ddp_pieces(options, rank->rank, RANKS, NULL);
    rank_zero_range *pieces = calloc(count, sizeof *pieces);
    size_t sum = 0;
    size_t end = 0;
    RANK_CHECK(rank, pieces != NULL);
    RANK_CHECK(rank, rank_ddp_pieces(options, rank->rank, RANKS, pieces) == count);
    for (size_t i = 0; i < count; i++) {
        RANK_CHECK(rank, pieces[i].offset >= end);
        end = pieces[i].offset + pieces[i].count;
        sum += pieces[i].count;
        for (size_t at = pieces[i].offset; at < end; at++) {
            work->pieces[rank->rank][at]++;
        }
    }
    RANK_CHECK(rank, sum == rank_ddp_shard_count(options, rank->rank, RANKS));
    free(pieces);
}

/* Values of the first group go to the shards of all, and from there back to the first group. */
static void there_and_back(test_rank *rank, const rank_ddp_options *options)
{
    const bool first = rank->rank < GROUP;
    rank_ddp *ddp = NULL;
    float *params = calloc(PARAMS, sizeof *params);
    float *back = first ? calloc(PARAMS, sizeof *back) : NULL;
    float *shard = calloc(PARAMS, sizeof *shard);
    RANK_CHECK(rank, params != NULL && shard != NULL && (back != NULL || !first));
    for (size_t i = 0; first && i < PARAMS; i++) {
        params[i] = value(rank->rank, i);
    }
    RANK_OK(rank, rank_ddp_wrap(coll_context_world(rank->context), options, params, &ddp,
                                &rank->failure));
    RANK_OK(rank, rank_ddp_spread(ddp, first ? params : NULL, shard, "values", &rank->failure));
    RANK_OK(rank, rank_ddp_collect(ddp, shard, back, &rank->failure));
    for (size_t i = 0; i < PARAMS; i++) {
        RANK_CHECK(rank, params[i] == value(rank->rank, i));
        RANK_CHECK(rank, !first || back[i] == params[i]);
    }
    rank_ddp_destroy(ddp);
    free(params);
    free(back);
    free(shard);
}

static void body(test_rank *rank)
{
    const shared_work *work = rank->user;
    coll_comm *world = coll_context_world(rank->context);
    coll_comm *members = NULL;
    coll_comm *copies = NULL;
    rank_device device;
    RANK_OK(rank, rank_device_open("cpu", &device, &rank->failure));
    RANK_OK(rank, (base_status)coll_comm_split(world, rank->rank / GROUP, rank->rank, &members,
                                               coll_error_of(&rank->failure)));
    RANK_OK(rank, (base_status)coll_comm_split(world, rank->rank % GROUP, rank->rank, &copies,
                                               coll_error_of(&rank->failure)));
    const rank_ddp_options options = {
        .device = &device,
        .param_count = PARAMS,
        .bucket_bytes = work->bucket_bytes,
        .micro_batches = 1,
        .zero = RANK_DDP_ZERO_MOMENTS,
        .ranks_first = true,
        .apart = {.ranges = ranges, .range_count = RANGES, .copies = copies, .members = members}};
    mark_pieces(rank, &options);
    there_and_back(rank, &options);
    coll_comm_destroy(copies);
    coll_comm_destroy(members);
    rank_device_close(&device);
}

static void each_value_is_updated_once(void **state)
{
    (void)state;
    static const size_t bucket_bytes[] = {4096, 50000, 1 << 20};
    static shared_work work;
    for (size_t i = 0; i < sizeof bucket_bytes / sizeof *bucket_bytes; i++) {
        memset(&work, 0, sizeof work);
        work.bucket_bytes = bucket_bytes[i];
        test_ranks_as_threads(
            &(test_ranks_options){.size = RANKS, .transport = COLL_TRANSPORT_SHM, .user = &work},
            body);
        for (size_t at = 0; at < PARAMS; at++) {
            for (int rank = 0; rank < GROUP; rank++) {
                const int copies = work.pieces[rank][at] + work.pieces[rank + GROUP][at];
                const int others = work.pieces[1 - rank][at] + work.pieces[1 - rank + GROUP][at];
                assert_int_equal(is_apart(at) ? copies : copies + others, 1);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_value_is_updated_once),
    };
    return cmocka_run_group_tests_name("rank-parallel-apart-shards", tests, NULL, NULL);
}
