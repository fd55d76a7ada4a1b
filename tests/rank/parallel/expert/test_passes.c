/* Ranks that share out experts, beside one rank that has all of them: of each rank's batch the same losses and
 * gradients, bit for bit; and of each expert, where it is, the sum of the gradients of all batches. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "parallel/expert/ep.h"
#include "rank/ddp.h"
#include "ranks.h"
#include "support.h"
#include "tiny.h"

enum { RANKS_MAX = 4 };

typedef struct shared_experts {
    tiny batches[RANKS_MAX]; /* of each rank, which are trained alone in place */
    rank_result alone[RANKS_MAX];
    double loads_alone[RANKS_MAX][16];
    bool recompute;
    float *params[RANKS_MAX]; /* a rank's part */
    float *grads[RANKS_MAX];
    rank_result results[RANKS_MAX];
    double loads[RANKS_MAX][16];
} shared_experts;

static rank_model_config part_of(const rank_model_config *whole, int ranks, int rank)
{
    rank_model_config part = *whole;
    part.expert_ranks = ranks;
    part.expert_rank = rank;
    return part;
}

static void body(test_rank *rank)
{
    shared_experts *all = rank->user;
    const tiny *mine = &all->batches[rank->rank];
    const rank_model_config part = part_of(&mine->config, rank->size, rank->rank);
    const rank_experts of = rank_model_experts(&part);
    const rank_ep_cut cut = {.ranks = rank->size,
                             .experts = (size_t)of.count,
                             .rows_max = TINY_TOKENS_MAX,
                             .chosen = (size_t)of.chosen};
    rank_device device;
    rank_ep_group *group = NULL;
    rank_model *model = NULL;
    RANK_OK(rank, rank_device_open("cpu", &device, &rank->failure));
    RANK_OK(rank,
            rank_ep_group_create(coll_context_world(rank->context), &cut, &group, &rank->failure));
    const rank_model_options options = {.config = &part,
                                        .device = &device,
                                        .token_count_max = TINY_TOKENS_MAX,
                                        .training = true,
                                        .recompute = all->recompute,
                                        .loads = all->loads[rank->rank],
                                        .ep = rank_ep_group_ep(group)};
    const rank_hooks hooks = rank_hooks_flat(all->params[rank->rank]);
    RANK_OK(rank, rank_model_create(&options, &model, &rank->failure));
    RANK_OK(rank, rank_model_train(model, &hooks, &mine->batch, all->grads[rank->rank],
                                   &all->results[rank->rank], &rank->failure));
    RANK_OK(rank, rank_ep_group_check(group, &rank->failure));
    RANK_CHECK(rank, rank_ep_group_costs(group).bytes > 0);
    rank_model_destroy(model);
    rank_ep_group_destroy(group);
    rank_device_close(&device);
}

/* Each batch by a rank that has all experts. */
static void train_alone(shared_experts *all, int rank)
{
    base_error error;
    tiny *t = &all->batches[rank];
    rank_model_destroy(t->model);
    assert_ok(rank_model_create(&(rank_model_options){.config = &t->config,
                                                      .device = &t->device,
                                                      .token_count_max = TINY_TOKENS_MAX,
                                                      .training = true,
                                                      .loads = all->loads_alone[rank]},
                                &t->model, &error),
              &error);
    for (size_t i = 0; i < t->param_count; i++) {
        t->grads[i] = NAN;
    }
    assert_ok(rank_model_train(t->model, &t->hooks, &t->batch, t->grads, &all->alone[rank], &error),
              &error);
}

/* The sum of the ranks' gradients of one element, as slots are added up. */
static float sum_of(const shared_experts *all, int ranks, size_t at)
{
    float levels[RANK_DDP_LEVELS_MAX] = {0.0f};
    for (int rank = 0; rank < ranks; rank++) {
        const rank_leaf_plan plan = rank_leaf_plan_make(ranks, rank);
        levels[plan.level] = all->batches[rank].grads[at];
        for (int merge = 0; merge < plan.merges; merge++) {
            levels[plan.level - merge - 1] += levels[plan.level - merge];
        }
    }
    return levels[0];
}

static void check_tensor(const shared_experts *all, int ranks, int rank, int index)
{
    const tiny *mine = &all->batches[rank];
    const rank_model_config part = part_of(&mine->config, ranks, rank);
    rank_tensor whole;
    rank_tensor held;
    rank_model_tensor(&mine->config, index, &whole);
    rank_model_tensor(&part, index, &held);
    const float *found = all->grads[rank] + held.offset;
    if (whole.expert == 0) {
        assert_memory_equal(found, mine->grads + whole.offset, whole.count * sizeof(float));
        return;
    }
    const int here = rank_model_experts(&part).count / ranks;
    assert_int_equal(held.count, (whole.expert - 1) / here == rank ? whole.count : 0);
    for (size_t i = 0; i < held.count; i++) {
        const float wanted = sum_of(all, ranks, whole.offset + i);
        assert_memory_equal(found + i, &wanted, sizeof wanted);
    }
}

static void check(shared_experts *all, int ranks)
{
    size_t held = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const tiny *mine = &all->batches[rank];
        const rank_model_config part = part_of(&mine->config, ranks, rank);
        assert_true(rank_model_param_count(&part) < mine->param_count);
        size_t end = 0;
        for (int i = 0; i < rank_model_tensor_count(&part); i++) {
            rank_tensor tensor;
            rank_model_tensor(&part, i, &tensor);
            assert_int_equal(tensor.offset, end); /* without holes */
            end += tensor.count;
            check_tensor(all, ranks, rank, i);
        }
        assert_int_equal(end, rank_model_param_count(&part));
        held += end;
        assert_memory_equal(&all->results[rank], &all->alone[rank], sizeof(rank_result));
        assert_memory_equal(all->loads[rank], all->loads_alone[rank], sizeof all->loads[rank]);
    }
    assert_true(held > all->batches[0].param_count);
}

