/* Training has the same bits on every instruction set with fused multiply-add, and whatever else is
 * in the batch: SHA-256 of what steps of training leave behind, each instruction set in a process of
 * its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/kernels.h"
#include "model/gemma3/parts.h"
#include "proto/digest.h"
#include "rank/optim.h"
#include "support.h"

enum { VOCAB = 211, CONTEXT = 96, STEPS = 4, SEGMENTS = 5, TOKENS = 96 + 33 + 1 + 64 + 17 };

/* Widths, heads and a vocabulary that no register divides, and some that do. */
enum { GPT2S = 3 };
static const rank_model_config configs[] = {
    {.vocab_size = VOCAB, .width = 72, .layers = 3, .heads = 3, .context = CONTEXT},
    {.vocab_size = 512, .width = 64, .layers = 2, .heads = 4, .context = CONTEXT},
    {.vocab_size = VOCAB, .width = 300, .layers = 1, .heads = 12, .context = CONTEXT},
    /* a Gemma 3, with a layer of each kind */
    {.family = &rank_gemma3,
     .vocab_size = VOCAB,
     .width = 72,
     .layers = 2,
     .heads = 4,
     .context = CONTEXT,
     .settings = {[LLAMA_KV_HEADS] = 1,
                  [LLAMA_HEAD_WIDTH] = 20,
                  [LLAMA_HIDDEN] = 90,
                  [LLAMA_EPSILON] = 1e-6,
                  [LLAMA_TIED] = 1,
                  [LLAMA_HEAD_NORMS] = 1,
                  [LLAMA_GEMMA3] = 1,
                  [GEMMA3_QUERY_SCALAR] = 16,
                  [GEMMA3_FULL_EVERY] = 2,
                  [LLAMA_THETA] = 1,
                  [LLAMA_FACTOR] = 8,
                  [GEMMA3_WINDOW] = 21,
                  [GEMMA3_LOCAL_THETA] = 1}},
};
enum { CONFIGS = sizeof configs / sizeof *configs };

static const int lengths[SEGMENTS] = {96, 33, 1, 64, 17};

typedef struct digests {
    uint8_t params[PROTO_DIGEST_BYTES]; /* after all steps */
    uint8_t grads[PROTO_DIGEST_BYTES];  /* of the last step */
    double loss_sum;
} digests;

typedef struct bed {
    rank_model_config config;
    rank_device device;
    rank_model *model;
    rank_optimizer *optimizer;
    size_t count;
    float *params;
    float *grads;
    int32_t ids[TOKENS];
    int32_t targets[TOKENS];
    int32_t start[SEGMENTS + 1];
    rank_batch batch;
} bed;

static void fill_batch(bed *b)
{
    uint64_t random = 3;
    for (int t = 0; t < TOKENS; t++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        b->ids[t] = (int32_t)((random >> 33) % (uint64_t)b->config.vocab_size);
        b->targets[t] = t % 5 == 4 ? -1 : (b->ids[t] + 1) % b->config.vocab_size;
    }
    for (int i = 0; i < SEGMENTS; i++) {
        b->start[i + 1] = b->start[i] + lengths[i];
    }
    b->batch = (rank_batch){.token_count = TOKENS,
                            .ids = b->ids,
                            .targets = b->targets,
                            .segment_count = SEGMENTS,
                            .segment_start = b->start};
}

static base_status open_bed(bed *b, const rank_model_config *config, base_error *reterr)
{
    *b = (bed){.config = *config};
    b->config.family = config->family != NULL ? config->family : rank_family_default();
    b->count = rank_model_param_count(&b->config);
    b->params = malloc(b->count * sizeof *b->params);
    b->grads = calloc(b->count, sizeof *b->grads);
    if (b->params == NULL || b->grads == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory");
    }
    rank_model_init(&b->config, 11, b->params);
    fill_batch(b);
    base_status status = rank_device_open("cpu", &b->device, reterr);
    if (status == BASE_OK) {
        status = rank_model_create(&(rank_model_options){.config = &b->config,
                                                         .device = &b->device,
                                                         .token_count_max = TOKENS,
                                                         .training = true},
                                   &b->model, reterr);
    }
    if (status == BASE_OK) {
        const rank_optimizer_options options = {
            .adamw = {.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0.1},
            .norm_max = 0.5};
        status = rank_optimizer_create(&b->device, &b->config, &options, &b->optimizer, reterr);
    }
    return status;
}

static void close_bed(bed *b)
{
    rank_optimizer_destroy(b->optimizer);
    rank_model_destroy(b->model);
    rank_device_close(&b->device);
    free(b->params);
    free(b->grads);
}

