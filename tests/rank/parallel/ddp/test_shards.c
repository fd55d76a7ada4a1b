/* Stages 2 and 3 of ZeRO in rank/ddp.h, with a model that is only numbers: what passes gather, what they
 * sum, and how much memory that takes. Some ranks ask for nothing, as those without a batch do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rank/ddp.h"
#include "ranks.h"
#include "slot_gradient.h"
#include "support.h"

enum {
    EMBEDDINGS = 20011,
    TIED = 18000, /* of them the output's matrix */
    LAYER = 13007,
    LAYERS = 5,
    PARTS = LAYERS + 2,
    BIAS = 64,     /* of the layer below, which a layer reads too */
    FINAL = 25013, /* the last part is large too: its gradients come with the last layer's */
    PARAMS = EMBEDDINGS + LAYERS * LAYER + FINAL,
    STEPS = 3,
    RANKS_MAX = 4,
};

typedef struct shape {
    int stage;
    int micro_batches;
    size_t bucket_bytes;
    int idle_rank; /* asks for nothing; -1: none */
} shape;

static size_t layer_begin(int layer)
{
    return EMBEDDINGS + (size_t)layer * LAYER;
}

static void make_parts(rank_ddp_part parts[PARTS])
{
    memset(parts, 0, PARTS * sizeof *parts);
    parts[0].ranges[0] = (rank_zero_range){.count = EMBEDDINGS};
    for (int layer = 0; layer <= LAYERS; layer++) {
        const size_t begin = layer_begin(layer) - (layer > 0 ? BIAS : 0);
        const size_t end = layer < LAYERS ? layer_begin(layer + 1) : PARAMS;
        parts[layer + 1].ranges[0] = (rank_zero_range){.offset = begin, .count = end - begin};
    }
    parts[PARTS - 1].ranges[1] = (rank_zero_range){.count = TIED};
}

static float value(int step, size_t index)
{
    return (float)step * 0.5F + (float)(index % 9973);
}

typedef struct pass {
    test_rank *rank;
    rank_ddp *ddp;
    int step;
    bool asks;
} pass;

static void read_range(const pass *p, size_t offset, size_t count)
{
    if (p->asks) {
        const float *at = rank_ddp_need(p->ddp, offset, count);
        for (size_t i = 0; i < count; i++) {
            RANK_CHECK(p->rank, at[i] == value(p->step, offset + i));
        }
    }
}

static void forward(const pass *p)
{
    read_range(p, 0, TIED);
    read_range(p, TIED, EMBEDDINGS - TIED);
    for (int layer = 0; layer < LAYERS; layer++) {
        read_range(p, layer_begin(layer), 0);
        read_range(p, layer_begin(layer), LAYER / 2);
        read_range(p, layer_begin(layer) + LAYER / 2, LAYER - LAYER / 2);
        if (layer > 0) {
            read_range(p, layer_begin(layer) - BIAS, BIAS);
        }
    }
    read_range(p, layer_begin(LAYERS), FINAL);
    read_range(p, layer_begin(LAYERS) - BIAS, BIAS);
}

static void write_range(const pass *p, float *grads, int slot, size_t offset, size_t count)
{
    for (size_t i = offset; i < offset + count; i++) {
        grads[i] = slot_gradient(slot, p->step, i);
    }
}

static void backward(const pass *p, float *grads, int slot)
{
    rank_ddp_pass(p->ddp, false);
    read_range(p, 0, TIED);
    read_range(p, layer_begin(LAYERS), FINAL);
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        const size_t end = layer + 1 < LAYERS ? layer_begin(layer + 1) : PARAMS;
        const size_t count = end - layer_begin(layer);
        read_range(p, layer_begin(layer), LAYER);
        write_range(p, grads, slot, layer_begin(layer), count);
        rank_ddp_ready(p->ddp, layer_begin(layer), count, (rank_mark){0});
        read_range(p, layer_begin(layer), LAYER); /* still there */
    }
    write_range(p, grads, slot, 0, EMBEDDINGS);
    rank_ddp_ready(p->ddp, 0, EMBEDDINGS, (rank_mark){0});
}

/* The sums of this rank's shard are the canonical ones of all slots. */
static void check_sums(const pass *p, const rank_zero_cut *cut, int slots)
{
    const float *sums = rank_ddp_sums(p->ddp);
    for (size_t unit = 0; unit < rank_zero_units(cut); unit++) {
        const rank_zero_range piece = rank_zero_piece(cut, unit, p->rank->rank);
        const float *at = sums + rank_zero_place(cut, unit, p->rank->rank);
        for (size_t i = 0; i < piece.count; i += 7) {
            const float expected = slot_gradient_sum(0, slots, p->step, piece.offset + i);
            RANK_CHECK(p->rank, memcmp(&at[i], &expected, sizeof expected) == 0);
        }
    }
}

/* The update: every parameter of the shard gets the next step's value. */
static void update_shard(const pass *p, const rank_zero_cut *cut)
{
    float *shard = rank_ddp_shard(p->ddp);
    for (size_t unit = 0; unit < rank_zero_units(cut); unit++) {
        const rank_zero_range piece = rank_zero_piece(cut, unit, p->rank->rank);
        float *at = shard + rank_zero_place(cut, unit, p->rank->rank);
        for (size_t i = 0; i < piece.count; i++) {
            RANK_CHECK(p->rank, at[i] == value(p->step, piece.offset + i));
            at[i] = value(p->step + 1, piece.offset + i);
        }
    }
}

