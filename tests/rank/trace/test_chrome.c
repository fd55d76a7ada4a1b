/* The file of a trace: what is in it, that threads' spans are nested, and which ranks are left out. */
#include "trace/chrome.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

static const char *operation_name(int part)
{
    return part == 3 ? "a product" : "other work";
}

static const char *algorithm_name(int algorithm)
{
    return algorithm == 2 ? "ring" : "another";
}

#define EXCHANGED(the_kind, number, from, to, flags)                                               \
    {                                                                                              \
        .kind = (the_kind), .of = (flags), .index = (number), .begin_ns = (from), .end_ns = (to)   \
    }

enum { BOTH = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE };

/* A step of one rank, whose clock is that much ahead. */
static size_t take_step(rank_trace_span spans[16], int64_t ahead_ns)
{
    const rank_trace_span all[] = {
        EXCHANGED(RANK_TRACE_OPERATION, 3, 1100, 1400, RANK_TRACE_THREAD),
        EXCHANGED(RANK_TRACE_LAYER, 0, 1100, 1500, RANK_TRACE_THREAD),
        EXCHANGED(RANK_TRACE_FORWARD, 2, 1100, 1600, RANK_TRACE_THREAD),
        {.kind = RANK_TRACE_REDUCE,
         .of = RANK_TRACE_EXCHANGE,
         .index = 0,
         .begin_ns = 1700,
         .end_ns = 2100,
         .bytes = 4096,
         .detail = 3},
        EXCHANGED(RANK_TRACE_REDUCE, 1, 1800, 2200, RANK_TRACE_EXCHANGE),
        EXCHANGED(RANK_TRACE_REDUCE, 1, 2100, 2200, RANK_TRACE_THREAD),
        EXCHANGED(RANK_TRACE_SUMS, -1, 2300, 2500, BOTH),
        EXCHANGED(RANK_TRACE_STEP, 41, 1000, 1002500, RANK_TRACE_THREAD),
    };
    const size_t count = sizeof all / sizeof all[0];
    for (size_t i = 0; i < count; i++) {
        spans[i] = all[i];
        spans[i].begin_ns += ahead_ns;
        spans[i].end_ns += ahead_ns;
    }
    return count;
}

static json_t *write_and_read(const rank_trace_all *all)
{
    base_error error;
    json_error_t where;
    const char *path = test_shared_path("trace.json");
    assert_ok(rank_trace_write(all, path, &error), &error);
    json_t *file = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (file == NULL) {
        fail_msg("line %d: %s", where.line, where.text);
    }
    return file;
}

/* The event of that name on a thread of a process. */
static const json_t *event_of(const json_t *file, int process, const char *name)
{
    const json_t *events = json_object_get(file, "traceEvents");
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (json_integer_value(json_object_get(event, "pid")) == process &&
            strcmp(json_string_value(json_object_get(event, "name")), name) == 0) {
            return event;
        }
    }
    fail_msg("process %d has no event %s", process, name);
    return NULL;
}

