/* Muon of which each rank has parts of the matrices, as pieces of shards or as tensor ranks: the
 * bits of one rank. */
#include <stdlib.h>
#include <string.h>

#include "cpu_device.h"
#include "model/family.h"
#include "random.h"
#include "rank/ddp.h"
#include "rank/optim.h"
#include "support.h"
#include "tiny.h"

static const double RATE = 0.02;
static const double SCALE = 0.5;
static const rank_adamw_config adamw = {
    .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};

static rank_optimizer *make_alone(const rank_model_config *config)
{
    base_error error;
    rank_optimizer *optimizer = NULL;
    const rank_optimizer_options options = {.adamw = adamw, .muon = {.momentum = 0.95, .ranks = 1}};
    assert_ok(rank_optimizer_create(&test_device, config, &options, &optimizer, &error), &error);
    return optimizer;
}

static float *random_grads(size_t count, int seed)
{
    float *grads = malloc(count * sizeof *grads);
    assert_non_null(grads);
    test_random_floats(grads, count, 1, (uint64_t)seed);
    return grads;
}

enum { PARTED_MAX = 8 };

/* Ranks that have parts of a model: the pieces of a cut, or parts of its tensors. */
typedef struct parted {
    const tiny *t;
    int ranks;
    rank_ddp_options ddp; /* of ZeRO; its stage 0: tensor ranks */
    rank_optimizer *optimizers[PARTED_MAX];
    float *params[PARTED_MAX]; /* as the stage has them */
    float *grads[PARTED_MAX];
} parted;

static rank_model_config config_of(const parted *p, int rank)
{
    rank_model_config config = p->t->config;
    config.tensor_ranks = p->ddp.zero > 0 ? 1 : p->ranks;
    config.tensor_rank = p->ddp.zero > 0 ? 0 : rank;
    return config;
}

/* A rank's pieces, which the caller frees. */
static rank_optimizer_piece *pieces_of(const parted *p, int rank, size_t *count)
{
    *count = rank_ddp_pieces(&p->ddp, rank, p->ranks, NULL);
    rank_zero_range *ranges = calloc(*count, sizeof *ranges);
    rank_optimizer_piece *pieces = calloc(*count, sizeof *pieces);
    assert_non_null(ranges);
    assert_non_null(pieces);
    (void)rank_ddp_pieces(&p->ddp, rank, p->ranks, ranges);
    for (size_t i = 0; i < *count; i++) {
        pieces[i] = (rank_optimizer_piece){ranges[i].offset, ranges[i].count};
    }
    free(ranges);
    return pieces;
}

/* Copies a rank's part of whole values from them, or to them. */
static void move_part(const parted *p, int rank, float *whole, float *part, bool back)
{
    if (p->ddp.zero == 0) {
        const rank_model_config config = config_of(p, rank);
        for (int i = 0; i < rank_model_tensor_count(&config); i++) {
            rank_tensor tensor;
            rank_model_tensor(&config, i, &tensor);
            if (back) {
                rank_model_put_part(&config, i, part + tensor.offset, whole);
            } else {
                rank_model_take_part(&config, i, whole, part + tensor.offset);
            }
        }
        return;
    }
    size_t count = 0;
    rank_optimizer_piece *pieces = pieces_of(p, rank, &count);
    for (size_t i = 0; i < count; part += pieces[i++].count) {
        float *at = whole + pieces[i].offset;
        memcpy(back ? at : part, back ? part : at, pieces[i].count * sizeof *part);
    }
    free(pieces);
}

