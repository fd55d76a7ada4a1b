/* Pipeline schedules: for all small pipelines, each task comes once and after what it needs, the
 * bubble is the formula's, and no stage holds more activations than promised. */
#include "pipeline/timeline.h"
#include "support.h"

enum { STAGES = 9, MICRO_BATCHES = 18, CHUNKS = 4 };

static launch_pipeline_span spans[STAGES * PROTO_PIPELINE_PASSES * MICRO_BATCHES * CHUNKS];

typedef void each_case(const proto_pipeline *pipeline);

/* Calls `one` for each pipeline that proto_pipeline_check accepts. */
static void for_each(each_case *one)
{
    int cases = 0;
    for (int kind = 0; kind < PROTO_PIPELINE_KINDS; kind++) {
        for (int p = 1; p <= STAGES; p++) {
            for (int m = 1; m <= MICRO_BATCHES; m++) {
                for (int v = 1; v <= CHUNKS; v++) {
                    const proto_pipeline pipeline = {.kind = (proto_pipeline_kind)kind,
                                                     .stages = p,
                                                     .chunks = v,
                                                     .micro_batches = m};
                    if (proto_pipeline_check(&pipeline, NULL) == BASE_OK) {
                        one(&pipeline);
                        cases++;
                    }
                }
            }
        }
    }
    /* gpipe, 1f1b and zb-h1: 9 × 18 each; interleaved: 4 chunks × (18 + 9 + 6 + 4 + 3 + 3 + 2 + 2 + 2) */
    assert_int_equal(cases, 3 * 162 + 4 * 49);
}

/* What a pass adds to the activations that a stage holds. */
static int holds(const proto_pipeline *pipeline, proto_pipeline_pass pass)
{
    const bool splits = pipeline->kind == PROTO_PIPELINE_ZB_H1;
    return pass == PROTO_PIPELINE_FORWARD                                        ? 1
           : pass == (splits ? PROTO_PIPELINE_WEIGHTS : PROTO_PIPELINE_BACKWARD) ? -1
                                                                                 : 0;
}

static void each_task_once(const proto_pipeline *pipeline)
{
    for (int stage = 0; stage < pipeline->stages; stage++) {
        bool seen[PROTO_PIPELINE_PASSES][CHUNKS][MICRO_BATCHES] = {0};
        int last[PROTO_PIPELINE_PASSES][CHUNKS];
        int held = 0;
        int held_max = 0;
        int held_of[CHUNKS] = {0};
        int held_of_max[CHUNKS] = {0};
        for (int c = 0; c < CHUNKS; c++) {
            last[0][c] = last[1][c] = last[2][c] = -1;
        }
        for (int i = 0; i < proto_pipeline_tasks(pipeline); i++) {
            const proto_pipeline_task task = proto_pipeline_task_at(pipeline, stage, i);
            assert_in_range(task.chunk, 0, pipeline->chunks - 1);
            assert_in_range(task.micro_batch, 0, pipeline->micro_batches - 1);
            assert_in_range(task.pass, 0, PROTO_PIPELINE_PASSES - 1);
            assert_false(seen[task.pass][task.chunk][task.micro_batch]);
            seen[task.pass][task.chunk][task.micro_batch] = true;
            assert_int_equal(proto_pipeline_index_of(pipeline, stage, &task), i);
            /* in the order of micro-batches, so that gradients are added up in one order */
            assert_int_equal(task.micro_batch, last[task.pass][task.chunk] + 1);
            last[task.pass][task.chunk] = task.micro_batch;
            held += holds(pipeline, task.pass);
            held_max = held > held_max ? held : held_max;
            held_of[task.chunk] += holds(pipeline, task.pass);
            if (held_of[task.chunk] > held_of_max[task.chunk]) {
                held_of_max[task.chunk] = held_of[task.chunk];
            }
        }
        for (int c = 0; c < pipeline->chunks; c++) {
            assert_int_equal(proto_pipeline_held_of(pipeline, stage, c), held_of_max[c]);
        }
        assert_int_equal(proto_pipeline_tasks(pipeline),
                         (pipeline->kind == PROTO_PIPELINE_ZB_H1 ? 3 : 2) * pipeline->chunks *
                             pipeline->micro_batches);
        assert_int_equal(held_max, proto_pipeline_held(pipeline, stage));
    }
}

static void test_each_task_once(void **state)
{
    (void)state;
    for_each(each_task_once);
}

