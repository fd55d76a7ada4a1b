/* proto/job.h: where a job's ranks are, what they share, and which GPU each has. */
#include "proto/job.h"

#include <stdio.h>
#include <string.h>

#include "job_set.h"
#include "support.h"

static proto_job job_of_stages(int ranks, int stages, int tensor)
{
    proto_job job;
    proto_job_defaults(&job);
    job.job.mode = PROTO_MODE_PP_CPU;
    job.job.world_size = ranks;
    job.parallel.stages = stages;
    job.parallel.tensor = tensor;
    return job;
}

/* Ranks in a row share a stage, then come the other stages of their pipeline. */
static void each_rank_has_a_place(void **state)
{
    (void)state;
    base_error error;
    const proto_job job = job_of_stages(8, 2, 2);
    assert_ok(proto_job_check(&job, &error), &error);
    assert_int_equal(proto_job_replicas(&job), 2);
    for (int rank = 0; rank < 8; rank++) {
        const proto_place place = proto_job_place(&job, rank);
        assert_int_equal(place.part, rank % 2);
        assert_int_equal(place.stage, rank / 2 % 2);
        assert_int_equal(place.replica, rank / 4);
    }
    const proto_job one = job_of_stages(8, 0, 4);
    assert_ok(proto_job_check(&one, &error), &error);
    assert_int_equal(proto_job_stages(&one), 2);
    assert_int_equal(proto_job_replicas(&one), 1);
    assert_int_equal(proto_job_place(&one, 7).stage, 1);
    assert_int_equal(proto_job_place(&one, 7).part, 3);
}