static void open_rank(parted *p, int rank)
{
    const rank_model_config config = config_of(p, rank);
    rank_optimizer_options options = {.adamw = adamw,
                                      .muon = {.momentum = 0.95, .ranks = p->ranks, .rank = rank}};
    rank_zero_stretch stretch;
    rank_optimizer_piece *pieces = NULL;
    rank_memory_use planned = {{0}};
    size_t moments = rank_model_param_count(&config);
    base_error error;
    if (p->ddp.zero > 0) {
        assert_int_equal(rank_ddp_stretches(&p->ddp, p->ranks, NULL), 1);
        (void)rank_ddp_stretches(&p->ddp, p->ranks, &stretch);
        pieces = pieces_of(p, rank, &options.piece_count);
        options.pieces = pieces;
        options.packed_grads = p->ddp.zero >= RANK_DDP_ZERO_GRADIENTS;
        options.packed_params = p->ddp.zero >= RANK_DDP_ZERO_PARAMETERS;
        options.muon.stretches = &stretch;
        options.muon.stretch_count = 1;
        moments = rank_ddp_shard_count(&p->ddp, rank, p->ranks);
    }
    assert_ok(rank_optimizer_create(&test_device, &config, &options, &p->optimizers[rank], &error),
              &error);
    rank_optimizer_plan(moments, &planned);
    rank_optimizer_plan_muon(&config, &options.muon, &planned);
    assert_int_equal(planned.bytes[RANK_MEMORY_OPTIMIZER],
                     rank_optimizer_moment_bytes(p->optimizers[rank]));
    p->params[rank] = calloc(p->t->param_count, sizeof(float));
    p->grads[rank] = calloc(p->t->param_count, sizeof(float));
    assert_non_null(p->params[rank]);
    assert_non_null(p->grads[rank]);
    free(pieces);
}

/* An all-to-all of a round: each rank's blocks for all ranks, one behind the other. */
static void exchange(const parted *p, int round, bool back)
{
    static size_t sent[PARTED_MAX][PARTED_MAX];
    static size_t received[PARTED_MAX][PARTED_MAX];
    rank_muon_round at[PARTED_MAX];
    float *to[PARTED_MAX];
    for (int r = 0; r < p->ranks; r++) {
        at[r] = rank_optimizer_round(p->optimizers[r], round, back ? received[r] : sent[r],
                                     back ? sent[r] : received[r]);
        assert_false(at[r].apart);
        to[r] = back ? at[r].mine : at[r].gathered;
    }
    for (int from = 0; from < p->ranks; from++) {
        const float *block = back ? at[from].computed : at[from].mine;
        for (int r = 0; r < p->ranks; r++) {
            assert_int_equal(sent[from][r], received[r][from]);
            memcpy(to[r], block, sent[from][r] * sizeof *block);
            block += sent[from][r];
            to[r] += sent[from][r];
        }
    }
}

static void step_parted(parted *p, int number, float *grads)
{
    static const double sum_squares = 1.0; /* nothing is clipped */
    for (int r = 0; r < p->ranks; r++) {
        const bool packed = p->ddp.zero != RANK_DDP_ZERO_MOMENTS;
        if (packed) {
            move_part(p, r, grads, p->grads[r], false);
        }
        rank_optimizer_step(p->optimizers[r],
                            &(rank_optimizer_values){.step = number,
                                                     .learning_rate = RATE,
                                                     .tokens = 1.0 / SCALE,
                                                     .sum_squares = &sum_squares},
                            p->params[r], packed ? p->grads[r] : grads);
    }
    const int rounds = rank_optimizer_rounds(p->optimizers[0]);
    assert_true(rounds > 0);
    for (int round = 0; round < rounds; round++) {
        for (int r = 0; r < p->ranks; r++) {
            assert_int_equal(rank_optimizer_rounds(p->optimizers[r]), rounds);
            rank_optimizer_begin_round(p->optimizers[r], round);
        }
        exchange(p, round, false);
        for (int r = 0; r < p->ranks; r++) {
            rank_optimizer_compute_round(p->optimizers[r], round);
        }
        exchange(p, round, true);
        for (int r = 0; r < p->ranks; r++) {
            rank_optimizer_end_round(p->optimizers[r], round);
        }
    }
}

/* Whether the parameters are packed as moments are, or stand where they do in the model. */
static bool packs_params(const parted *p)
{
    return p->ddp.zero == 0 || p->ddp.zero == RANK_DDP_ZERO_PARAMETERS;
}