static void run_step(const pass *p, const shape *job, const rank_zero_cut *cut)
{
    const int ranks = cut->ranks;
    rank_ddp_times times;
    rank_ddp_begin(p->ddp);
    for (int m = 0; m < job->micro_batches; m++) {
        float *grads = rank_ddp_grads(p->ddp, m);
        if (job->stage == RANK_DDP_ZERO_PARAMETERS) {
            forward(p);
        }
        backward(p, grads, m * ranks + p->rank->rank);
    }
    RANK_OK(p->rank, rank_ddp_finish(p->ddp, &times, &p->rank->failure));
    RANK_CHECK(p->rank, times.allreduce_ns >= times.allreduce_exposed_ns);
    RANK_CHECK(p->rank, times.allreduce_exposed_ns >= times.waited_ns);
    if ((ranks & (ranks - 1)) == 0 || job->micro_batches == 1) {
        check_sums(p, cut, ranks * job->micro_batches);
    }
    if (job->stage == RANK_DDP_ZERO_PARAMETERS) {
        update_shard(p, cut);
    }
}

/* No more was in use than the plan says, and of gradients and parameters less than all of them. */
static void check_memory(test_rank *rank, const rank_ddp *ddp, const rank_ddp_options *options,
                         int ranks)
{
    rank_memory_use planned = {{0}};
    rank_memory_use used = {{0}};
    rank_ddp_plan(options, rank->rank, ranks, &planned);
    rank_ddp_memory(ddp, &used);
    RANK_CHECK(rank, used.bytes[RANK_MEMORY_WORK] == planned.bytes[RANK_MEMORY_WORK]);
    RANK_CHECK(rank, used.bytes[RANK_MEMORY_WEIGHTS] == planned.bytes[RANK_MEMORY_WEIGHTS]);
    RANK_CHECK(rank, used.bytes[RANK_MEMORY_EXCHANGED] > 0);
    RANK_CHECK(rank, used.bytes[RANK_MEMORY_EXCHANGED] <= planned.bytes[RANK_MEMORY_EXCHANGED]);
    if (options->bucket_bytes < 8192 && ranks > 1) {
        const size_t all = PARAMS * sizeof(float);
        RANK_CHECK(rank, used.bytes[RANK_MEMORY_WEIGHTS] < all + all / 4);
        RANK_CHECK(rank, used.bytes[RANK_MEMORY_EXCHANGED] < all);
    }
}

static void run_job(test_rank *rank)
{
    const shape *job = rank->user;
    rank_ddp *ddp = NULL;
    rank_device device;
    rank_ddp_part parts[PARTS];
    double sum = 0.0;
    coll_comm *world = coll_context_world(rank->context);
    const int ranks = coll_comm_size(world);
    make_parts(parts);
    RANK_OK(rank, rank_device_open("cpu", &device, &rank->failure));
    const bool cut_params = job->stage == RANK_DDP_ZERO_PARAMETERS;
    float *params = cut_params && rank->rank != 0 ? NULL : malloc(PARAMS * sizeof *params);
    for (size_t i = 0; params != NULL && i < PARAMS; i++) {
        params[i] = rank->rank == 0 ? value(0, i) : -1.0F;
    }
    const rank_ddp_options options = {.device = &device,
                                      .param_count = PARAMS,
                                      .bucket_bytes = job->bucket_bytes,
                                      .micro_batches = job->micro_batches,
                                      .zero = job->stage,
                                      .parts = parts,
                                      .part_count = PARTS};
    RANK_OK(rank, rank_ddp_wrap(world, &options, params, &ddp, &rank->failure));
    const rank_zero_cut cut = rank_ddp_cut(&options, ranks);
    pass p = {.rank = rank, .ddp = ddp, .asks = cut_params && rank->rank != job->idle_rank};
    for (p.step = 0; p.step < STEPS; p.step++) {
        run_step(&p, job, &cut);
    }
    RANK_OK(rank, rank_ddp_sum_squares(ddp, &sum, &rank->failure));
    RANK_CHECK(rank, sum > 0.0);
    check_memory(rank, ddp, &options, ranks);
    rank_ddp_destroy(ddp);
    rank_device_close(&device);
    free(params);
}

static void run(int ranks, coll_transport transport, shape job)
{
    test_ranks_as_threads(
        &(test_ranks_options){.size = ranks, .transport = transport, .user = &job}, run_job);
}

static void passes_have_what_they_read(void **state)
{
    static const size_t bucket_bytes[] = {4096, 50000, 1 << 20};
    (void)state;
    for (int stage = RANK_DDP_ZERO_GRADIENTS; stage <= RANK_DDP_ZERO_PARAMETERS; stage++) {
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
            for (size_t i = 0; i < sizeof bucket_bytes / sizeof *bucket_bytes; i++) {
                run(ranks, COLL_TRANSPORT_SHM, (shape){stage, 1 + (int)i, bucket_bytes[i], -1});
            }
        }
    }
}

/* Whichever rank asks for nothing, operations of all ranks come in the same order. */
static void an_idle_rank_takes_part(void **state)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    (void)state;
    for (size_t t = 0; t < sizeof transports / sizeof *transports; t++) {
        for (int idle = 0; idle < 3; idle++) {
            run(3, transports[t], (shape){RANK_DDP_ZERO_PARAMETERS, 2, 8192, idle});
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_have_what_they_read),
        cmocka_unit_test(an_idle_rank_takes_part),
    };
    return cmocka_run_group_tests_name("rank-parallel-shards", tests, NULL, NULL);
}
