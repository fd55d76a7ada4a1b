/* manifest.json of record/record.h: its fields, and figures computed by hand. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/record.h"
#include "sample.h"
#include "support.h"

static const struct {
    const char *key;
    json_type type;
} FIELDS[] = {
    {"seed", JSON_INTEGER},
    {"lab", JSON_STRING},
    {"backend", JSON_STRING},
    {"world_size", JSON_INTEGER},
    {"model_params", JSON_INTEGER},
    {"trained_params", JSON_INTEGER},
    {"steps", JSON_INTEGER},
    {"allreduce_p50_ms", JSON_REAL},
    {"allreduce_p95_ms", JSON_REAL},
    {"tokens_per_sec_1proc", JSON_REAL},
    {"tokens_per_sec_2proc", JSON_REAL},
    {"byte_equivalent", JSON_TRUE},
    {"suspect", JSON_NULL},
    {"lesson_notes", JSON_STRING},
    {"argv", JSON_ARRAY},
    {"git_commit", JSON_STRING},
    {"compiler", JSON_STRING},
    {"compiler_flags", JSON_STRING},
    {"host", JSON_STRING},
    {"kernel", JSON_STRING},
    {"cpus_allowed", JSON_INTEGER},
    {"data", JSON_OBJECT},
    {"model", JSON_OBJECT},
    {"training", JSON_OBJECT},
    {"started_by", JSON_STRING},
    {"rerun", JSON_STRING},
    {"max_abs_difference", JSON_REAL},
    {"step_ms", JSON_OBJECT},
    {"mean_step", JSON_OBJECT},
    {"compute_ms", JSON_OBJECT},
    {"allreduce_ms", JSON_OBJECT},
    {"allreduce_exposed_ms", JSON_OBJECT},
    {"optimizer_ms", JSON_OBJECT},
    {"started_at", JSON_STRING},
    {"ended_at", JSON_STRING},
    {"exit_status", JSON_INTEGER},
    {"message", JSON_NULL},
    {"unbound_because", JSON_NULL},
    {"scaling_failed", JSON_ARRAY},
    {"transport", JSON_STRING},
    {"algorithm", JSON_STRING},
    {"instruction_set", JSON_STRING},
    {"experts", JSON_NULL},
    {"eval", JSON_NULL},
    {"token", JSON_NULL},
    {"gpu", JSON_NULL},
    {"ranks", JSON_ARRAY},
    {"scaling", JSON_ARRAY},
};

static void the_manifest_has_its_fields(void **state)
{
    (void)state;
    static sample made;
    sample_make(&made, "out", 2, 20);
    made.ranks[1].bound = true;
    CPU_SET(3, &made.ranks[1].cpus);
    CPU_SET(7, &made.ranks[1].cpus);
    json_t *manifest = sample_manifest(&made, 20);
    for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++) {
        const json_t *value = json_object_get(manifest, FIELDS[i].key);
        if (value == NULL || json_typeof(value) != FIELDS[i].type) {
            fail_msg("%s is %s", FIELDS[i].key, value == NULL ? "missing" : "of another type");
        }
    }
    assert_string_equal(json_string_value(json_object_get(manifest, "lab")), "01-ddp-on-cpu");
    assert_string_equal(json_string_value(json_object_get(manifest, "backend")),
                        "ringfence-shm-direct");
    assert_string_equal(json_string_value(json_object_get(manifest, "rerun")),
                        "build/release/bin/launcher --ranks 2 --mode ddp-cpu --out "
                        "'my experiment'\\''s <out>'");
    const char *flags = json_string_value(json_object_get(manifest, "compiler_flags"));
    assert_null(strstr(flags, "$<")); /* what was compiled with, not how CMake says it */
    const json_t *rank = json_array_get(json_object_get(manifest, "ranks"), 1);
    assert_memory_equal(json_string_value(json_object_get(rank, "params_sha256")), "abababab", 8);
    sample_assert_near(sample_number(rank, "pid"), 4243);
    const json_t *cpus = json_object_get(rank, "cpus");
    assert_int_equal(json_array_size(cpus), 2);
    assert_int_equal(json_integer_value(json_array_get(cpus, 1)), 7);
    rank = json_array_get(json_object_get(manifest, "ranks"), 0);
    assert_true(json_is_null(json_object_get(rank, "cpus")));
    json_decref(manifest);
}

/* Milliseconds of a day, from "2026-01-02T03:04:05.678Z". */
static int64_t day_ms(const json_t *manifest, const char *key)
{
    const char *text = json_string_value(json_object_get(manifest, key));
    assert_int_equal(strlen(text), strlen("2026-01-02T03:04:05.678Z"));
    const int64_t minutes = strtol(text + 11, NULL, 10) * 60 + strtol(text + 14, NULL, 10);
    return (minutes * 60 + strtol(text + 17, NULL, 10)) * 1000 + strtol(text + 20, NULL, 10);
}

