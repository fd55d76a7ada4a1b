/* rank_pipeline_plan says what rank_pipeline_create allocates: in every schedule, with tensor ranks, several pipelines and
 * shared micro-batches. Ranks are threads, each with a backend that counts. */
#include <string.h>

#include "parallel/context/cp.h"
#include "pipeline/pipeline.h"
#include "ranks.h"
#include "support.h"

typedef struct layout {
    int ranks;
    int stages;
    int tensor;
    int context_ranks;
    proto_pipeline_kind kind;
    int chunks;
    int micro_batches;
    bool recompute;
} layout;

static _Thread_local rank_memory_use counted;
static base_status (*cpu_alloc)(rank_queue *, rank_memory, size_t, void **, base_error *);

static base_status count_alloc(rank_queue *queue, rank_memory kind, size_t size_bytes,
                               void **memory, base_error *reterr)
{
    counted.bytes[kind] += size_bytes;
    return cpu_alloc(queue, kind, size_bytes, memory, reterr);
}

static void compare(test_rank *rank)
{
    const layout *l = rank->user;
    const rank_model_config config = {.family = rank_family_default(),
                                      .vocab_size = 512,
                                      .width = 64,
                                      .layers = 4,
                                      .heads = 4,
                                      .context = 32};
    coll_comm *world = coll_context_world(rank->context);
    rank_device device;
    RANK_OK(rank, rank_device_open("cpu", &device, &rank->failure));
    const rank_backend *cpu = device.backend;
    rank_backend counting = *cpu;
    counting.alloc = count_alloc;
    device.backend = &counting;
    rank_cp_group *cp = NULL;
    if (l->context_ranks > 1) {
        RANK_OK(rank, rank_cp_group_create(world, l->context_ranks, l->stages * l->tensor, 64, &cp,
                                           &rank->failure));
    }
    rank_pipeline_options options = {.context = NULL,
                                     .schedule = {.kind = l->kind,
                                                  .stages = l->stages,
                                                  .chunks = l->chunks,
                                                  .micro_batches = l->micro_batches},
                                     .tensor = l->tensor,
                                     .bucket_bytes = 4096,
                                     .device = &device,
                                     .config = &config,
                                     .token_count_max = 64,
                                     .recompute = l->recompute,
                                     .cp = cp};
    rank_memory_use planned = {{0}};
    rank_pipeline *pipeline = NULL;
    size_t held_count = 0;
    RANK_OK(rank, rank_pipeline_plan(&options, rank->rank, l->ranks, &held_count, &planned,
                                     &rank->failure));
    memset(&counted, 0, sizeof counted);
    options.context = rank->context;
    RANK_OK(rank, rank_pipeline_create(&options, &pipeline, &rank->failure));
    RANK_CHECK(rank, held_count == rank_pipeline_held(pipeline)->count);
    /* arenas are not the backend's, and what is the host's is never planned */
    static const rank_memory kinds[] = {RANK_MEMORY_WEIGHTS, RANK_MEMORY_ACTIVATIONS,
                                        RANK_MEMORY_WORK};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        RANK_CHECK(rank, planned.bytes[kinds[i]] == counted.bytes[kinds[i]]);
    }
    RANK_CHECK(rank, planned.bytes[RANK_MEMORY_ACTIVATIONS] > 0);
    RANK_CHECK(rank, (planned.bytes[RANK_MEMORY_EXCHANGED] > 0) == (l->ranks > l->tensor));
    rank_pipeline_destroy(pipeline);
    rank_cp_group_destroy(cp);
    device.backend = cpu;
    rank_device_close(&device);
}

static void the_plan_is_what_is_allocated(void **state)
{
    static const layout layouts[] = {
        {1, 1, 1, 1, PROTO_PIPELINE_GPIPE, 1, 1, false},
        {2, 2, 1, 1, PROTO_PIPELINE_GPIPE, 1, 4, false},
        {2, 2, 1, 1, PROTO_PIPELINE_1F1B, 1, 4, true},
        {2, 2, 1, 1, PROTO_PIPELINE_INTERLEAVED, 2, 4, false},
        {2, 2, 1, 1, PROTO_PIPELINE_ZB_H1, 1, 4, false},
        {2, 1, 2, 1, PROTO_PIPELINE_GPIPE, 1, 2, false},
        {4, 2, 2, 1, PROTO_PIPELINE_1F1B, 1, 3, false},
        {4, 2, 1, 1, PROTO_PIPELINE_1F1B, 1, 2, false},
        {4, 2, 1, 2, PROTO_PIPELINE_1F1B, 1, 2, false},
    };
    (void)state;
    rank_device device;
    base_error error;
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    cpu_alloc = device.backend->alloc;
    rank_device_close(&device);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        layout l = layouts[i];
        test_ranks_as_threads(
            &(test_ranks_options){.size = l.ranks, .transport = COLL_TRANSPORT_SHM, .user = &l},
            compare);
    }
}

/* As rank_pipeline_create does, and without a context. */
static void what_cannot_be_made_is_refused(void **state)
{
    const rank_model_config config = {.family = rank_family_default(),
                                      .vocab_size = 512,
                                      .width = 64,
                                      .layers = 2,
                                      .heads = 4,
                                      .context = 32};
    rank_device device;
    rank_memory_use use = {{0}};
    size_t held_count = 0;
    base_error error;
    (void)state;
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    const rank_pipeline_options options = {
        .schedule = {.kind = PROTO_PIPELINE_1F1B, .stages = 3, .chunks = 1, .micro_batches = 4},
        .tensor = 1,
        .device = &device,
        .config = &config,
        .token_count_max = 64};
    assert_int_equal(rank_pipeline_plan(&options, 0, 3, &held_count, &use, &error),
                     BASE_ERR_INVALID);
    assert_has(error.message, "2 layers are too few for 3 stages");
    rank_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plan_is_what_is_allocated),
        cmocka_unit_test(what_cannot_be_made_is_refused),
    };
    return cmocka_run_group_tests_name("rank-pipeline-plan", tests, NULL, NULL);
}
