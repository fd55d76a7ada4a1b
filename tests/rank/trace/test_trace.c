/* The spans of one rank: what a ring keeps, and which of its steps are whole. */
#include "trace/trace.h"

#include "base/clock.h"
#include "support.h"

/* Room for 16 spans in each ring. */
static rank_trace *make(int steps)
{
    base_error error;
    rank_trace *trace = NULL;
    assert_ok(rank_trace_create(steps, RANK_TRACE_SPANS_ALL_MAX / 16, &trace, &error), &error);
    assert_int_equal(trace->capacity, 16);
    return trace;
}

/* A step of so many layers, each with so many operations. */
static void take_step(rank_trace *trace, int step, int layers, int operations)
{
    rank_trace_step_begin(trace, base_now_ns());
    for (int layer = 0; layer < layers; layer++) {
        const int64_t begun_ns = rank_trace_begin(trace);
        for (int i = 0; i < operations; i++) {
            rank_trace_operation(trace, i, base_now_ns());
        }
        rank_trace_add(trace, (rank_trace_span){
                                  .kind = RANK_TRACE_LAYER, .begin_ns = begun_ns, .index = layer});
    }
    rank_trace_step_end(trace, step, base_now_ns());
}

static void spans_are_taken_in_steps_alone(void **state)
{
    (void)state;
    rank_trace *trace = make(3);
    assert_int_equal(rank_trace_begin(trace), 0);
    rank_trace_add(trace, (rank_trace_span){.kind = RANK_TRACE_LAYER});
    rank_trace_operation(trace, 1, 5);
    assert_int_equal(trace->spans.count, 0);
    assert_int_equal(trace->operations.count, 0);
    assert_int_equal(rank_trace_whole_steps(trace, &trace->spans, 3), 0);
    take_step(trace, 0, 2, 3);
    assert_int_equal(trace->spans.count, 3);
    assert_int_equal(trace->operations.count, 6);
    assert_int_equal(rank_trace_begin(trace), 0);
    assert_int_equal(rank_trace_begin(NULL), 0);
    rank_trace_add(NULL, (rank_trace_span){.kind = RANK_TRACE_LAYER});
    rank_trace_destroy(trace);
    rank_trace_destroy(NULL);
}

/* An operation begins where the one before ended, or the layer around it began. */
static void operations_lie_in_their_layer(void **state)
{
    (void)state;
    rank_trace *trace = make(3);
    take_step(trace, 0, 2, 2);
    const rank_trace_span *layers = trace->spans.spans;
    const rank_trace_span *operations = trace->operations.spans;
    for (int i = 0; i < 4; i++) {
        assert_true(operations[i].begin_ns >= layers[i / 2].begin_ns);
        assert_true(operations[i].end_ns <= layers[i / 2].end_ns);
    }
    assert_true(operations[0].begin_ns == layers[0].begin_ns);
    assert_true(operations[1].begin_ns == operations[0].end_ns);
    assert_true(operations[3].begin_ns == operations[2].end_ns);
    rank_trace_destroy(trace);
}

static void the_newest_whole_steps_are_kept(void **state)
{
    (void)state;
    rank_trace *trace = make(3);
    rank_trace_span taken[16];
    for (int step = 0; step < 9; step++) {
        take_step(trace, step, 4, 0); /* 5 spans each: three whole steps, and a rest */
    }
    assert_int_equal(rank_trace_whole_steps(trace, &trace->spans, 2), 2);
    assert_int_equal(rank_trace_whole_steps(trace, &trace->spans, 100), 3);
    assert_int_equal(rank_trace_take(trace, &trace->spans, 3, taken), 15);
    assert_int_equal(taken[4].kind, RANK_TRACE_STEP);
    assert_int_equal(taken[4].index, 6);
    assert_int_equal(taken[14].index, 8);
    assert_int_equal(rank_trace_take(trace, &trace->spans, 1, taken), 5);
    assert_int_equal(taken[0].kind, RANK_TRACE_LAYER);
    assert_int_equal(taken[0].index, 0);
    rank_trace_destroy(trace);
}

/* More operations than there is room for do not displace the layers. */
static void operations_have_their_own_room(void **state)
{
    (void)state;
    rank_trace *trace = make(3);
    rank_trace_span taken[16];
    take_step(trace, 0, 2, 4);
    take_step(trace, 1, 2, 4);
    take_step(trace, 2, 2, 4); /* 8 operations each: two whole steps */
    assert_int_equal(rank_trace_whole_steps(trace, &trace->spans, 3), 3);
    assert_int_equal(rank_trace_whole_steps(trace, &trace->operations, 3), 2);
    take_step(trace, 3, 2, 40);
    assert_int_equal(rank_trace_whole_steps(trace, &trace->operations, 3), 0);
    assert_int_equal(rank_trace_take(trace, &trace->operations, 0, taken), 16);
    assert_int_equal(taken[15].index, 39);
    rank_trace_destroy(trace);
}

static void a_step_that_does_not_fit_leaves_its_end(void **state)
{
    (void)state;
    rank_trace *trace = make(3);
    rank_trace_span taken[16];
    take_step(trace, 0, 2, 0);
    take_step(trace, 1, 40, 0);
    assert_int_equal(rank_trace_whole_steps(trace, &trace->spans, 3), 0);
    assert_int_equal(rank_trace_take(trace, &trace->spans, 0, taken), 16);
    assert_int_equal(taken[0].index, 25);
    assert_int_equal(taken[15].kind, RANK_TRACE_STEP);
    rank_trace_destroy(trace);
}

/* What begins where a span ends needs no other reading of the clock. */
static void a_span_says_when_it_ended(void **state)
{
    (void)state;
    rank_trace *trace = make(3);
    assert_int_equal(rank_trace_add(trace, (rank_trace_span){.kind = RANK_TRACE_LAYER}), 0);
    assert_int_equal(rank_trace_add(NULL, (rank_trace_span){.kind = RANK_TRACE_LAYER}), 0);
    rank_trace_step_begin(trace, base_now_ns());
    const int64_t end_ns = rank_trace_add(trace, (rank_trace_span){.kind = RANK_TRACE_LAYER});
    assert_true(end_ns > 0);
    assert_true(trace->spans.spans[0].end_ns == end_ns);
    rank_trace_destroy(trace);
}

/* A server takes steps for years. */
static void an_engines_steps_begin_anew(void **state)
{
    (void)state;
    static const int32_t numbers[] = {INT32_MAX - 1, INT32_MAX, 0, 1};
    rank_trace *trace = make(3);
    trace->next_step = numbers[0];
    for (size_t i = 0; i < 4; i++) {
        rank_trace_step_begin(trace, base_now_ns());
        rank_trace_step_end_next(trace, base_now_ns());
        assert_int_equal(trace->spans.spans[i].index, numbers[i]);
    }
    rank_trace_step_end_next(NULL, 1);
    rank_trace_destroy(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_taken_in_steps_alone),
        cmocka_unit_test(operations_lie_in_their_layer),
        cmocka_unit_test(the_newest_whole_steps_are_kept),
        cmocka_unit_test(operations_have_their_own_room),
        cmocka_unit_test(a_step_that_does_not_fit_leaves_its_end),
        cmocka_unit_test(a_span_says_when_it_ended),
        cmocka_unit_test(an_engines_steps_begin_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
