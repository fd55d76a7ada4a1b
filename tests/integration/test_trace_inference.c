/* trace.json of ranks that decode with one model: parts and exchanges of each step, drafts, servers, and which runs have
 * none. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serving.h"
#include "trace_file.h"

static training_run run;

static void name_out(const char *name)
{
    (void)snprintf(run.out, sizeof run.out, "%s", test_shared_path(name));
}

/* The span of that name which rank `rank` has in the step, on its own thread or as an exchange under way. NULL: there is
 * none. There are never two. */
static const trace_span *span_of(const trace_file *in, int rank, int step, const char *name,
                                 bool exchange)
{
    const trace_span *found = NULL;
    for (size_t i = 0; i < in->count; i++) {
        const trace_span *own = &in->spans[i];
        if (own->rank == rank && own->step == step && (own->thread > 1) == exchange &&
            strcmp(own->name, name) == 0) {
            assert_null(found);
            found = own;
        }
    }
    return found;
}

static const trace_span *part_of(const trace_file *in, int rank, int step, const char *name)
{
    const trace_span *found = span_of(in, rank, step, name, false);
    if (found == NULL) {
        fail_msg("rank %d has no %s in step %d", rank, name, step);
    }
    return found;
}

/* Parts of a step of one layer, in their order, and as many tokens as timings.jsonl says. */
static void check_parts(const trace_file *in, int rank, int step, const json_t *line)
{
    static const char *const names[] = {"embedding", "attention", "MLP", "logits"};
    enum { PARTS = sizeof names / sizeof names[0] };
    char name[64];
    (void)snprintf(name, sizeof name, "forward, tokens: %d",
                   trace_file_integer(line, "tokens_computed"));
    const trace_span *forward = part_of(in, rank, step, name);
    const trace_span *layer = part_of(in, rank, step, "layer 0");
    (void)snprintf(name, sizeof name, "tokens drawn: %d", trace_file_integer(line, "tokens_drawn"));
    const trace_span *drawn = part_of(in, rank, step, name);
    int64_t end_ns = forward->begin_ns;
    for (size_t i = 0; i < PARTS; i++) {
        const trace_span *part = part_of(in, rank, step, names[i]);
        assert_true(part->begin_ns >= end_ns && part->end_ns > part->begin_ns);
        end_ns = part->end_ns;
    }
    assert_true(forward->end_ns >= end_ns && drawn->begin_ns >= forward->end_ns);
    assert_true(layer->begin_ns == part_of(in, rank, step, "attention")->begin_ns);
    assert_true(layer->end_ns >= part_of(in, rank, step, "MLP")->end_ns);
    assert_true(part_of(in, rank, step, "attention")->end_ns ==
                part_of(in, rank, step, "MLP")->begin_ns);
}

/* Both ranks are in the exchange at one time, it lies in its part, and on the thread who is early waits for the other. */
static void check_exchange(const trace_file *in, int step, const char *name, const char *part)
{
    const trace_span *own[2];
    for (int rank = 0; rank < 2; rank++) {
        own[rank] = span_of(in, rank, step, name, true);
        assert_non_null(own[rank]);
        if (part != NULL) {
            const trace_span *around = part_of(in, rank, step, part);
            assert_true(own[rank]->begin_ns >= around->begin_ns);
            assert_true(own[rank]->end_ns <= around->end_ns);
        }
    }
    const bool late = own[1]->begin_ns > own[0]->begin_ns;
    const int64_t all_there_ns = own[late]->begin_ns;
    assert_true(own[0]->end_ns >= all_there_ns && own[1]->end_ns >= all_there_ns);
    assert_int_equal(trace_file_integer(own[0]->args, "bytes"),
                     trace_file_integer(own[1]->args, "bytes"));
    for (int rank = 0; rank < 2; rank++) {
        char waiting[96];
        (void)snprintf(waiting, sizeof waiting, "waiting for rank %d: %s", 1 - rank, name);
        const trace_span *waits = span_of(in, rank, step, waiting, false);
        const trace_span *moves = span_of(in, rank, step, name, false);
        if (rank == (late ? 1 : 0) || own[0]->begin_ns == own[1]->begin_ns) {
            assert_null(waits);
        } else {
            assert_non_null(waits);
            assert_true(waits->begin_ns == own[rank]->begin_ns && waits->end_ns == all_there_ns);
        }
        if (moves != NULL) {
            assert_true(moves->begin_ns == all_there_ns && moves->end_ns == own[rank]->end_ns);
        } else {
            assert_true(own[rank]->end_ns == all_there_ns);
        }
    }
}