static base_status train(bed *b, digests *found, base_error *reterr)
{
    base_status status = BASE_OK;
    const rank_hooks hooks = rank_hooks_flat(b->params);
    for (int step = 1; step <= STEPS && status == BASE_OK; step++) {
        rank_result result;
        status = rank_model_train(b->model, &hooks, &b->batch, b->grads, &result, reterr);
        rank_optimizer_step(b->optimizer,
                            &(rank_optimizer_values){.step = step,
                                                     .learning_rate = 1e-2,
                                                     .tokens = (double)result.target_count},
                            b->params, b->grads);
        found->loss_sum = result.loss_sum;
    }
    proto_sha256(b->params, b->count * sizeof *b->params, found->params);
    proto_sha256(b->grads, b->count * sizeof *b->grads, found->grads);
    return status;
}

/* In a child: RINGFENCE_ISA is looked at once in a process. */
static void train_on(const char *isa, int to)
{
    digests all[CONFIGS];
    base_error error;
    memset(all, 0, sizeof all);
    if (setenv("RINGFENCE_ISA", isa, 1) != 0) {
        _exit(2);
    }
    for (int i = 0; i < CONFIGS; i++) {
        bed b;
        if (open_bed(&b, &configs[i], &error) != BASE_OK || train(&b, &all[i], &error) != BASE_OK) {
            (void)fprintf(stderr, "%s\n", error.message);
            _exit(3);
        }
        close_bed(&b);
    }
    _exit(write(to, all, sizeof all) == (ssize_t)sizeof all ? 0 : 4);
}

static void get_digests(const char *isa, digests all[CONFIGS])
{
    int ends[2];
    int status = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        train_on(isa, ends[1]);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], all, CONFIGS * sizeof *all), CONFIGS * sizeof *all);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void check_digest(const char *isa, const digests *all, size_t count, const char *expected)
{
    uint8_t digest[PROTO_DIGEST_BYTES];
    char found[PROTO_DIGEST_HEX_BYTES];
    for (size_t i = 0; i < count; i++) {
        assert_true(all[i].loss_sum > 0.0);
    }
    proto_sha256(all, count * sizeof *all, digest);
    proto_digest_hex(digest, found);
    if (strcmp(found, expected) != 0) {
        fail_msg("%s: %s", isa, found);
    }
}

/* On x86-64 and arm64 alike. Where the model's arithmetic changes on purpose, so does this digest, and every
 * instruction set must agree on the new one. */
static void every_fused_instruction_set_has_the_same_digests(void **state)
{
    static const char gpt2s[] = "f95044ff66e3fc84012754d18e5c025d62b28330c43a38e39c1119137621b486";
    static const char gemma[] = "05d2ef58b8cb7597771ab91359b39c52309acc4349fc8138247b1078bc3e1e77";
    (void)state;
    const rank_kernels *kernels = NULL;
    if (rank_kernels_at(1) == NULL) {
        skip();
    }
    for (int isa = 1; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        digests all[CONFIGS];
        get_digests(kernels->name, all);
        check_digest(kernels->name, all, GPT2S, gpt2s);
        check_digest(kernels->name, all + GPT2S, CONFIGS - GPT2S, gemma);
    }
}

/* Logits of the second segment, alone and beside the others. */
static void what_else_is_in_the_batch_changes_no_bit(void **state)
{
    (void)state;
    enum { ROWS = 33 };
    bed b;
    base_error error;
    int32_t rows[ROWS];
    uint8_t digest[2][PROTO_DIGEST_BYTES];
    float *logits = malloc((size_t)ROWS * VOCAB * sizeof *logits);
    assert_non_null(logits);
    assert_ok(open_bed(&b, &configs[0], &error), &error);
    const rank_hooks hooks = rank_hooks_flat(b.params);
    const rank_batch alone = {.token_count = ROWS,
                              .ids = b.ids + lengths[0],
                              .targets = NULL,
                              .segment_count = 1,
                              .segment_start = (const int32_t[]){0, ROWS}};
    for (int i = 0; i < 2; i++) {
        for (int row = 0; row < ROWS; row++) {
            rows[row] = (i == 0 ? lengths[0] : 0) + row;
        }
        assert_ok(rank_model_forward(b.model, &hooks, i == 0 ? &b.batch : &alone,
                                     &(rank_logits){rows, ROWS, logits}, NULL, &error),
                  &error);
        proto_sha256(logits, (size_t)ROWS * VOCAB * sizeof *logits, digest[i]);
    }
    assert_memory_equal(digest[0], digest[1], sizeof digest[0]);
    free(logits);
    close_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fused_instruction_set_has_the_same_digests),
        cmocka_unit_test(what_else_is_in_the_batch_changes_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