/* What a task needs, by the definition of the parts and not by the code's own function. */
static void check_needs(const proto_pipeline *pipeline, int stage, int index, int64_t hop_ns)
{
    const int tasks = proto_pipeline_tasks(pipeline);
    const int parts = pipeline->stages * pipeline->chunks;
    const proto_pipeline_task task = proto_pipeline_task_at(pipeline, stage, index);
    const launch_pipeline_span *span = &spans[stage * tasks + index];
    const int part = task.chunk * pipeline->stages + stage;
    for (int other = 0; other < parts; other++) {
        const int other_stage = other % pipeline->stages;
        const int64_t hop = other_stage == stage ? 0 : hop_ns;
        for (int pass = 0; pass <= PROTO_PIPELINE_BACKWARD; pass++) {
            const proto_pipeline_task before = {.pass = (proto_pipeline_pass)pass,
                                                .chunk = other / pipeline->stages,
                                                .micro_batch = task.micro_batch};
            const int place = proto_pipeline_index_of(pipeline, other_stage, &before);
            const bool forward = before.pass == PROTO_PIPELINE_FORWARD;
            const bool needed = task.pass == PROTO_PIPELINE_FORWARD    ? forward && other < part
                                : task.pass == PROTO_PIPELINE_BACKWARD ? forward || other > part
                                                                       : forward || other >= part;
            if (needed) {
                assert_true(spans[other_stage * tasks + place].end_ns + hop <= span->begin_ns);
            }
        }
    }
    assert_true(index == 0 || span[-1].end_ns <= span->begin_ns);
}

/* How much earlier than 1f1b a step of zb-h1 ends: stages are idle for (p - 1) (F + B) - W · min(p - 1, m - 1), and
 * for (p - 1) (F + B + W). */
static int64_t saved_ns(const proto_pipeline *pipeline, int64_t weights_ns)
{
    const int behind = pipeline->stages - 1;
    const int put_off = behind < pipeline->micro_batches - 1 ? behind : pipeline->micro_batches - 1;
    return pipeline->kind == PROTO_PIPELINE_ZB_H1 ? (behind + put_off) * weights_ns : 0;
}

static void plays(const proto_pipeline *pipeline)
{
    /* forward, backward, of that for weights, and a hop */
    static const int64_t cases[][4] = {{10, 20, 10, 0}, {20, 20, 10, 0}, {30, 7, 2, 0},
                                       {10, 17, 5, 0},  {10, 25, 10, 0}, {10, 20, 10, 3}};
    const int tasks = proto_pipeline_tasks(pipeline);
    const int parts = pipeline->stages * pipeline->chunks;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        launch_pipeline_part each[STAGES * CHUNKS];
        for (int part = 0; part < parts; part++) {
            each[part] = (launch_pipeline_part){cases[i][0], cases[i][1], cases[i][2]};
        }
        const int64_t hop_ns = cases[i][3];
        const launch_pipeline_costs costs = {.parts = each, .hop_ns = hop_ns};
        launch_pipeline_result result;
        launch_pipeline_play(pipeline, &costs, spans, &result);
        for (int stage = 0; stage < pipeline->stages; stage++) {
            for (int index = 0; index < tasks; index++) {
                check_needs(pipeline, stage, index, hop_ns);
            }
        }
        const int64_t both = cases[i][0] + cases[i][1];
        const int64_t ideal =
            (pipeline->micro_batches * pipeline->chunks + pipeline->stages - 1) * both -
            saved_ns(pipeline, cases[i][2]);
        /* the formula is that of equal passes, where they differ */
        const bool equal = pipeline->kind != PROTO_PIPELINE_ZB_H1 || i == 0;
        if (hop_ns == 0) {
            assert_int_equal(result.step_ns, ideal);
        } else {
            assert_true(result.step_ns >= ideal + 2 * (pipeline->stages - 1) * hop_ns);
        }
        if (hop_ns == 0 && equal) {
            assert_true(result.bubble > proto_pipeline_bubble(pipeline) - 1e-12);
            assert_true(result.bubble < proto_pipeline_bubble(pipeline) + 1e-12);
        }
        assert_int_equal(result.messages,
                         pipeline->stages == 1 ? 0 : 2 * (parts - 1) * pipeline->micro_batches);
    }
}

static void test_plays(void **state)
{
    (void)state;
    for_each(plays);
}