/* The last line of timings.jsonl is the trace's last step. */
static void steps_of_decoding_are_there(void **state)
{
    (void)state;
    json_t *results = inference_measure("2", "traced", FLAGS(PROMPTS, "--ignore-eos"));
    json_t *lines = inference_timings("traced");
    name_out("traced");
    trace_file found = trace_file_read(&run);
    trace_file_check_steps(&found, 2, (int)json_array_size(lines), 3);
    trace_file_check_nesting(&found);
    for (int i = 0; i < 3; i++) {
        const int step = found.steps[i];
        for (int rank = 0; rank < 2; rank++) {
            check_parts(&found, rank, step, json_array_get(lines, (size_t)step));
        }
        check_exchange(&found, step, "all-reduce of embedding", "embedding");
        check_exchange(&found, step, "all-reduce of attention", "attention");
        check_exchange(&found, step, "all-reduce of MLP", "MLP");
        check_exchange(&found, step, "all-gather of candidates", NULL);
    }
    char *report = training_file(&run, "report.html", NULL);
    assert_has(report, "<h2>One step</h2>");
    assert_has(report, "It computes 3 tokens, and draws 3. ");
    assert_has(report, "and is in one of its 4 exchanges for ");
    assert_has(report, "</i>attention, with its layer");
    free(report);
    trace_file_free(&found);
    json_decref(lines);
    json_decref(results);
}

/* The model drafts for itself, so all is right: a step has a chunk of 3 texts with 3 drafts each. */
static void drafts_are_there(void **state)
{
    (void)state;
    json_decref(inference_measure("2", "drafts",
                                  FLAGS(PROMPTS, "--ignore-eos", "--draft", inference_model.out,
                                        "--speculate", "3", "--max-new-tokens", "40")));
    name_out("drafts");
    trace_file found = trace_file_read(&run);
    trace_file_check_nesting(&found);
    const int step = found.steps[0];
    for (int rank = 0; rank < 2; rank++) {
        const trace_span *drafting = part_of(&found, rank, step, "drafting");
        const trace_span *forward = part_of(&found, rank, step, "forward, tokens: 12");
        const trace_span *drawn = part_of(&found, rank, step, "tokens drawn: 12");
        assert_true(drafting->end_ns <= forward->begin_ns);
        assert_int_equal(trace_file_integer(forward->args, "drafted"), 9);
        assert_int_equal(trace_file_integer(drawn->args, "accepted"), 9);
    }
    trace_file_free(&found);
}

/* The best tokens of each rank have too little probability, so that ranks exchange all logits while they draw. */
static void logits_are_exchanged_in_drawing(void **state)
{
    (void)state;
    json_decref(inference_measure(
        "2", "flat",
        FLAGS("--prompt", "he goed", "--ignore-eos", "--temperature", "5", "--top-p", "0.999")));
    name_out("flat");
    trace_file found = trace_file_read(&run);
    trace_file_check_nesting(&found);
    for (int i = 0; i < found.step_count; i++) {
        check_exchange(&found, found.steps[i], "all-gather of logits", "tokens drawn: 1");
    }
    trace_file_free(&found);
}

/* A whole model on one rank leaves the same record in both modes. */
static void one_rank_has_no_exchange(void **state)
{
    (void)state;
    static test_program program;
    static const char *const modes[] = {"tp-cpu", "generate"};
    for (size_t mode = 0; mode < 2; mode++) {
        size_t bytes = 0;
        assert_int_equal(
            inference_run(&program, modes[mode], "1", "alone", FLAGS(PROMPTS, "--ignore-eos")), 0);
        name_out("alone");
        json_t *lines = inference_timings("alone");
        trace_file found = trace_file_read(&run);
        trace_file_check_steps(&found, 1, (int)json_array_size(lines), 3);
        trace_file_check_nesting(&found);
        check_parts(&found, 0, found.steps[2], json_array_get(lines, (size_t)found.steps[2]));
        for (size_t i = 0; i < found.count; i++) {
            assert_false(trace_file_is(&found.spans[i], "exchange"));
            assert_false(
                trace_file_is(&found.spans[i], "operation")); /* steps are too short for that */
            assert_false(trace_file_is(&found.spans[i], "waiting"));
        }
        char *report = training_file(&run, "report.html", &bytes);
        assert_has(report, "<h2>One step</h2>");
        assert_null(strstr(report, "Speed-up</span>"));
        assert_null(strstr(report, "cost to others"));
        assert_null(strstr(report, "<dt>Crossover"));
        free(report);
        trace_file_free(&found);
        json_decref(lines);
        assert_int_equal(unlink(test_shared_path("alone/trace.json")), 0);
    }
}