/* Parameters and momentum of all ranks' parts are those of one rank. */
static void assert_alone(const parted *p, const rank_optimizer *optimizer, const float *alone)
{
    const size_t bytes = p->t->param_count * sizeof(float);
    const float *expected[] = {alone, rank_optimizer_get_moments(optimizer).first,
                               rank_optimizer_get_moments(optimizer).second};
    float *whole = calloc(p->t->param_count, sizeof *whole);
    float *own = calloc(p->t->param_count, sizeof *own);
    assert_non_null(whole);
    assert_non_null(own);
    for (int what = 0; what < 3; what++) {
        for (int r = 0; r < p->ranks; r++) {
            const rank_optimizer_moments moments = rank_optimizer_get_moments(p->optimizers[r]);
            float *parts[] = {p->params[r], moments.first, moments.second};
            if (what == 0 && !packs_params(p)) {
                move_part(p, r, p->params[r], own, false);
                parts[0] = own;
            }
            move_part(p, r, whole, parts[what], true);
        }
        assert_memory_equal(whole, expected[what], bytes);
    }
    free(whole);
    free(own);
}

static void train_parted(const tiny *t, int ranks, int zero, size_t bucket_bytes)
{
    enum { STEPS = 2 };
    parted p = {.t = t,
                .ranks = ranks,
                .ddp = {.param_count = t->param_count, .bucket_bytes = bucket_bytes, .zero = zero}};
    const size_t bytes = t->param_count * sizeof(float);
    rank_optimizer *optimizer = make_alone(&t->config);
    float *alone = malloc(bytes);
    assert_non_null(alone);
    memcpy(alone, t->params, bytes);
    for (int r = 0; r < ranks; r++) {
        open_rank(&p, r);
        if (packs_params(&p)) {
            move_part(&p, r, alone, p.params[r], false);
        } else {
            memcpy(p.params[r], alone, bytes);
        }
    }
    for (int i = 1; i <= STEPS; i++) {
        float *grads = random_grads(t->param_count, i);
        rank_optimizer_step(
            optimizer,
            &(rank_optimizer_values){.step = i, .learning_rate = RATE, .tokens = 1.0 / SCALE},
            alone, grads);
        step_parted(&p, i, grads);
        assert_alone(&p, optimizer, alone);
        free(grads);
    }
    for (int r = 0; r < ranks; r++) {
        rank_optimizer_destroy(p.optimizers[r]);
        free(p.params[r]);
        free(p.grads[r]);
    }
    rank_optimizer_destroy(optimizer);
    free(alone);
}

/* Units smaller than a matrix, and one of all. */
static void shards_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    static const int worlds[] = {1, 2, 3, 8};
    static const size_t bucket_bytes[] = {4, 64 << 10};
    for (size_t c = 0; c < TINY_CONFIGS; c++) {
        tiny t;
        tiny_open_as(&t, tiny_configs[c]);
        for (size_t i = 0; i < sizeof worlds / sizeof *worlds * 2; i++) {
            for (int zero = 1; zero <= RANK_DDP_ZERO_PARAMETERS; zero++) {
                train_parted(&t, worlds[i / 2], zero, bucket_bytes[i % 2]);
            }
        }
        tiny_close(&t);
    }
}

/* Cut along rows and along columns; a router's matrix each rank has whole. The vocabulary is large
 * enough that each rank has some of it. */
static void tensor_ranks_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    int shared = 0;
    for (size_t c = 0; c < TINY_CONFIGS; c++) {
        tiny t = {.ids = {0}};
        tiny_config(&t.config, tiny_configs[c]);
        t.config.vocab_size = 401;
        if (rank_model_check_world(&t.config, 2, NULL) != BASE_OK) {
            continue;
        }
        t.param_count = rank_model_param_count(&t.config);
        t.params = random_grads(t.param_count, 7);
        train_parted(&t, 2, 0, 4);
        free(t.params);
        shared++;
    }
    assert_in_range(shared, 8, TINY_CONFIGS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_have_the_bits_of_one_rank),
        cmocka_unit_test(tensor_ranks_have_the_bits_of_one_rank),
    };
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