/* The first part takes the tied gradient before each of its backwards, and is idle meanwhile. */
static void waits_for_tied_gradients(const proto_pipeline *pipeline)
{
    enum { TIED_NS = 7, HOP_NS = 3, BOTH_NS = 30 };
    const int tasks = proto_pipeline_tasks(pipeline);
    const int parts = pipeline->stages * pipeline->chunks;
    launch_pipeline_part each[STAGES * CHUNKS];
    for (int part = 0; part < parts; part++) {
        each[part] = (launch_pipeline_part){10, BOTH_NS - 10, 10};
    }
    const launch_pipeline_costs costs = {.parts = each, .hop_ns = HOP_NS, .tied_ns = TIED_NS};
    launch_pipeline_result result;
    launch_pipeline_play(pipeline, &costs, spans, &result);
    for (int index = 0; index < tasks; index++) {
        const proto_pipeline_task task = proto_pipeline_task_at(pipeline, 0, index);
        if (task.pass == PROTO_PIPELINE_BACKWARD && task.chunk == 0) {
            spans[index].begin_ns -= TIED_NS; /* by then, all that it needs is there */
        }
        check_needs(pipeline, 0, index, HOP_NS);
    }
    const double busy_ns = (double)parts * pipeline->micro_batches * BOTH_NS;
    const double bubble = 1 - busy_ns / ((double)result.step_ns * pipeline->stages);
    assert_true(result.bubble > bubble - 1e-12 && result.bubble < bubble + 1e-12);
}

static void test_tied_gradients_are_waited_for(void **state)
{
    (void)state;
    for_each(waits_for_tied_gradients);
}

/* Whether a stage has run a task. */
static bool has_run(const proto_pipeline *pipeline, const int *next, int part,
                    proto_pipeline_pass pass, int micro_batch)
{
    const int stage = part % pipeline->stages;
    const proto_pipeline_task task = {pass, part / pipeline->stages, micro_batch};
    return proto_pipeline_index_of(pipeline, stage, &task) < next[stage];
}

/* Whether the stage's next task can run on ranks: what it needs is there, and so are the buffers from which
 * it sends. Those of a chunk are taken in turns, and so are the last part's for the tied gradient. What an
 * earlier micro-batch has sent from one of them is received when the task that needs it runs. */
static bool can_run(const proto_pipeline *pipeline, int stage, const int *next)
{
    const proto_pipeline_task task = proto_pipeline_task_at(pipeline, stage, next[stage]);
    const int parts = pipeline->stages * pipeline->chunks;
    const int part = task.chunk * pipeline->stages + stage;
    const bool backward = task.pass == PROTO_PIPELINE_BACKWARD;
    const int to = task.pass == PROTO_PIPELINE_WEIGHTS ? -1 : part + (backward ? -1 : 1);
    const int in_turn = proto_pipeline_held_of(pipeline, stage, task.chunk);
    const int earlier = task.micro_batch - in_turn;
    const int tied_earlier = task.micro_batch - pipeline->stages;
    proto_pipeline_task before;
    int from = stage;
    if (proto_pipeline_needs(pipeline, stage, &task, &from, &before) &&
        proto_pipeline_index_of(pipeline, from, &before) >= next[from]) {
        return false;
    }
    if (backward && part == parts - 1 && tied_earlier >= 0 &&
        !has_run(pipeline, next, 0, PROTO_PIPELINE_BACKWARD, tied_earlier)) {
        return false;
    }
    return earlier < 0 || to < 0 || to == parts || has_run(pipeline, next, to, task.pass, earlier);
}

/* Stages that also wait until they can use their buffers again still come to the end. */
static void ends(const proto_pipeline *pipeline)
{
    const int tasks = proto_pipeline_tasks(pipeline);
    int next[STAGES] = {0};
    int left = pipeline->stages * tasks;
    while (left > 0) {
        const int before = left;
        for (int stage = 0; stage < pipeline->stages; stage++) {
            while (next[stage] < tasks && can_run(pipeline, stage, next)) {
                next[stage]++;
                left--;
            }
        }
        if (left == before) {
            fail_msg("%s with %d stages, %d chunks, %d micro-batches stops with %d tasks left",
                     proto_pipeline_name(pipeline->kind), pipeline->stages, pipeline->chunks,
                     pipeline->micro_batches, left);
        }
    }
}

static void test_buffers_stop_no_pipeline(void **state)
{
    (void)state;
    for_each(ends);
}

/* Between two ranks messages of one kind are received in the order in which they are sent: forward goes to
 * the next part, from the last stage to the first, and backward the other way. */