/* wall_seconds is what lies between the two times, to the millisecond. */
static void the_wall_time_is_that_between_start_and_end(void **state)
{
    (void)state;
    static sample made;
    sample_make(&made, "out", 2, 1);
    launch_record *record = sample_begin(&made, 0);
    const int64_t until_ns = base_now_ns() + 20 * BASE_NS_PER_MS;
    while (base_now_ns() < until_ns) { /* so that it is not 0 */
    }
    sample_end(&made, record);
    json_t *manifest = sample_load(made.options.out, "manifest.json");
    const int64_t day = INT64_C(24) * 3600 * 1000;
    const int64_t between_ms =
        (day_ms(manifest, "ended_at") - day_ms(manifest, "started_at") + day) % day;
    assert_true(between_ms > 0);
    sample_assert_near(sample_number(manifest, "wall_seconds"), (double)between_ms / 1000);
    json_decref(manifest);
}

/* The figures are those of steps 2 and 3 of 4, computed by hand. */
static void the_last_half_is_measured(void **state)
{
    (void)state;
    static const int64_t STEP_MS[4][2] = {{900, 900}, {900, 900}, {10, 20}, {40, 30}};
    static sample made;
    base_error error;
    sample_make(&made, "out", 2, 4);
    launch_record *record = sample_begin(&made, 0);
    for (int i = 0; i < 8; i++) {
        launch_step step = sample_step(&made, (uint64_t)(i / 2), i % 2);
        step.times.step_ns = STEP_MS[i / 2][i % 2] * 1000000;
        step.times.allreduce_ns = step.times.step_ns / 10;
        step.times.allreduce_exposed_ns = 0;
        step.times.compute_ns = step.times.step_ns / 2;
        step.times.optimizer_ns = 0;
        step.times.tokens = 600;
        sample_add(record, &step);
    }
    assert_ok(launch_record_finish(record, &made.end, &error), &error);
    assert_status(launch_record_finish(record, &made.end, &error), BASE_ERR_STATE);
    launch_record_close(record);

    json_t *manifest = sample_load(made.options.out, "manifest.json");
    sample_assert_near(sample_number(manifest, "tokens_per_sec_2proc"), 4 * 600 / 0.05);
    sample_assert_near(sample_number(manifest, "tokens_per_sec_1proc"), 96400);
    sample_assert_near(sample_number(manifest, "allreduce_p50_ms"), 2.5);
    sample_assert_near(sample_number(manifest, "allreduce_p95_ms"), 3.85);
    sample_assert_near(sample_number(json_object_get(manifest, "step_ms"), "median"), 30);
    sample_assert_near(sample_number(json_object_get(manifest, "step_ms"), "mean"), 30);
    const json_t *mean = json_object_get(manifest, "mean_step"); /* rank 1's step, then rank 0's */
    sample_assert_near(sample_number(mean, "step_ms"), 30);
    sample_assert_near(sample_number(mean, "compute_ms"), 15);
    sample_assert_near(sample_number(mean, "overlapped_ms"), 3);
    sample_assert_near(sample_number(mean, "other_ms"), 12);
    for (size_t r = 0; r < 2; r++) {
        const json_t *rank = json_array_get(json_object_get(manifest, "ranks"), r);
        mean = json_object_get(rank, "mean_step");
        sample_assert_near(sample_number(mean, "step_ms"), 25);
    }
    json_decref(manifest);
}

/* Stopped before the first step: no rank has reported, and nothing is measured. */
static void unmeasured_figures_are_null(void **state)
{
    (void)state;
    static const char *const NULLS[] = {"allreduce_p50_ms",
                                        "allreduce_p95_ms",
                                        "tokens_per_sec_1proc",
                                        "tokens_per_sec_2proc",
                                        "byte_equivalent",
                                        "max_abs_difference",
                                        "tokens_per_sec",
                                        "loss_last",
                                        "transport",
                                        "eval"};
    static sample made;
    sample_make(&made, "out", 2, 20);
    made.end =
        (launch_record_end){.exit_status = 137, .message = "rank 1 was killed by \xff SIGKILL"};
    json_t *manifest = sample_manifest(&made, 0);
    for (size_t i = 0; i < sizeof NULLS / sizeof NULLS[0]; i++) {
        if (!json_is_null(json_object_get(manifest, NULLS[i]))) {
            fail_msg("%s is not null", NULLS[i]);
        }
    }
    sample_assert_near(sample_number(manifest, "exit_status"), 137);
    assert_string_equal(json_string_value(json_object_get(manifest, "message")),
                        "rank 1 was killed by � SIGKILL");
    assert_string_equal(json_string_value(json_object_get(manifest, "backend")), "ringfence");
    json_decref(manifest);
}

