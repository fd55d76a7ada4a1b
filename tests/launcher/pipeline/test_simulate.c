/* pipeline-simulate: its command line, and that its pictures show what was played. */
#include "pipeline/picture.h"
#include "pipeline/simulate/options.h"

#include <stdlib.h>
#include <string.h>

#include "support.h"

static pipeline_options options; /* of the line that was parsed last */
static base_error error;

static base_status parse(const char *line)
{
    static test_words words;
    char **argv = words.argv;
    const int argc = test_words_split(&words, line);
    error.message[0] = '\0';
    return pipeline_options_parse(argc, argv, &options, &error);
}

static void test_options(void **state)
{
    (void)state;
    assert_ok(parse("pipeline-simulate"), &error);
    assert_int_equal(options.stages, 4);
    assert_int_equal(options.micro_batches, 8);
    assert_int_equal(options.chunks, 2);
    assert_true(options.forward_ms == 10 && options.backward_ms == 20 && options.hop_ms == 0);
    assert_false(options.sweep || options.help);
    assert_ok(
        parse(
            "pipeline-simulate -p 8 -m 64 -v 3 --forward 1.5 --backward 2.5 --weights 1 --hop 0.5 "
            "--sweep"),
        &error);
    assert_int_equal(options.stages, 8);
    assert_int_equal(options.micro_batches, 64);
    assert_int_equal(options.chunks, 3);
    assert_true(options.forward_ms == 1.5 && options.backward_ms == 2.5 && options.hop_ms == 0.5);
    assert_true(options.weights_ms == 1 && options.sweep);
    assert_ok(parse("pipeline-simulate --plot out.svg"), &error);
    assert_string_equal(strrchr(options.plot_path, '/'), "/out.svg");
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *expected;
    } cases[] = {
        {"pipeline-simulate gpipe", "'gpipe' is not an option"},
        {"pipeline-simulate --pipeline 1f1b", "unknown flag --pipeline: all schedules are played"},
        {"pipeline-simulate --ranks 2", "unknown flag --ranks; did you mean --stages?"},
        {"pipeline-simulate -p 65", "--stages: 65: must be a whole number from 1 to 64"},
        {"pipeline-simulate -m 0", "--micro-batches: 0: must be a whole number from 1 to 65536"},
        {"pipeline-simulate -v 1", "--chunks: 1: must be a whole number from 2 to 16"},
        {"pipeline-simulate --forward 0", "--forward: 0: must be a number"},
        {"pipeline-simulate --backward 8 --weights 9",
         "--weights 9 is a part of --backward, and that is 8"},
        {"pipeline-simulate --sweep --plot a.svg", "--sweep or --plot, not both"},
        {"pipeline-simulate --plot /none/p.svg", "--plot: "},
        {"pipeline-simulate --plot p.png", "/p.png: a picture's name must end with .svg"},
        {"pipeline-simulate --hop -1", "--hop: -1: must be a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (parse(cases[i].line) == BASE_OK || strstr(error.message, cases[i].expected) == NULL) {
            fail_msg("%s: '%s'", cases[i].line, error.message);
        }
    }
}

static launch_pipeline_span spans[64];

static launch_pipeline_run played(proto_pipeline pipeline)
{
    static const launch_pipeline_part parts[] = {
        {10, 20, 10}, {10, 20, 10}, {10, 20, 10}, {10, 20, 10}};
    const launch_pipeline_costs costs = {.parts = parts};
    launch_pipeline_run run = {.pipeline = pipeline, .spans = spans};
    launch_pipeline_play(&run.pipeline, &costs, spans, &run.result);
    return run;
}

/* Drawn by hand, from the figures of the papers. */
static void test_text(void **state)
{
    static const struct {
        proto_pipeline pipeline;
        const char *picture;
    } cases[] = {
        {{PROTO_PIPELINE_GPIPE, 2, 1, 3},
         "  stage 0  |012...aabbcc|\n"
         "  stage 1  |.012aabbcc..|\n"},
        {{PROTO_PIPELINE_1F1B, 2, 1, 3},
         "  stage 0  |01..aa2bb.cc|\n"
         "  stage 1  |.0aa1bb2cc..|\n"},
        {{PROTO_PIPELINE_ZB_H1, 2, 1, 3},
         "  stage 0  |01.aA2bBcC|\n"
         "  stage 1  |.0a1bA2cBC|\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512] = {0};
        FILE *out = fmemopen(text, sizeof text, "w");
        assert_non_null(out);
        const launch_pipeline_run run = played(cases[i].pipeline);
        launch_pipeline_picture_text(&run, out);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(text, cases[i].picture);
    }
}

static void test_svg(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    const launch_pipeline_run run = played((proto_pipeline){PROTO_PIPELINE_INTERLEAVED, 2, 2, 4});
    launch_pipeline_picture_svg(&run, 1, out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(test_count(text, "forward of micro-batch"), 16);
    assert_int_equal(test_count(text, "backward of micro-batch"), 16);
    assert_int_equal(test_count(text, "chunk 1:"), 16);
    assert_int_equal(test_count(text, "<svg"), test_count(text, "</svg>"));
    assert_int_equal(test_count(text, "nan"), 0);
    assert_int_equal(test_count(text, "weight gradients"), 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_svg),
    };
    return cmocka_run_group_tests_name("pipeline-simulate", tests, NULL, NULL);
}