static void in_order(const proto_pipeline *pipeline)
{
    const int parts = pipeline->stages * pipeline->chunks;
    for (int from = 0; from < pipeline->stages; from++) {
        for (int pass = 0; pass <= PROTO_PIPELINE_BACKWARD; pass++) {
            const int step = pass == PROTO_PIPELINE_BACKWARD ? -1 : 1;
            const int to = (from + pipeline->stages + step) % pipeline->stages;
            int received = -1;
            for (int i = 0; i < proto_pipeline_tasks(pipeline); i++) {
                proto_pipeline_task task = proto_pipeline_task_at(pipeline, from, i);
                const int part = task.chunk * pipeline->stages + from + step;
                if ((int)task.pass != pass || part < 0 || part == parts) {
                    continue;
                }
                task.chunk = part / pipeline->stages;
                const int place = proto_pipeline_index_of(pipeline, to, &task);
                assert_true(place > received);
                received = place;
            }
        }
    }
}

static void test_messages_are_in_order(void **state)
{
    (void)state;
    for_each(in_order);
}

/* Whether a stage has run a forward of an evaluation: next has the index of each stage's next task. */
static bool has_evaluated(const proto_pipeline *pipeline, int batches, const int *next, int part,
                          int batch)
{
    const int stage = part % pipeline->stages;
    for (int i = 0; i < next[stage]; i++) {
        const proto_pipeline_task task = proto_pipeline_forward_at(pipeline, batches, i);
        if (task.chunk == part / pipeline->stages && task.micro_batch == batch) {
            return true;
        }
    }
    return false;
}

/* The same as can_run: its input is there, and what was sent from its buffer is received. */
static bool can_evaluate(const proto_pipeline *pipeline, int batches, int stage, const int *next)
{
    const proto_pipeline_task task = proto_pipeline_forward_at(pipeline, batches, next[stage]);
    const int parts = pipeline->stages * pipeline->chunks;
    const int part = task.chunk * pipeline->stages + stage;
    const int earlier = task.micro_batch - proto_pipeline_held_of(pipeline, stage, task.chunk);
    if (part > 0 && !has_evaluated(pipeline, batches, next, part - 1, task.micro_batch)) {
        return false;
    }
    return earlier < 0 || part == parts - 1 ||
           has_evaluated(pipeline, batches, next, part + 1, earlier);
}

static void evaluates(const proto_pipeline *pipeline, int batches)
{
    const int tasks = batches * pipeline->chunks;
    int next[STAGES] = {0};
    int left = pipeline->stages * tasks;
    while (left > 0) {
        const int before = left;
        for (int stage = 0; stage < pipeline->stages; stage++) {
            while (next[stage] < tasks && can_evaluate(pipeline, batches, stage, next)) {
                next[stage]++;
                left--;
            }
        }
        if (left == before) {
            fail_msg("%s with %d stages, %d chunks, %d micro-batches: %d batches stop with %d left",
                     proto_pipeline_name(pipeline->kind), pipeline->stages, pipeline->chunks,
                     pipeline->micro_batches, batches, left);
        }
    }
}

/* Forwards alone, of any number of batches: each comes once, the batches of a chunk in order. The rows of those that
 * are between two chunks have places in the first chunk, and buffers stop no stage. */
static void evaluations(const proto_pipeline *pipeline)
{
    if (pipeline->stages == 1 && pipeline->chunks > 1) {
        return; /* ranks refuse it */
    }
    for (int batches = 0; batches <= 2 * pipeline->stages + 1; batches++) {
        int of_chunk[CHUNKS] = {0};
        for (int i = 0; i < batches * pipeline->chunks; i++) {
            const proto_pipeline_task task = proto_pipeline_forward_at(pipeline, batches, i);
            assert_int_equal(task.pass, PROTO_PIPELINE_FORWARD);
            assert_in_range(task.chunk, 0, pipeline->chunks - 1);
            assert_int_equal(task.micro_batch, of_chunk[task.chunk]++);
            assert_true(pipeline->chunks == 1 ||
                        of_chunk[0] <= task.micro_batch + pipeline->stages);
        }
        assert_int_equal(of_chunk[pipeline->chunks - 1], batches);
        evaluates(pipeline, batches);
    }
    for (int stage = 0; pipeline->chunks > 1 && stage < pipeline->stages; stage++) {
        assert_true(proto_pipeline_held_of(pipeline, stage, 0) >= pipeline->stages);
    }
}

static void test_evaluations_come_to_their_end(void **state)
{
    (void)state;
    for_each(evaluations);
}