/* What has one chunk on each stage is not interleaved. */
static void the_schedule_of_a_job(void **state)
{
    static const struct {
        int ranks, stages, chunks;
        proto_pipeline schedule;
    } cases[] = {
        {4, 2, 0, {PROTO_PIPELINE_INTERLEAVED, 2, 2, 6}},
        {2, 0, 4, {PROTO_PIPELINE_INTERLEAVED, 2, 4, 6}},
        {3, 0, 2, {PROTO_PIPELINE_INTERLEAVED, 3, 2, 6}},
        {2, 0, 1, {PROTO_PIPELINE_1F1B, 2, 1, 6}},
        {2, 1, 4, {PROTO_PIPELINE_1F1B, 1, 1, 6}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error;
        proto_job job = job_of_stages(cases[i].ranks, cases[i].stages, 0);
        job.model.layers = 8;
        job.train.micro_batches = 6;
        job.parallel.pipeline = PROTO_PIPELINE_INTERLEAVED;
        job.parallel.chunks = cases[i].chunks;
        assert_ok(proto_job_check(&job, &error), &error);
        const proto_pipeline made = proto_job_pipeline(&job);
        assert_int_equal(made.kind, cases[i].schedule.kind);
        assert_int_equal(made.stages, cases[i].schedule.stages);
        assert_int_equal(made.chunks, cases[i].schedule.chunks);
        assert_int_equal(made.micro_batches, cases[i].schedule.micro_batches);
    }
    base_error error;
    proto_job job = job_of_stages(4, 0, 0);
    job.model.layers = 8;
    job.train.micro_batches = 6;
    job.parallel.pipeline = PROTO_PIPELINE_INTERLEAVED;
    assert_status(proto_job_check(&job, &error), BASE_ERR_INVALID);
    assert_has(error.message, "train.micro_batches 6 must be a multiple of the 4 stages");
    job.train.micro_batches = 8;
    job.parallel.chunks = 3;
    assert_status(proto_job_check(&job, &error), BASE_ERR_INVALID);
    assert_has(error.message, "parallel.chunks 3: each chunk of the 4 stages has a layer at least");
    job.parallel.pipeline = PROTO_PIPELINE_GPIPE;
    assert_status(proto_job_check(&job, &error), BASE_ERR_INVALID);
    assert_has(error.message, "parallel.chunks 3 goes with parallel.pipeline interleaved");
    job.parallel.pipeline = PROTO_PIPELINE_ZB_H1;
    job.parallel.chunks = 0;
    assert_ok(proto_job_check(&job, &error), &error);
    assert_int_equal(proto_job_pipeline(&job).kind, PROTO_PIPELINE_ZB_H1);
    job.train.recompute = true;
    assert_status(proto_job_check(&job, &error), BASE_ERR_INVALID);
    assert_has(error.message, "parallel.pipeline zb-h1 does not go with train.recompute");
    job.train.recompute = false;
    job.parallel.context_ranks = 2;
    job.parallel.stages = 2;
    job.train.dropout = 0.1;
    assert_ok(proto_job_check(&job, &error), &error);
    job.parallel.stages = 1; /* a stage that is alone waits for nobody */
    assert_ok(proto_job_check(&job, &error), &error);
    assert_int_equal(proto_job_pipeline(&job).kind, PROTO_PIPELINE_1F1B);
}

/* A default model has 4 heads, a width of 128 and 512 tokens. */
static void ranks_share_what_can_be_cut(void **state)
{
    static const struct {
        int ranks, stages, tensor;
        int width, heads, vocab_size; /* 0: as it is */
        const char *message;          /* NULL: it can be cut */
    } cases[] = {
        {2, 0, 2, 0, 0, 0, NULL},
        {4, 1, 4, 0, 0, 0, NULL},
        {16, 1, 16, 256, 16, 0, NULL},
        {2, 1, 1, 127, 1, 0, NULL}, /* nothing is cut */
        {3, 0, 3, 0, 0, 0, "parallel.tensor 3: must be 1, 2, 4, 8 or 16"},
        {17, 0, 17, 0, 0, 0, "parallel.tensor: 17: must be a whole number from 0 to 16"},
        {8, 1, 8, 0, 0, 0,
         "parallel.tensor 8: a model of 4 heads cannot be cut between 8 ranks; it can between "
         "1, 2, 4"},
        {8, 1, 8, 80, 8, 0,
         "parallel.tensor 8: a model of width 80, whose MLP is cut by 16 columns, cannot be cut "
         "between 8 ranks; it can between "
         "1, 2, 4"},
        {2, 1, 2, 90, 2, 0,
         "parallel.tensor 2: a model of width 90, whose MLP is cut by 16 columns, cannot be cut "
         "between 2 ranks; it can between 1"},
        {4, 1, 4, 0, 0, 384,
         "parallel.tensor 4: a vocabulary of 384 tokens cannot be cut between 4 ranks; it can "
         "between 1, 2"},
        {6, 0, 4, 0, 0, 0, "parallel.tensor 4 does not divide job.world_size 6"},
        {8, 3, 2, 0, 0, 0,
         "parallel.stages 3 times parallel.tensor does not divide job.world_size 8"},
        {8, 0, 2, 0, 0, 0, "job.world_size / parallel.tensor 4: each stage has a layer at least"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {.message = ""};
        proto_job job = job_of_stages(cases[i].ranks, cases[i].stages, cases[i].tensor);
        job.model.width = cases[i].width > 0 ? cases[i].width : job.model.width;
        job.model.heads = cases[i].heads > 0 ? cases[i].heads : job.model.heads;
        job.model.vocab_size = cases[i].vocab_size > 0 ? cases[i].vocab_size : job.model.vocab_size;
        const base_status status = proto_job_check(&job, &error);
        if (status != (cases[i].message == NULL ? BASE_OK : BASE_ERR_INVALID) ||
            (cases[i].message != NULL && strstr(error.message, cases[i].message) == NULL)) {
            fail_msg("case %zu: %s", i, error.message);
        }
    }
}

/* Each rank has an id at least. Of 16 leaves of 32 ids the last four begin at 384. */
static void each_rank_has_a_part_of_the_vocabulary(void **state)
{
    (void)state;
    for (int vocab_size = 2; vocab_size <= 600; vocab_size++) {
        base_error error = {.message = ""};
        proto_job job = job_of_stages(4, 1, 4);
        job.model.vocab_size = vocab_size;
        const int leaf = vocab_size <= 512 ? 32 : 64;
        const bool fits = vocab_size > 12 * leaf;
        assert_status(proto_job_check(&job, &error), fits ? BASE_OK : BASE_ERR_INVALID);
    }
    base_error error = {.message = ""};
    proto_job job = job_of_stages(4, 1, 4);
    job.model.vocab_size = 384;
    /* of a checkpoint's model only the rank knows what its heads and its MLP are */
    (void)snprintf(job.model.checkpoint, sizeof job.model.checkpoint, "/models/some");
    job.model.heads = 3;
    assert_status(proto_job_check(&job, &error), BASE_ERR_INVALID);
    assert_has(error.message, "parallel.tensor 4: a vocabulary of 384 tokens cannot be cut between "
                              "4 ranks; it can between 1, 2");
    job.model.vocab_size = 385;
    assert_ok(proto_job_check(&job, &error), &error);
}

static void expect_gpu_job(const char *key, const char *value, base_status expected)
{
    base_error error = {.message = ""};
    proto_job job;
    proto_job_defaults(&job);
    job.job.mode = PROTO_MODE_DDP_NCCL;
    assert_ok(test_job_set(&job, key, value, &error), &error);
    if (proto_job_check(&job, &error) != expected) {
        fail_msg("%s %s: %s", key, value, error.message);
    }
    job.job.mode = PROTO_MODE_DDP_CPU; /* which has no GPUs */
    const bool of_both = strcmp(value, "direct") == 0 || strcmp(value, "ring") == 0;
    assert_status(proto_job_check(&job, &error), of_both ? BASE_OK : BASE_ERR_INVALID);
}

static void modes_on_gpus_have_fields_of_their_own(void **state)
{
    (void)state;
    expect_gpu_job("gpu.devices", "0", BASE_OK);
    expect_gpu_job("gpu.devices", "3,0,GPU-8d5c0f9e-0001-0203-0405-060708090a0b", BASE_OK);
    expect_gpu_job("gpu.devices", "0,", BASE_ERR_INVALID);
    expect_gpu_job("gpu.devices", ",0", BASE_ERR_INVALID);
    expect_gpu_job("gpu.devices", "0,1,0", BASE_ERR_INVALID);
    expect_gpu_job("gpu.devices", "0;1", BASE_ERR_INVALID);
    expect_gpu_job("gpu.exact", "true", BASE_OK);
    expect_gpu_job("gpu.precision", "tf32", BASE_OK);
    expect_gpu_job("gpu.precision", "bfloat16", BASE_OK);
    expect_gpu_job("gpu.nccl_native", "true", BASE_OK);
    expect_gpu_job("gpu.shared", "true", BASE_ERR_INVALID); /* 100 steps */
    expect_gpu_job("parallel.algorithm", "native", BASE_OK);
    expect_gpu_job("parallel.algorithm", "direct", BASE_OK);
    expect_gpu_job("parallel.algorithm", "ring", BASE_ERR_INVALID);
}

static void exact_products_have_float32_only(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    proto_job_defaults(&job);
    job.job.mode = PROTO_MODE_DDP_NCCL;
    job.gpu.exact = true;
    assert_ok(proto_job_check(&job, &error), &error);
    job.gpu.precision = PROTO_PRECISION_TF32;
    assert_status(proto_job_check(&job, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "--precision"));
    assert_non_null(strstr(error.message, "--exact"));
}

static void each_rank_has_its_gpu(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    char device[PROTO_DEVICE_BYTES];
    proto_job_defaults(&job);
    job.job.mode = PROTO_MODE_DDP_NCCL;
    assert_int_equal(proto_job_device_count(&job), 0);
    proto_job_device(&job, 3, device);
    assert_string_equal(device, "3");
    assert_ok(test_job_set(&job, "gpu.devices", "2,GPU-0a,1", &error), &error);
    assert_int_equal(proto_job_device_count(&job), 3);
    proto_job_device(&job, 0, device);
    assert_string_equal(device, "2");
    proto_job_device(&job, 1, device);
    assert_string_equal(device, "GPU-0a");
    proto_job_device(&job, 2, device);
    assert_string_equal(device, "1");
    assert_ok(proto_job_check_devices(&job, 3, &error), &error);
    assert_status(proto_job_check_devices(&job, 4, &error), BASE_ERR_INVALID);
    job.gpu.shared = true;
    proto_job_device(&job, 2, device);
    assert_string_equal(device, "2");
    assert_ok(proto_job_check_devices(&job, 4, &error), &error);
}

static void experts_make_a_new_model(void **state)
{
    static const struct {
        proto_mode mode;
        proto_job_model model;
        const char *message; /* NULL: it is fine */
    } cases[] = {
        {PROTO_MODE_DDP_CPU, {.experts = 4}, NULL},
        {PROTO_MODE_DDP_CPU, {.experts = 4, .experts_per_token = 4, .router_loss = -1}, NULL},
        {PROTO_MODE_DDP_CPU, {.experts = 4, .router_loss = -0.5}, "or not negative"},
        {PROTO_MODE_DDP_CPU, {.experts = 1}, "model.experts_per_token 2 is more"},
        {PROTO_MODE_DDP_CPU, {.experts_per_token = 2}, "goes with model.experts"},
        {PROTO_MODE_DDP_CPU, {.router_loss = 0.1}, "goes with model.experts"},
        {PROTO_MODE_DDP_CPU, {.checkpoint = "/model", .router_loss = 0.1}, NULL},
        {PROTO_MODE_DDP_CPU, {.checkpoint = "/model", .experts = 4}, "makes a new model"},
        {PROTO_MODE_GENERATE, {.checkpoint = "/model", .experts = 4}, "go with modes that train"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_error error = {.message = ""};
        proto_job job;
        proto_job_defaults(&job);
        job.job.mode = cases[i].mode;
        job.job.world_size = 1;
        job.model.experts = cases[i].model.experts;
        job.model.experts_per_token = cases[i].model.experts_per_token;
        job.model.router_loss = cases[i].model.router_loss;
        (void)snprintf(job.model.checkpoint, sizeof job.model.checkpoint, "%s",
                       cases[i].model.checkpoint);
        const base_status status = proto_job_check(&job, &error);
        if (cases[i].message == NULL) {
            assert_ok(status, &error);
        } else {
            assert_status(status, BASE_ERR_INVALID);
            assert_non_null(strstr(error.message, cases[i].message));
        }
    }
}

/* Groups of ranks must be nodes of the tree of slots, and are dealt slots so. */
static void ranks_share_out_experts(void **state)
{
    static const struct {
        int64_t world;
        int64_t expert_ranks;
        int64_t micro_batches;
        const char *message; /* NULL: it is fine */
    } cases[] = {
        {4, 2, 1, NULL},
        {4, 4, 2, NULL},
        {6, 2, 1, NULL},
        {8, 1, 2, NULL},
        {6, 4, 1, "does not divide the number of ranks, 6"},
        {6, 3, 1, "parallel.expert_ranks 3 is no power of two"},
        {6, 2, 2, "the number of ranks is no power of two, 6"},
        {8, 8, 1, "does not divide model.experts 4"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_error error = {.message = ""};
        proto_job job;
        proto_job_defaults(&job);
        job.job.world_size = cases[i].world;
        job.model.experts = 4;
        job.parallel.expert_ranks = cases[i].expert_ranks;
        job.train.micro_batches = cases[i].micro_batches;
        const base_status status = proto_job_check(&job, &error);
        if (cases[i].message != NULL) {
            assert_status(status, BASE_ERR_INVALID);
            assert_non_null(strstr(error.message, cases[i].message));
            continue;
        }
        assert_ok(status, &error);
        const bool first = cases[i].expert_ranks > 1;
        assert_int_equal(proto_job_expert_ranks(&job), cases[i].expert_ranks);
        assert_int_equal(proto_job_replicas(&job), cases[i].world);
        assert_int_equal(proto_job_sums_replicas_first(&job), first);
        assert_int_equal(proto_job_slot(&job, 1, cases[i].micro_batches - 1),
                         first ? 1 + (cases[i].micro_batches - 1) * cases[i].world
                               : 2 * cases[i].micro_batches - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_has_a_place),
        cmocka_unit_test(the_schedule_of_a_job),
        cmocka_unit_test(ranks_share_what_can_be_cut),
        cmocka_unit_test(each_rank_has_a_part_of_the_vocabulary),
        cmocka_unit_test(modes_on_gpus_have_fields_of_their_own),
        cmocka_unit_test(exact_products_have_float32_only),
        cmocka_unit_test(each_rank_has_its_gpu),
        cmocka_unit_test(experts_make_a_new_model),
        cmocka_unit_test(ranks_share_out_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