static void one_differing_rank_is_seen(void **state)
{
    (void)state;
    static sample made;
    sample_make(&made, "out", 3, 4);
    made.ranks[2].params_sha256[31] ^= 1;
    made.ranks[2].max_abs_difference = 0.25;
    json_t *manifest = sample_manifest(&made, 4);
    assert_true(json_is_false(json_object_get(manifest, "byte_equivalent")));
    sample_assert_near(sample_number(manifest, "max_abs_difference"), 0.25);
    json_decref(manifest);

    made.ranks[1].finished = false; /* a rank that never finished: not known */
    manifest = sample_manifest(&made, 4);
    assert_true(json_is_null(json_object_get(manifest, "byte_equivalent")));
    json_decref(manifest);
}

static void the_data_file_is_identified(void **state)
{
    (void)state;
    static sample made;
    test_shared_put("data.jsonl", "abc");
    sample_make(&made, "out", 1, 4);
    (void)snprintf(made.job.data.train, sizeof made.job.data.train, "%s/./data.jsonl",
                   test_shared_directory.path);
    assert_int_equal(chdir(test_shared_directory.path), 0);
    json_t *manifest = sample_manifest(&made, 4);
    assert_int_equal(chdir("/"), 0);
    const json_t *entry = json_object_get(manifest, "data");
    assert_string_equal(json_string_value(json_object_get(entry, "path")), "data.jsonl");
    assert_string_equal(json_string_value(json_object_get(entry, "sha256")),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    json_decref(manifest);
}

static void write_routed_steps(const sample *made)
{
    launch_record *record = sample_begin(made, 0);
    for (uint64_t i = 0; i < 4; i++) {
        launch_step step = sample_step(made, i, 0);
        step.router_loss = 3.0 - 0.25 * (double)i;
        step.busiest_expert = 2.0 - 0.125 * (double)i;
        step.times.expert_rows = 100;
        sample_add(record, &step);
    }
    sample_end(made, record);
}

/* Of a model with experts: the router's loss in each step, and each expert's share, layer by layer. */
static void experts_have_their_loads(void **state)
{
    (void)state;
    static sample made;
    static const launch_experts experts = {.count = 2,
                                           .chosen = 1,
                                           .router_loss = 0.5,
                                           .steps = 3,
                                           .load_count = 4,
                                           .loads = {0.5f, 0.5f, 0.25f, 0.75f}};
    sample_make(&made, "out", 1, 4);
    made.end.experts = &experts;
    write_routed_steps(&made);
    json_t *manifest = sample_load(made.options.out, "manifest.json");
    const json_t *found = json_object_get(manifest, "experts");
    sample_assert_near(sample_number(found, "count"), 2);
    sample_assert_near(sample_number(found, "per_token"), 1);
    sample_assert_near(sample_number(found, "router_loss_added"), 0.5);
    sample_assert_near(sample_number(found, "router_loss_first"), 3.0);
    sample_assert_near(sample_number(found, "router_loss_last"), 2.25);
    sample_assert_near(sample_number(found, "busiest_first"), 2.0);
    sample_assert_near(sample_number(found, "busiest_last"), 1.625);
    sample_assert_near(sample_number(found, "busiest_rank"), 1.0);
    sample_assert_near(sample_number(found, "loads_steps"), 3);
    const json_t *loads = json_object_get(found, "loads");
    assert_int_equal(json_array_size(loads), 2);
    assert_int_equal(json_array_size(json_array_get(loads, 1)), 2);
    sample_assert_near(json_real_value(json_array_get(json_array_get(loads, 1), 1)), 0.75);
    json_decref(manifest);

    char *text = sample_text(&made, "timings.jsonl");
    assert_non_null(strstr(text, "\"router_loss\": 2.5, \"busiest_expert\": 1.75"));
    assert_null(strstr(text, "expert_rows")); /* the only rank has all experts */
    free(text);
    text = sample_text(&made, "report.html");
    assert_non_null(strstr(text, "Busiest expert"));
    assert_non_null(strstr(text, "of layer 1's choices, in the last 3 steps"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_DIRECTORY(the_manifest_has_its_fields),
        TEST_IN_DIRECTORY(the_wall_time_is_that_between_start_and_end),
        TEST_IN_DIRECTORY(the_last_half_is_measured),
        TEST_IN_DIRECTORY(unmeasured_figures_are_null),
        TEST_IN_DIRECTORY(one_differing_rank_is_seen),
        TEST_IN_DIRECTORY(the_data_file_is_identified),
        TEST_IN_DIRECTORY(experts_have_their_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