/* The figures of the papers: GPipe's bubble at m = 4 p is below 20 %; 1F1B holds p micro-batches
 * where GPipe holds m; v chunks divide the bubble by v, in units of the work. */
static void test_known(void **state)
{
    (void)state;
    const proto_pipeline gpipe = {PROTO_PIPELINE_GPIPE, 4, 1, 16};
    const proto_pipeline one = {PROTO_PIPELINE_1F1B, 4, 1, 16};
    const proto_pipeline interleaved = {PROTO_PIPELINE_INTERLEAVED, 4, 2, 16};
    assert_true(proto_pipeline_bubble(&gpipe) == 3.0 / 19);
    assert_true(proto_pipeline_bubble(&one) == 3.0 / 19);
    assert_true(proto_pipeline_bubble(&interleaved) == 3.0 / 35);
    assert_int_equal(proto_pipeline_held(&gpipe, 0), 16);
    assert_int_equal(proto_pipeline_held(&one, 0), 4);
    assert_int_equal(proto_pipeline_held(&one, 3), 1);
    assert_int_equal(proto_pipeline_held(&interleaved, 0), 11); /* chunks: 5.5 stages */
    /* ZB-H1: a third of 1F1B's bubble, 3 of 51 passes in place of 9 of 57, and what its first stage holds on all */
    const proto_pipeline zero_bubble = {PROTO_PIPELINE_ZB_H1, 4, 1, 16};
    assert_true(proto_pipeline_bubble(&zero_bubble) == 3.0 / 51);
    assert_int_equal(proto_pipeline_held(&zero_bubble, 0), 4);
    assert_int_equal(proto_pipeline_held(&zero_bubble, 3), 4);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        proto_pipeline pipeline;
        const char *message;
    } cases[] = {
        {{PROTO_PIPELINE_GPIPE, 0, 1, 1}, "0 stages: must be from 1 to 64"},
        {{PROTO_PIPELINE_GPIPE, 65, 1, 1}, "65 stages: must be from 1 to 64"},
        {{PROTO_PIPELINE_GPIPE, 2, 1, 0}, "0 micro-batches: must be from 1 to 65536"},
        {{PROTO_PIPELINE_INTERLEAVED, 2, 17, 2}, "17 chunks: must be from 1 to 16"},
        {{PROTO_PIPELINE_1F1B, 2, 2, 2}, "1f1b has one chunk per stage, not 2"},
        {{PROTO_PIPELINE_ZB_H1, 2, 2, 2}, "zb-h1 has one chunk per stage, not 2"},
        {{PROTO_PIPELINE_INTERLEAVED, 4, 2, 6},
         "interleaved: 6 micro-batches are not a multiple of 4 stages"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error;
        assert_int_equal(proto_pipeline_check(&cases[i].pipeline, &error), BASE_ERR_INVALID);
        assert_string_equal(error.message, cases[i].message);
    }
}

/* Each part has its own times: a slow last stage makes the others wait. */
static void test_unequal_parts(void **state)
{
    (void)state;
    static const launch_pipeline_part parts[] = {{10, 20, 0}, {10, 20, 0}, {30, 60, 0}};
    const proto_pipeline pipeline = {PROTO_PIPELINE_GPIPE, 3, 1, 2};
    const launch_pipeline_costs costs = {.parts = parts};
    launch_pipeline_run run;
    base_error error;
    assert_ok(launch_pipeline_run_make(&pipeline, &costs, &run, &error), &error);
    assert_int_equal(run.result.step_ns, 20 + 2 * 90 + 40);
    assert_true(run.result.bubble > 1 - (2 * 30 + 2 * 30 + 2 * 90) / (3 * 240.0) - 1e-12);
    assert_true(run.result.bubble < 1 - (2 * 30 + 2 * 30 + 2 * 90) / (3 * 240.0) + 1e-12);
    launch_pipeline_run_fini(&run);
    const proto_pipeline large = {PROTO_PIPELINE_1F1B, 64, 1, 65536};
    assert_int_equal(launch_pipeline_run_make(&large, &costs, &run, &error), BASE_ERR_LIMIT);
    launch_pipeline_run_fini(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_task_once),
        cmocka_unit_test(test_plays),
        cmocka_unit_test(test_tied_gradients_are_waited_for),
        cmocka_unit_test(test_buffers_stop_no_pipeline),
        cmocka_unit_test(test_messages_are_in_order),
        cmocka_unit_test(test_evaluations_come_to_their_end),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_unequal_parts),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("launcher-pipeline", tests, NULL, NULL);
}
