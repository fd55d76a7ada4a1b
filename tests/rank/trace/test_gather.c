/* Two ranks gather their traces; and one of them sends what it cannot have. */
#include "trace/gather.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "ranks.h"
#include "support.h"

enum { STEPS = 3, PARTS = 4 };

/* What rank 1 makes of its trace before it is gathered. */
typedef struct lie {
    rank_trace_span span; /* in place of one of its spans */
    bool operation;       /* of the other ring */
    bool refused;         /* the file is not written */
} lie;

static const char *operation_name(int part)
{
    return part >= 0 && part < PARTS ? "a product" : NULL;
}

static void take_steps(rank_trace *trace, int steps)
{
    for (int step = 0; step < steps; step++) {
        rank_trace_step_begin(trace, base_now_ns());
        const int64_t begun_ns = rank_trace_begin(trace);
        rank_trace_operation(trace, step % PARTS, base_now_ns());
        (void)rank_trace_add(
            trace, (rank_trace_span){.kind = RANK_TRACE_LAYER, .begin_ns = begun_ns, .index = 0});
        rank_trace_step_end(trace, step, base_now_ns());
    }
}

static const char *path_of_trace(void)
{
    return test_shared_path("trace.json");
}

static void gather_body(test_rank *rank)
{
    const lie *told = rank->user;
    rank_trace *trace = NULL;
    RANK_OK(rank, rank_trace_create(STEPS, rank->size, &trace, &rank->failure));
    take_steps(trace, 2 * STEPS);
    if (rank->rank == 1) {
        rank_trace_ring *ring = told->operation ? &trace->operations : &trace->spans;
        rank_trace_span *span = &ring->spans[ring->count - 2]; /* of the last step */
        const int64_t begin_ns = span->begin_ns;
        const int64_t end_ns = span->end_ns;
        *span = told->span;
        span->begin_ns += begin_ns;
        span->end_ns += span->end_ns >= 0 ? end_ns : begin_ns;
        if (told->operation) {
            trace->operations.count--; /* so that the last step's is the one */
        }
    }
    RANK_OK(rank, rank_trace_gather(trace, coll_context_world(rank->context),
                                    &(rank_trace_place){path_of_trace(), operation_name},
                                    &rank->failure));
    rank_trace_destroy(trace);
}

/* No job fails by that: it has no trace, nor one of an older run. */
static void spans_that_are_none_are_not_written(void **state)
{
    (void)state;
    static const uint8_t thread = RANK_TRACE_THREAD;
    static const lie lies[] = {
        {.span = {.kind = RANK_TRACE_LAYER, .of = thread, .index = 7}},
        {.span = {.kind = RANK_TRACE_KINDS, .of = thread}, .refused = true},
        {.span = {.kind = UINT8_MAX, .of = thread}, .refused = true},
        {.span = {.kind = RANK_TRACE_LAYER, .of = thread | RANK_TRACE_EXCHANGE}, .refused = true},
        {.span = {.kind = RANK_TRACE_LAYER, .of = 1 << 5}, .refused = true},
        {.span = {.kind = RANK_TRACE_LAYER, .of = thread, .end_ns = -1}, .refused = true},
        {.span = {.kind = RANK_TRACE_LAYER, .of = thread, .end_ns = INT64_MAX / 2},
         .refused = true},
        {.span = {.kind = RANK_TRACE_OPERATION, .of = thread, .index = PARTS - 1},
         .operation = true},
        {.span = {.kind = RANK_TRACE_OPERATION, .of = thread, .index = PARTS},
         .operation = true,
         .refused = true},
        {.span = {.kind = RANK_TRACE_OPERATION, .of = thread, .index = -1},
         .operation = true,
         .refused = true},
    };
    base_error error;
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        lie told = lies[i];
        assert_ok(base_file_write(path_of_trace(), "old", 3, &error), &error);
        test_ranks_as_threads(
            &(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM, .user = &told},
            gather_body);
        size_t bytes = 0;
        if (told.refused) {
            assert_int_not_equal(access(path_of_trace(), F_OK), 0);
            continue;
        }
        void *text = test_file_read(path_of_trace(), &bytes);
        assert_true(bytes > 3);
        free(text);
    }
}

/* More spans, or more steps, than a rank of this job has room for. */
static void too_many_body(test_rank *rank)
{
    enum { FACTOR = 3 };
    const size_t room = FACTOR * rank_trace_capacity(rank->size);
    rank_trace *trace = NULL;
    base_error error;
    RANK_OK(rank, rank_trace_create((int)room, rank->size, &trace, &rank->failure));
    if (rank->rank == 1) {
        free(trace->spans.spans);
        trace->spans.spans = calloc(room, sizeof *trace->spans.spans);
        free(trace->operations.spans);
        trace->operations.spans = calloc(room, sizeof *trace->operations.spans);
        trace->capacity = room;
        RANK_CHECK(rank, trace->spans.spans != NULL && trace->operations.spans != NULL);
    }
    if (rank->user != NULL) {
        take_steps(trace, rank->rank == 0 ? 1 : (int)rank_trace_capacity(rank->size) + 1);
    } else {
        rank_trace_step_begin(trace, base_now_ns()); /* spans of one step */
        for (size_t i = 0; i < room - 1; i++) {
            rank_trace_add(trace,
                           (rank_trace_span){.kind = RANK_TRACE_LAYER, .begin_ns = base_now_ns()});
        }
        rank_trace_step_end(trace, 0, base_now_ns());
    }
    const base_status status =
        rank_trace_gather(trace, coll_context_world(rank->context),
                          &(rank_trace_place){path_of_trace(), operation_name}, &error);
    RANK_CHECK(rank, status == BASE_ERR_PEER);
    RANK_CHECK(rank, strstr(error.message, "rank 1 announced") != NULL);
    rank_trace_destroy(trace);
}

static void all_ranks_refuse_a_count_that_cannot_be(void **state)
{
    (void)state;
    int steps = 1;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM},
                          too_many_body);
    test_ranks_as_threads(
        &(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM, .user = &steps},
        too_many_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_that_are_none_are_not_written),
        cmocka_unit_test(all_ranks_refuse_a_count_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