static void expect_event(const json_t *event, double ts, double dur, int thread, const char *args)
{
    char *text = json_dumps(json_object_get(event, "args"), JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(json_string_value(json_object_get(event, "ph")), "X");
    assert_true(json_number_value(json_object_get(event, "ts")) == ts);
    assert_true(json_number_value(json_object_get(event, "dur")) == dur);
    assert_int_equal(json_integer_value(json_object_get(event, "tid")), thread);
    assert_string_equal(text, args);
    free(text);
}

static void expect_step(const json_t *file, int process)
{
    expect_event(event_of(file, process, "step 41"), 0.0, 1001.5, 1, "{\"step\":41}");
    expect_event(event_of(file, process, "forward, micro-batch 2"), 0.1, 0.5, 1,
                 "{\"micro_batch\":2,\"step\":41}");
    expect_event(event_of(file, process, "layer 0"), 0.1, 0.4, 1,
                 "{\"layer\":0,\"micro_batch\":2,\"step\":41}");
    expect_event(event_of(file, process, "a product"), 0.1, 0.3, 1,
                 "{\"layer\":0,\"micro_batch\":2,\"step\":41}");
    expect_event(event_of(file, process, "all-reduce of bucket 0"), 0.7, 0.4, 2,
                 "{\"algorithm\":\"ring\",\"bucket\":0,\"bytes\":4096,\"step\":41}");
    expect_event(event_of(file, process, "all-reduce of bucket 1"), 0.8, 0.4, 3,
                 "{\"bucket\":1,\"step\":41}");
    expect_event(event_of(file, process, "waiting for bucket 1"), 1.1, 0.1, 1,
                 "{\"bucket\":1,\"step\":41}");
    expect_event(event_of(file, process, "waiting for losses and counts"), 1.3, 0.2, 1,
                 "{\"step\":41}");
    expect_event(event_of(file, process, "sum of losses and counts"), 1.3, 0.2, 2, "{\"step\":41}");
}

static void all_ranks_are_on_one_clock(void **state)
{
    (void)state;
    rank_trace_span spans[2][16];
    const size_t count = take_step(spans[0], 0);
    (void)take_step(spans[1], 777000);
    const rank_trace_of_rank ranks[] = {{"here", 0, spans[0], count},
                                        {"there", 1, spans[1], count}};
    rank_trace_clock clocks[] = {{.known = true},
                                 {.known = true, .offset_ns = 777000, .uncertainty_ns = 1500}};
    const rank_trace_all all = {.ranks = ranks,
                                .rank_count = 2,
                                .steps = 1,
                                .operation_steps = 1,
                                .clocks = clocks,
                                .operation_name = operation_name,
                                .algorithm_name = algorithm_name};
    json_t *file = write_and_read(&all);
    const json_t *other = json_object_get(file, "otherData");
    char *text = json_dumps(json_object_get(other, "clocks"), JSON_COMPACT | JSON_SORT_KEYS);
    expect_step(file, 1);
    expect_step(file, 2);
    assert_string_equal(text,
                        "[{\"first_rank\":0,\"host\":\"here\",\"known\":true,\"offset_us\":0.0,"
                        "\"uncertainty_us\":0.0},{\"first_rank\":1,\"host\":\"there\","
                        "\"known\":true,\"offset_us\":777.0,\"uncertainty_us\":1.5}]");
    assert_int_equal(json_integer_value(json_object_get(other, "whole_steps")), 1);
    assert_string_equal(json_string_value(json_object_get(
                            json_object_get(event_of(file, 2, "process_name"), "args"), "name")),
                        "rank 1 (there)");
    free(text);
    json_decref(file);
}

/* An operation in Muon's iterations has their name, and one before them its own. */
static void iterations_name_their_operations(void **state)
{
    (void)state;
    rank_trace_span spans[] = {
        EXCHANGED(RANK_TRACE_OPERATION, 3, 1100, 1200, RANK_TRACE_THREAD),
        EXCHANGED(RANK_TRACE_OPERATION, 3, 1200, 1300, RANK_TRACE_THREAD),
        EXCHANGED(RANK_TRACE_NEWTON_SCHULZ, 7, 1200, 1400, RANK_TRACE_THREAD),
        EXCHANGED(RANK_TRACE_OPTIMIZER, -1, 1100, 1500, RANK_TRACE_THREAD),
        EXCHANGED(RANK_TRACE_STEP, 9, 1000, 1600, RANK_TRACE_THREAD),
    };
    const rank_trace_of_rank ranks[] = {{"here", 0, spans, sizeof spans / sizeof spans[0]}};
    rank_trace_clock clocks[] = {{.known = true}};
    const rank_trace_all all = {.ranks = ranks,
                                .rank_count = 1,
                                .steps = 1,
                                .operation_steps = 1,
                                .clocks = clocks,
                                .operation_name = operation_name,
                                .algorithm_name = algorithm_name};
    json_t *file = write_and_read(&all);
    expect_event(event_of(file, 1, "a product"), 0.1, 0.1, 1, "{\"step\":9}");
    expect_event(event_of(file, 1, "Newton-Schulz"), 0.2, 0.1, 1, "{\"matrix\":7,\"step\":9}");
    const json_t *iterations = event_of(file, 1, "Newton-Schulz, matrix 7");
    expect_event(iterations, 0.2, 0.2, 1, "{\"matrix\":7,\"step\":9}");
    assert_string_equal(json_string_value(json_object_get(iterations, "cat")), "newton_schulz");
    json_decref(file);
}

/* A step of decoding on two ranks. Rank 1 enters attention's all-reduce 300 ns late, rank 0 the MLP's. */
static void ranks_wait_for_the_last_one(void **state)
{
    (void)state;
    enum { ALL = BOTH | RANK_TRACE_ALL_RANKS, SPANS = 9 };
    rank_trace_span spans[2][SPANS];
    for (int rank = 0; rank < 2; rank++) {
        const int64_t late = rank == 1 ? 300 : 0;
        const rank_trace_span all[SPANS] = {
            EXCHANGED(RANK_TRACE_PARTS, -1, 1400 + late, 1900, ALL),
            EXCHANGED(RANK_TRACE_ATTENTION, -1, 1100, 1900, RANK_TRACE_THREAD),
            EXCHANGED(RANK_TRACE_PARTS, -1, 2500 - late, 2600, ALL),
            EXCHANGED(RANK_TRACE_MLP, -1, 1900, 2700, RANK_TRACE_THREAD),
            EXCHANGED(RANK_TRACE_LAYER, 5, 1100, 2700, RANK_TRACE_THREAD),
            EXCHANGED(RANK_TRACE_DECODE, 7, 1100, 2800, RANK_TRACE_THREAD),
            EXCHANGED(RANK_TRACE_CANDIDATES, -1, 2900, 2950, ALL),
            EXCHANGED(RANK_TRACE_DRAW, 4, 2960, 3000, RANK_TRACE_THREAD),
            EXCHANGED(RANK_TRACE_STEP, 9, 1000, 3000, RANK_TRACE_THREAD),
        };
        memcpy(spans[rank], all, sizeof all);
        spans[rank][5].detail = 3;
        spans[rank][7].detail = 2;
    }
    const rank_trace_of_rank ranks[] = {{"here", 0, spans[0], SPANS}, {"here", 0, spans[1], SPANS}};
    rank_trace_clock clocks[] = {{.known = true}, {.known = false}};
    const rank_trace_all all = {.ranks = ranks,
                                .rank_count = 2,
                                .steps = 1,
                                .clocks = clocks,
                                .operation_name = operation_name,
                                .algorithm_name = algorithm_name};
    json_t *file = write_and_read(&all);
    static const char layer[] = "{\"layer\":5,\"step\":9,\"tokens\":7}";
    expect_event(event_of(file, 1, "waiting for rank 1: all-reduce of attention"), 0.4, 0.3, 1,
                 layer);
    expect_event(event_of(file, 1, "all-reduce of attention"), 0.7, 0.2, 1, layer);
    expect_event(event_of(file, 2, "all-reduce of attention"), 0.7, 0.2, 1, layer);
    expect_event(event_of(file, 2, "waiting for rank 0: all-reduce of MLP"), 1.2, 0.3, 1, layer);
    expect_event(event_of(file, 1, "all-reduce of MLP"), 1.5, 0.1, 1, layer);
    expect_event(event_of(file, 1, "all-gather of candidates"), 1.9, 0.05, 1, "{\"step\":9}");
    expect_event(event_of(file, 1, "forward, tokens: 7"), 0.1, 1.7, 1,
                 "{\"drafted\":3,\"step\":9,\"tokens\":7}");
    expect_event(event_of(file, 1, "tokens drawn: 4"), 1.96, 0.04, 1,
                 "{\"accepted\":2,\"drawn\":4,\"step\":9}");
    const json_t *events = json_object_get(file, "traceEvents");
    int exchanges = 0;
    int waiting = 0;
    for (size_t i = 0; i < json_array_size(events);
         i++) { /* all exchanges are in their lane as a whole */
        const json_t *event = json_array_get(events, i);
        const char *name = json_string_value(json_object_get(event, "name"));
        const bool waits = strncmp(name, "waiting", 7) == 0;
        if (json_integer_value(json_object_get(event, "tid")) == 2 && strstr(name, "attention")) {
            const bool late = json_integer_value(json_object_get(event, "pid")) == 2;
            assert_true(json_number_value(json_object_get(event, "dur")) == (late ? 0.2 : 0.5));
            exchanges++;
        }
        if (json_object_get(event, "cat") != NULL) {
            assert_int_equal(
                strcmp(json_string_value(json_object_get(event, "cat")), "waiting") == 0, waits);
            waiting += waits ? 1 : 0;
        }
    }
    assert_int_equal(exchanges, 2);
    assert_int_equal(waiting, 2);
    json_decref(file);
}

/* Nobody knows when what its ranks did was. */
static void ranks_of_an_unknown_clock_are_left_out(void **state)
{
    (void)state;
    rank_trace_span spans[2][16];
    const size_t count = take_step(spans[0], 0);
    (void)take_step(spans[1], -900); /* would be first */
    const rank_trace_of_rank ranks[] = {{"here", 0, spans[0], count},
                                        {"there", 1, spans[1], count}};
    rank_trace_clock clocks[] = {{.known = true}, {.known = false}};
    const rank_trace_all all = {.ranks = ranks,
                                .rank_count = 2,
                                .clocks = clocks,
                                .operation_name = operation_name,
                                .algorithm_name = algorithm_name};
    json_t *file = write_and_read(&all);
    const json_t *events = json_object_get(file, "traceEvents");
    const json_t *hosts = json_object_get(json_object_get(file, "otherData"), "clocks");
    expect_step(file, 1);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        assert_int_equal(json_integer_value(json_object_get(event, "pid")), 1);
    }
    assert_int_equal(json_array_size(hosts), 2);
    assert_true(json_is_false(json_object_get(json_array_get(hosts, 1), "known")));
    json_decref(file);
}

