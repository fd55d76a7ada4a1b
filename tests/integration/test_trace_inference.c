/* trace.json of ranks that decode with one model: layers and exchanges of each step, and which runs have none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inference.h"
#include "trace_file.h"

static training_run run;

static void name_out(const char *name)
{
    (void)snprintf(run.out, sizeof run.out, "%s",
                   test_directory_path(&test_shared_directory, name));
}

/* How many spans of that name rank `rank` has in the step. */
static int count_of(const trace_file *in, int rank, int step, const char *name)
{
    int count = 0;
    for (size_t i = 0; i < in->count; i++) {
        const trace_span *own = &in->spans[i];
        count += own->rank == rank && own->step == step && strcmp(own->name, name) == 0;
    }
    return count;
}

/* The last line of timings.jsonl is the trace's last step. */
static void steps_of_decoding_are_there(void **state)
{
    (void)state;
    size_t bytes = 0;
    json_t *results = inference_measure("2", "traced", FLAGS(PROMPTS, "--ignore-eos"));
    json_t *lines = inference_timings("traced");
    name_out("traced");
    trace_file found = trace_file_read(&run);
    trace_file_check_steps(&found, 2, (int)json_array_size(lines), 3);
    trace_file_check_nesting(&found);
    for (int rank = 0; rank < 2; rank++) {
        for (int i = 0; i < 3; i++) {
            const int step = found.steps[i];
            const int layers = count_of(&found, rank, step, "layer 0");
            const int parts = count_of(&found, rank, step, "all-reduce of parts");
            assert_int_equal(layers, 1);
            assert_int_equal(parts,
                             3); /* the embedding's, and of the layer attention's and the MLP's */
            assert_int_equal(count_of(&found, rank, step, "waiting for parts of a layer"), parts);
            assert_int_equal(count_of(&found, rank, step, "all-gather of candidates"), 1);
            assert_int_equal(count_of(&found, rank, step, "tokens drawn"), 1);
        }
    }
    char *report = training_file(&run, "report.html", &bytes);
    assert_has(report, "<h2>One step</h2>");
    assert_has(report, "4 exchanges for ");
    free(report);
    trace_file_free(&found);
    json_decref(lines);
    json_decref(results);
}

static void one_rank_has_no_exchange(void **state)
{
    (void)state;
    json_decref(inference_measure("1", "alone", FLAGS(PROMPTS, "--trace", "1")));
    name_out("alone");
    trace_file found = trace_file_read(&run);
    trace_file_check_nesting(&found);
    assert_int_equal(found.step_count, 1);
    assert_int_equal(count_of(&found, 0, found.steps[0], "layer 0"), 1);
    assert_int_equal(count_of(&found, 0, found.steps[0], "all-reduce of parts"), 0);
    trace_file_free(&found);
}

/* The same tokens; and the trace of an older run in the directory goes. */
static void a_trace_changes_no_token(void **state)
{
    (void)state;
    char path[BASE_PATH_BYTES + 32];
    char *traced = inference_tokens("2", "tokens", FLAGS(DRAWN, "--trace", "3"));
    name_out("tokens");
    (void)snprintf(path, sizeof path, "%s/trace.json", run.out);
    assert_int_equal(access(path, F_OK), 0);
    char *plain = inference_tokens("2", "tokens", FLAGS(DRAWN, "--trace", "0"));
    assert_string_equal(traced, plain);
    assert_int_not_equal(access(path, F_OK), 0);
    free(traced);
    free(plain);
    json_decref(inference_measure("2", "compared", FLAGS(PROMPTS, "--baseline"))); /* alike */
    name_out("compared");
    (void)snprintf(path, sizeof path, "%s/trace.json", run.out);
    assert_int_not_equal(access(path, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_decoding_are_there),
        cmocka_unit_test(one_rank_has_no_exchange),
        cmocka_unit_test(a_trace_changes_no_token),
    };
    return cmocka_run_group_tests(tests, inference_make_model, test_shared_directory_remove);
}