/* What has no directory of its own has no record: the model's is not written to. */
static void answers_without_a_record_have_no_trace(void **state)
{
    (void)state;
    static test_program program;
    assert_int_equal(inference_run(&program, "generate", "1", NULL, FLAGS(PROMPTS, "--quiet")), 0);
    assert_int_equal(inference_run(&program, "generate", "1", NULL, FLAGS(PROMPTS, "--trace", "2")),
                     2);
    assert_has(program.text[TEST_STDERR], "--trace: mode generate keeps a record only with");
    assert_int_equal(inference_run(&program, "generate", "2", "dealt", FLAGS(PROMPTS)), 2);
    assert_has(program.text[TEST_STDERR], "none has a record of all: take --ranks 1");
    assert_int_equal(inference_run(&program, "generate", "1", "model", FLAGS(PROMPTS)), 1);
    assert_has(program.text[TEST_STDERR], "holds the record of a training");
}

/* The log-probabilities of all prompts' tokens, as one text, which the caller frees. */
static char *logprobs_of(const char *name)
{
    json_t *results = inference_results(name);
    json_t *all = json_array();
    size_t index = 0;
    const json_t *prompt = NULL;
    json_array_foreach(json_object_get(results, "prompts"), index, prompt)
    {
        json_t *own = json_object_get(prompt, "logprobs");
        assert_non_null(own);
        assert_true(json_array_size(own) > 0);
        assert_int_equal(json_array_append(all, own), 0);
    }
    assert_true(json_array_size(all) > 0);
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(all);
    json_decref(results);
    assert_non_null(text);
    return text;
}

static bool has_trace(const char *name)
{
    char path[BASE_PATH_BYTES + 32];
    name_out(name);
    (void)snprintf(path, sizeof path, "%s/trace.json", run.out);
    return access(path, F_OK) == 0;
}

/* The same tokens and log-probabilities; and the trace of an older run in the directory goes. */
static void a_trace_changes_no_bit(void **state)
{
    (void)state;
    const char *const name = "tokens";
    char *traced = inference_tokens("2", name, FLAGS(DRAWN, "--logprobs", "3", "--trace", "1000"));
    char *of_traced = logprobs_of(name);
    assert_true(has_trace(name));
    char *plain = inference_tokens("2", name, FLAGS(DRAWN, "--logprobs", "3", "--trace", "0"));
    char *of_plain = logprobs_of(name);
    assert_string_equal(traced, plain);
    assert_string_equal(of_traced, of_plain);
    assert_false(has_trace(name));
    free(traced);
    free(plain);
    free(of_traced);
    free(of_plain);
}

/* With --baseline there is one if it is asked for: of the tensor-parallel phase, which is the first. */
static void what_is_compared_is_traced_if_asked(void **state)
{
    (void)state;
    json_decref(inference_measure("2", "compared", FLAGS(PROMPTS, "--baseline")));
    assert_false(has_trace("compared"));
    json_decref(inference_measure("2", "asked", FLAGS(PROMPTS, "--baseline", "--trace", "2")));
    assert_true(has_trace("asked"));
    json_t *lines = inference_timings("asked");
    trace_file found = trace_file_read(&run);
    trace_file_check_steps(&found, 2, (int)json_array_size(lines), 2);
    trace_file_free(&found);
    json_decref(lines);
}

/* The last steps before a SIGTERM. */
static void a_server_leaves_its_last_steps(void **state)
{
    (void)state;
    serving_start(&inference_model, "2", FLAGS("--trace", "5"));
    free(serving_complete("{\"prompt\":\"he goed\",\"max_tokens\":9,\"ignore_eos\":true}"));
    assert_int_equal(serving_end(SIGTERM), 0);
    json_t *lines = inference_timings("served");
    name_out("served");
    trace_file found = trace_file_read(&run);
    trace_file_check_steps(&found, 2, (int)json_array_size(lines), 5);
    trace_file_check_nesting(&found);
    for (int rank = 0; rank < 2; rank++) {
        (void)part_of(&found, rank, found.steps[4], "tokens drawn: 1");
    }
    trace_file_free(&found);
    json_decref(lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_decoding_are_there),
        cmocka_unit_test(one_rank_has_no_exchange),
        cmocka_unit_test(answers_without_a_record_have_no_trace),
        cmocka_unit_test(drafts_are_there),
        cmocka_unit_test(logits_are_exchanged_in_drawing),
        cmocka_unit_test(a_trace_changes_no_bit),
        cmocka_unit_test(what_is_compared_is_traced_if_asked),
        cmocka_unit_test(a_server_leaves_its_last_steps),
    };
    return cmocka_run_group_tests(tests, inference_make_model, test_shared_directory_remove);
}