/* Of many exchanges at one time, those that find no lane are counted. */
static void lanes_are_bounded(void **state)
{
    (void)state;
    enum { MANY = RANK_TRACE_LANES_MAX + 5 };
    rank_trace_span spans[MANY];
    for (int i = 0; i < MANY; i++) {
        spans[i] = (rank_trace_span){.kind = RANK_TRACE_REDUCE,
                                     .of = RANK_TRACE_EXCHANGE,
                                     .index = i,
                                     .begin_ns = i,
                                     .end_ns = 1000};
    }
    const rank_trace_of_rank rank = {"here", 0, spans, MANY};
    rank_trace_clock clock = {.known = true};
    const rank_trace_all all = {.ranks = &rank,
                                .rank_count = 1,
                                .clocks = &clock,
                                .operation_name = operation_name,
                                .algorithm_name = algorithm_name};
    json_t *file = write_and_read(&all);
    const json_t *other = json_object_get(file, "otherData");
    assert_int_equal(json_integer_value(json_object_get(other, "exchanges_left_out")), 5);
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_are_on_one_clock),
        cmocka_unit_test(iterations_name_their_operations),
        cmocka_unit_test(ranks_wait_for_the_last_one),
        cmocka_unit_test(ranks_of_an_unknown_clock_are_left_out),
        cmocka_unit_test(lanes_are_bounded),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
