/* What a pass reads of the parameters, part by part: everything once, and no more than it has said. */
#include "rank/model.h"

#include "support.h"
#include "tiny.h"

/* Forward's parts are at positions 0 … parts - 1, backward's behind them, from the last but one on down. */
typedef struct reader {
    tiny *tiny;
    int position;
    int turn; /* parts */
    int reads;
} reader;

static int part_at(const reader *r)
{
    return r->position < r->turn ? r->position : 2 * r->turn - 2 - r->position;
}

static bool covers(const rank_model_reads *reads, size_t offset, size_t count)
{
    for (int i = 0; i < 2; i++) {
        if (offset >= reads->offset[i] && offset + count <= reads->offset[i] + reads->count[i]) {
            return true;
        }
    }
    return false;
}

/* Goes on to the first part that has what is read. */
static const float *need(void *user, size_t offset, size_t count)
{
    reader *r = user;
    rank_model_reads reads = {.count = {0}};
    for (; count > 0; r->position++) {
        assert_true(r->position < 2 * r->turn - 2);
        rank_model_part_reads(&r->tiny->config, part_at(r), &reads);
        if (covers(&reads, offset, count)) {
            break;
        }
    }
    r->reads++;
    return r->tiny->params + offset;
}

static void turn(void *user, bool replayed)
{
    reader *r = user;
    assert_false(replayed);
    assert_true(r->position < r->turn);
    r->position = r->turn - 1;
}

static void passes_read_part_by_part(void **state)
{
    static const int lengths[] = {24, 1, 17, 24, 9, 0};
    (void)state;
    for (int i = 0; i < TINY_CONFIGS; i++) {
        tiny t;
        tiny_open_as(&t, tiny_configs[i]);
        tiny_fill(&t, lengths, 1);
        reader r = {.tiny = &t, .turn = rank_model_part_count(&t.config)};
        const rank_hooks hooks = {.need = need, .weights = &r, .begin = turn, .ready_user = &r};
        rank_result result;
        base_error error;
        assert_int_equal(r.turn, t.config.layers + 2);
        assert_ok(rank_model_train(t.model, &hooks, &t.batch, t.grads, &result, &error), &error);
        assert_int_equal(part_at(&r), 1); /* backward has got down to the first layer */
        assert_true(r.reads > 0);
        tiny_close(&t);
    }
}

/* Without the ranges that stand in two parts, these cut the array. */
static void parts_have_everything(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_CONFIGS; i++) {
        rank_model_config config;
        size_t end = 0;
        tiny_config(&config, tiny_configs[i]);
        for (int part = 0; part < rank_model_part_count(&config); part++) {
            rank_model_reads reads;
            rank_model_part_reads(&config, part, &reads);
            assert_true(reads.offset[0] <= end);
            assert_true(end - reads.offset[0] <= (size_t)config.width); /* the bias below */
            assert_true(reads.count[0] > 0);
            end = reads.offset[0] + reads.count[0];
            assert_true(part + 1 == rank_model_part_count(&config) || reads.count[1] == 0);
        }
        assert_int_equal(end, rank_model_param_count(&config));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_read_part_by_part),
        cmocka_unit_test(parts_have_everything),
    };
    return cmocka_run_group_tests_name("rank-model-reads", tests, NULL, NULL);
}