/* What a case is about. */
typedef struct sharing {
    const char *config;
    int ranks;
    coll_transport transport;
    bool recompute;
    bool all_to_one; /* every row chooses the first experts, and the others get none */
    int idle;        /* this rank has no tokens; -1: all have some */
} sharing;

static void open_rank(shared_experts *all, const sharing *of, int rank)
{
    static const int none[] = {0};
    static const int some[][5] = {{24, 24, 24, 20, 0}, {5, 1, 0}, {17, 0}, {3, 24, 9, 24, 0}};
    tiny *t = &all->batches[rank];
    tiny_open_as(t, of->config);
    for (int i = 0; of->all_to_one && i < rank_model_tensor_count(&t->config); i++) {
        rank_tensor tensor;
        rank_model_tensor(&t->config, i, &tensor);
        if (strstr(tensor.name, "block_sparse_moe.gate") != NULL) { /* equal logits */
            memset(t->params + tensor.offset, 0, tensor.count * sizeof(float));
        }
    }
    tiny_fill(t, rank == of->idle ? none : some[rank], 7 + (uint64_t)rank);
    const rank_model_config part = part_of(&t->config, of->ranks, rank);
    const size_t count = rank_model_param_count(&part);
    all->params[rank] = malloc(count * sizeof(float));
    all->grads[rank] = malloc(count * sizeof(float));
    assert_non_null(all->params[rank]);
    assert_non_null(all->grads[rank]);
    for (size_t i = 0; i < count; i++) {
        all->grads[rank][i] = NAN; /* every gradient is written */
    }
    for (int i = 0; i < rank_model_tensor_count(&part); i++) {
        rank_tensor held;
        rank_model_tensor(&part, i, &held);
        rank_model_take_part(&part, i, t->params, all->params[rank] + held.offset);
    }
    train_alone(all, rank);
}

/* A model's parts put together are the model. */
static void check_parts(const shared_experts *all, int ranks)
{
    const tiny *t = &all->batches[0];
    float *whole = malloc(t->param_count * sizeof(float));
    assert_non_null(whole);
    for (int rank = 0; rank < ranks; rank++) {
        const rank_model_config part = part_of(&t->config, ranks, rank);
        for (int i = 0; i < rank_model_tensor_count(&part); i++) {
            rank_tensor held;
            rank_model_tensor(&part, i, &held);
            rank_model_put_part(&part, i, all->params[rank] + held.offset, whole);
        }
    }
    assert_memory_equal(whole, t->params, t->param_count * sizeof(float));
    free(whole);
}

static void share(const sharing *of)
{
    static shared_experts all;
    memset(&all, 0, sizeof all);
    all.recompute = of->recompute;
    for (int rank = 0; rank < of->ranks; rank++) {
        open_rank(&all, of, rank);
    }
    test_ranks_as_threads(
        &(test_ranks_options){.size = of->ranks, .transport = of->transport, .user = &all}, body);
    check(&all, of->ranks);
    check_parts(&all, of->ranks);
    for (int rank = 0; rank < of->ranks; rank++) {
        tiny_close(&all.batches[rank]);
        free(all.params[rank]);
        free(all.grads[rank]);
    }
}

static void experts_are_shared_out(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= RANKS_MAX; ranks *= 2) {
        for (int recompute = 0; recompute < 2; recompute++) {
            share(&(sharing){.config = TINY_MIXTRAL,
                             .ranks = ranks,
                             .transport = COLL_TRANSPORT_SHM,
                             .recompute = recompute > 0,
                             .idle = -1});
        }
    }
    share(&(sharing){
        .config = TINY_QWEN3_MOE_RAW, .ranks = 4, .transport = COLL_TRANSPORT_TCP, .idle = -1});
}

static void one_expert_may_get_all_rows(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= RANKS_MAX; ranks *= 2) {
        share(&(sharing){.config = TINY_MIXTRAL,
                         .ranks = ranks,
                         .transport = COLL_TRANSPORT_SHM,
                         .all_to_one = true,
                         .idle = -1});
    }
}

/* At the end of an epoch a rank may have no batch any more. Its experts have rows of the others. */
static void a_rank_without_tokens_goes_along(void **state)
{
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) {
        for (int idle = 0; idle < 2; idle++) {
            share(&(sharing){.config = TINY_MIXTRAL,
                             .ranks = 2,
                             .transport = COLL_TRANSPORT_SHM,
                             .recompute = recompute > 0,
                             .idle = idle});
        }
    }
}

static void what_does_not_divide_is_refused(void **state)
{
    (void)state;
    base_error error;
    rank_model_config config;
    tiny_config(&config, TINY_MIXTRAL);
    assert_ok(rank_model_check_expert_ranks(&config, 4, &error), &error);
    assert_int_equal(rank_model_check_expert_ranks(&config, 8, &error), BASE_ERR_INVALID);
    assert_has(error.message, "--expert-ranks 8 does not divide the model's experts, 4");
    tiny_config(&config, TINY_QWEN3);
    assert_int_equal(rank_model_check_expert_ranks(&config, 2, &error), BASE_ERR_INVALID);
    assert_has(error.message, "the model has no experts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_shared_out),
        cmocka_unit_test(one_expert_may_get_all_rows),
        cmocka_unit_test(a_rank_without_tokens_goes_along),
        cmocka_unit_test(what_does_not_divide_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
