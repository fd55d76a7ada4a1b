/* proto/mode.h: the table of modes is complete, and no row makes a cloud mode free. */
#include "proto/mode.h"

#include <string.h>

#include "support.h"

static void every_row_is_whole(void **state)
{
    (void)state;
    for (int i = 0; i < PROTO_MODE_COUNT; i++) {
        const proto_mode_row *row = proto_mode_get((proto_mode)i);
        assert_non_null(row->name);
        assert_string_equal(proto_mode_name(i), row->name);
        for (int before = 0; before < i; before++) {
            assert_string_not_equal(proto_mode_name(before), row->name);
        }
        assert_true(row->ranks_min >= 1 && row->ranks_min <= row->ranks);
        assert_true(row->ranks <= row->ranks_max);
        assert_true(row->record == PROTO_RECORD_NONE || (row->out != NULL && row->lab != NULL));
    }
}

static void invalid_modes_have_no_name(void **state)
{
    (void)state;
    assert_null(proto_mode_name(-1));
    assert_null(proto_mode_name(PROTO_MODE_COUNT));
}

static void a_mode_costs_money_unless_its_row_says_not(void **state)
{
    (void)state;
    assert_false(proto_mode_costs_money(PROTO_MODE_DDP_CPU));
    assert_false(proto_mode_costs_money(PROTO_MODE_GENERATE));
    assert_false(proto_mode_costs_money(PROTO_MODE_PROGRAM));
    assert_true(proto_mode_costs_money(PROTO_MODE_GATE_CHECK));
    assert_true(proto_mode_costs_money(PROTO_MODE_DDP_NCCL));
    assert_true(proto_mode_costs_money(PROTO_MODE_TP_NCCL));
    assert_true(proto_mode_costs_money(PROTO_MODE_BENCH_NCCL));
    assert_true(proto_mode_costs_money(PROTO_MODE_COUNT));
    assert_true(proto_mode_costs_money((proto_mode)1000));
    assert_true(proto_mode_row_costs_money(NULL));
}

/* A row with a mistake does not make its mode free. */
static void nccl_costs_money_whatever_its_row_says(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool costs_money;
    } cases[] = {
        {"ddp-nccl", true}, {"tp-nccl", true},       {"-nccl", true}, {"any-nccl", true},
        {"ddp-cpu", false}, {"ddp-nccl-cpu", false}, {"nccl", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const proto_mode_row row = {.name = cases[i].name, .costs_money = false};
        if (proto_mode_row_costs_money(&row) != cases[i].costs_money) {
            fail_msg("%s", cases[i].name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_whole),
        cmocka_unit_test(invalid_modes_have_no_name),
        cmocka_unit_test(a_mode_costs_money_unless_its_row_says_not),
        cmocka_unit_test(nccl_costs_money_whatever_its_row_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
