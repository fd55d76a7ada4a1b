/* trace.json in the report: which step is drawn, what is said of it, and what a damaged or a huge file does. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "record/trace.h"
#include "record/trace_timeline.h"
#include "sample.h"
#include "support.h"

enum { RANKS = 2, STEPS = 3, MANY = 60000 };

static sample of;

/* The text of a trace, line by line. */
typedef struct lines {
    char *text;
    size_t length;
    size_t room;
} lines;

static void put(lines *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(lines *to, const char *format, ...)
{
    va_list arguments;
    if (to->room - to->length < 1024) {
        to->room = 2 * to->room + 4096;
        to->text = realloc(to->text, to->room);
        assert_non_null(to->text);
    }
    va_start(arguments, format);
    to->length +=
        (size_t)vsnprintf(to->text + to->length, to->room - to->length, format, arguments);
    va_end(arguments);
}

static void put_span(lines *to, const char *name, const char *category, int rank, int thread,
                     double begin_ms, double ms, const char *args)
{
    put(to,
        "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%."
        "3f,"
        "\"args\":{%s}},\n",
        name, category, rank + 1, thread, begin_ms * 1e3, ms * 1e3, args);
}

/* A step of 10 ms and some more, in which rank 1 has fewer buckets done when its backward ends. */
static void put_step(lines *to, int rank, int step, double begin_ms, double more_ms)
{
    char args[64];
    (void)snprintf(args, sizeof args, "\"step\":%d", step);
    put_span(to, "step", "step", rank, 1, begin_ms, 10 + more_ms, args);
    put_span(to, "forward, micro-batch 0", "forward", rank, 1, begin_ms, 3, args);
    put_span(to, "backward, micro-batch 0", "backward", rank, 1, begin_ms + 3, 5, args);
    put_span(to, "waiting for bucket 2", "waiting", rank, 1, begin_ms + 8, 1 + rank, args);
    for (int bucket = 0; bucket < 3; bucket++) {
        char name[64];
        (void)snprintf(name, sizeof name, "all-reduce of bucket %d", bucket);
        (void)snprintf(args, sizeof args, "\"step\":%d,\"bucket\":%d,\"bytes\":77", step, bucket);
        put_span(to, name, "exchange", rank, 2, begin_ms + 5 + bucket, 0.9 + rank, args);
    }
}

static void put_end(lines *to, int whole_steps, const char *clocks)
{
    put(to,
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":1,\"args\":{}}\n],\n"
        "\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"format\":1,\"ranks\":2,\"whole_steps\":%d,"
        "\"steps_with_operations\":%d,\"exchanges_left_out\":0,\"clocks\":[%s]}}\n",
        whole_steps, whole_steps, clocks);
}

static lines made_trace(int whole_steps, const char *clocks)
{
    lines made = {.text = NULL};
    put(&made, "{\"traceEvents\":[\n");
    for (int rank = 0; rank < RANKS; rank++) {
        put_step(&made, rank, 0, 0, 5);
        put_step(&made, rank, 1, 20, 1);
        put_step(&made, rank, 2, 40, 2); /* of median length */
    }
    put_end(&made, whole_steps, clocks);
    return made;
}

/* The report of a run with that trace, which is freed; the caller frees the report. */
static char *report_with(const char *name, lines trace)
{
    char path[BASE_PATH_BYTES + 32];
    base_error error;
    sample_make(&of, name, RANKS, STEPS);
    of.job.output.trace = 3;
    launch_record *record = sample_begin(&of, 0);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (int rank = 0; rank < RANKS; rank++) {
            const launch_step row = sample_step(&of, step, rank);
            sample_add(record, &row);
        }
    }
    (void)snprintf(path, sizeof path, "%s/trace.json", of.out);
    assert_ok(base_file_write(path, trace.text, trace.length, &error), &error);
    free(trace.text);
    sample_end(&of, record);
    char *page = sample_text(&of, "report.html");
    sample_assert_well_formed(page);
    return page;
}

static void the_step_of_median_length_is_drawn(void **state)
{
    (void)state;
    char *page = report_with("drawn", made_trace(3, ""));
    assert_has(page, "Step 2, of median length among the last 3.");
    assert_has(page, "On every rank at least 2 of 3 buckets&rsquo; exchanges had ended before "
                     "backward did (so many on rank 1).");
    assert_has(page, "Rank 1 waited longest, 2.00");
    assert_has(page, "forward, micro-batch 0, rank 0: 3.000 ms, from 0.000 to 3.000 ms</title>");
    assert_has(page, "all-reduce of bucket 1, rank 0: 0.900 ms, from 6.000 to 6.900 ms; 77 bytes");
    assert_int_equal(test_count(page, "forward, micro-batch 0, rank 0:"), 1);
    free(page);
}

/* In the optimizer's bar, which is fainter then. */
static void iterations_are_drawn_in_the_optimizer(void **state)
{
    (void)state;
    static const char faint[] = "<rect class=\"optimizer\" fill-opacity=";
    static const char means[] = "</i>Newton-Schulz, of Muon&rsquo;s matrices</li>";
    for (int muon = 0; muon < 2; muon++) {
        lines made = {.text = NULL};
        put(&made, "{\"traceEvents\":[\n");
        put_span(&made, "step", "step", 0, 1, 0, 10, "\"step\":0");
        put_span(&made, "optimizer", "optimizer", 0, 1, 2, 7, "\"step\":0");
        if (muon > 0) {
            put_span(&made, "Newton-Schulz, matrix 3", "newton_schulz", 0, 1, 4, 5, "\"step\":0");
        }
        put_end(&made, 1, "");
        char *page = report_with("muon", made);
        assert_int_equal(test_count(page, faint), muon);
        assert_int_equal(test_count(page, means), muon);
        assert_int_equal(test_count(page, "Newton-Schulz, matrix 3, rank 0: 5.000 ms, from 4.000"),
                         muon);
        free(page);
    }
}

static void an_exchange_behind_backward_is_said(void **state)
{
    (void)state;
    lines made = {.text = NULL};
    put(&made, "{\"traceEvents\":[\n");
    for (int rank = 0; rank < RANKS; rank++) {
        put_span(&made, "step", "step", rank, 1, 0, 10, "\"step\":0");
        put_span(&made, "backward", "backward", rank, 1, 3, 5, "\"step\":0");
        put_span(&made, "all-reduce of bucket 0", "exchange", rank, 2, 8, 1,
                 "\"step\":0,\"bucket\":0");
    }
    lines two = {.text = NULL};
    put(&two, "%s", made.text);
    put_end(&made, 1, "");
    char *page = report_with("behind", made);
    assert_has(page, "The one exchange of gradients ended after backward.");
    assert_null(strstr(page, "On every rank"));
    free(page);
    put_span(&two, "all-reduce of bucket 1", "exchange", 0, 2, 8, 1, "\"step\":0,\"bucket\":1");
    put_end(&two, 1, "");
    page = report_with("both-behind", two);
    assert_has(page, "On rank 0, 0 of 2 buckets&rsquo; exchanges had ended before backward did.");
    free(page);
}

/* A step of decoding with one layer. Rank 1 comes 1 ms late to attention's all-reduce, for which rank 0 waits. */
static void put_decoding(lines *to, int rank)
{
    const double late_ms = rank;
    static const char *const layer = "\"step\":4,\"tokens\":9,\"layer\":0";
    static const char *const step = "\"step\":4";
    put_span(to, "step 4", "step", rank, 1, 0, 10, step);
    put_span(to, "drafting", "draft", rank, 1, 0, 1, step);
    put_span(to, "forward, tokens: 9", "forward", rank, 1, 1, 8,
             "\"step\":4,\"tokens\":9,\"drafted\":6");
    put_span(to, "embedding", "embedding", rank, 1, 1, 1, step);
    put_span(to, "layer 0", "layer", rank, 1, 2, 6, layer);
    put_span(to, "attention", "attention", rank, 1, 2, 4, layer);
    if (rank == 0) {
        put_span(to, "waiting for rank 1: all-reduce of attention", "waiting", rank, 1, 4, 1,
                 layer);
    }
    put_span(to, "all-reduce of attention", "exchange", rank, 1, 5, 1, layer);
    put_span(to, "all-reduce of attention", "exchange", rank, 2, 4 + late_ms, 2 - late_ms, layer);
    put_span(to, "MLP", "mlp", rank, 1, 6, 2, layer);
    put_span(to, "logits", "output", rank, 1, 8, 1, step);
    put_span(to, "tokens drawn: 5", "draw", rank, 1, 9, 1, "\"step\":4,\"drawn\":5,\"accepted\":2");
}

/* What it is drawn like in the record of so many ranks that decode. The caller frees it. */
static char *decoding_with(int ranks)
{
    lines made = {.text = NULL};
    launch_trace trace;
    base_error error;
    base_buffer section = {0};
    put(&made, "{\"traceEvents\":[\n");
    for (int rank = 0; rank < ranks; rank++) {
        put_decoding(&made, rank);
    }
    put_end(&made, 1, "");
    free(report_with("decoding", made));
    assert_ok(launch_trace_read(of.out, ranks, &trace, &error), &error);
    of.job.job.mode = PROTO_MODE_TP_CPU;
    of.job.job.world_size = ranks;
    launch_trace_timeline(&of.job, &trace, &section);
    launch_trace_fini(&trace);
    assert_false(section.failed);
    sample_assert_well_formed(section.data);
    return section.data;
}

static void a_step_of_decoding_is_drawn_in_parts(void **state)
{
    (void)state;
    char *page = decoding_with(2);
    assert_has(page,
               "It computes 9 tokens, 6 of them drafted, and draws 5: 2 drafted ones were right. ");
    assert_has(page, "In the mean a rank computes for 85&nbsp;% of the step, waits for another for "
                     "5&nbsp;%, and is in one of its 1 exchanges for 10&nbsp;%.");
    assert_has(page, "Rank 0 waited longest, 1.00");
    assert_has(page, "waiting for rank 1: all-reduce of attention, layer 0, rank 0: 1.000 ms, from "
                     "4.000 to 5.000 ms</title>");
    assert_has(page, ">0</text>");
    assert_int_equal(test_count(page, "</i>"),
                     7); /* of the key, without forward, which is its parts */
    assert_null(strstr(page, "forward"));
    static const char *const rows[] = {"8.000\xc2\xa0ms, 80&nbsp;%", "1.000\xc2\xa0ms, 10&nbsp;%",
                                       "9.000\xc2\xa0ms, 90&nbsp;%", "0.000\xc2\xa0ms, 0&nbsp;%"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_has(page, rows[i]);
    }
    free(page);
    page = decoding_with(1); /* there is nobody to wait for */
    assert_null(strstr(page, "In the mean a rank"));
    assert_null(strstr(page, "<table"));
    free(page);
}

static void what_is_not_there_is_said(void **state)
{
    (void)state;
    char *page = report_with(
        "limits", made_trace(0, "{\"host\":\"a\",\"first_rank\":0,\"known\":true,\"offset_us\":0,"
                                "\"uncertainty_us\":2500},{\"host\":\"<b>\",\"known\":false}"));
    assert_has(page, "One step has more spans than are kept");
    assert_has(page, "by the exchanges of all ranks, to ±2.5 ms.");
    assert_has(page, "How the clock of &lt;b&gt; differs could not be found");
    free(page);
}

static void one_step_is_kept(void **state)
{
    (void)state;
    launch_trace trace;
    base_error error;
    char *page = report_with("kept", made_trace(3, ""));
    free(page);
    assert_ok(launch_trace_read(of.out, RANKS, &trace, &error), &error);
    assert_int_equal(trace.step, 2);
    assert_int_equal(trace.count, RANKS * 7);
    assert_true(trace.spans[0].begin_ms == 0);
    launch_trace_fini(&trace);
}

/* Spans that no rank of the job can have, or that have no time, are left out; names are escaped. */
static void foreign_spans_are_left_out(void **state)
{
    (void)state;
    static const char *const foreign[] = {"\"pid\":3,\"tid\":1,\"ts\":1,\"dur\":1",
                                          "\"pid\":0,\"tid\":1,\"ts\":1,\"dur\":1",
                                          "\"pid\":1,\"tid\":0,\"ts\":1,\"dur\":1",
                                          "\"pid\":1,\"tid\":1,\"ts\":-1,\"dur\":1",
                                          "\"pid\":1,\"tid\":1,\"ts\":1e300,\"dur\":1",
                                          "\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":\"2\"",
                                          "\"pid\":1,\"tid\":99999999999,\"ts\":1,\"dur\":1",
                                          "\"pid\":1,\"tid\":1,\"ts\":1"};
    lines made = {.text = NULL};
    put(&made, "{\"traceEvents\":[\n");
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        put(&made,
            "{\"ph\":\"X\",\"name\":\"foreign\",\"cat\":\"other\",%s,\"args\":{\"step\":1}},\n",
            foreign[i]);
    }
    put_step(&made, 0, 1, 0, 0);
    put_span(&made, "<i>&", "optimizer", 0, 1, 9, 1, "\"step\":1");
    put_span(&made, "nowhere", "unheard", 0, 1, 9, 1, "\"step\":1");
    put_end(&made, 1, "");
    char *page = report_with("foreign", made);
    assert_has(page, "&lt;i&gt;&amp;, rank 0: 1.000 ms");
    assert_null(strstr(page, "foreign, rank"));
    assert_null(strstr(page, "nowhere"));
    free(page);
}

static void damaged_files_are_not_drawn(void **state)
{
    (void)state;
    static const char *const damaged[] = {
        "",
        "\n\n\n",
        "{\"traceEvents\":[\n{\"ph\":\"X\",\"cat\n],\n",
        "no json at all",
        "{\"traceEvents\":[\n],\n\"otherData\":{\"format\":2}}\n",
        "{\"traceEvents\":[\n],\n\"otherData\":{\"format\":1,\"whole_steps\":3}}\n",
        "\"otherData\":",
        "\"otherData\":}"};
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        lines made = {.text = NULL};
        launch_trace trace;
        put(&made, "%s", damaged[i]);
        char *page = report_with("damaged", made);
        assert_null(strstr(page, "<h2>One step</h2>"));
        assert_status(launch_trace_read(of.out, RANKS, &trace, NULL), BASE_ERR_INVALID);
        free(page);
    }
}

/* What a trace says of itself may be there more than once: the last one counts. */
static void clocks_are_bounded(void **state)
{
    (void)state;
    lines made = made_trace(1, "");
    for (int again = 0; again < 3; again++) {
        put(&made, "\"otherData\":{\"format\":1,\"whole_steps\":1,\"clocks\":[{}");
        for (int host = 1; host < LAUNCH_TRACE_HOSTS_MAX + again; host++) {
            put(&made, ",{\"host\":\"%d\",\"known\":true}", host);
        }
        put(&made, "]}}\n");
    }
    launch_trace trace;
    base_error error;
    char *page = report_with("clocks", made);
    free(page);
    assert_ok(launch_trace_read(of.out, RANKS, &trace, &error), &error);
    assert_int_equal(trace.clock_count, LAUNCH_TRACE_HOSTS_MAX);
    assert_string_equal(trace.clocks[1].host, "1");
    launch_trace_fini(&trace);
}

/* A line takes many times its bytes when it is parsed, so it may not be as long as the file. */
static void long_lines_are_not_parsed(void **state)
{
    (void)state;
    lines made = {.text = NULL};
    launch_trace trace;
    put(&made, "{\"traceEvents\":[\n{\"ph\":\"X\",\"args\":[0");
    for (int i = 0; i < MANY; i++) {
        put(&made, ",0");
    }
    put(&made, "]},\n");
    put_step(&made, 0, 0, 0, 0);
    put_end(&made, 1, "");
    char *page = report_with("long", made);
    assert_null(strstr(page, "<h2>One step</h2>"));
    assert_status(launch_trace_read(of.out, RANKS, &trace, NULL), BASE_ERR_INVALID);
    free(page);
}

static void a_run_without_a_trace_has_no_picture(void **state)
{
    (void)state;
    sample_make(&of, "none", RANKS, STEPS);
    of.job.output.trace = 3;
    sample_write(&of, STEPS);
    char *page = sample_text(&of, "report.html");
    assert_null(strstr(page, "<h2>One step</h2>"));
    free(page);
}

/* However many spans a step has, the picture has so many bars at most. */
static void the_picture_is_bounded(void **state)
{
    (void)state;
    static const char *const categories[] = {"forward", "layer", "waiting", "overlapped", "other"};
    lines made = {.text = NULL};
    put(&made, "{\"traceEvents\":[\n");
    for (int rank = 0; rank < RANKS; rank++) {
        put_span(&made, "step", "step", rank, 1, 0, MANY, "\"step\":0");
        for (int i = 0; i < MANY; i++) {
            put_span(&made, "short", categories[i % 5], rank, 1 + i % 7, i, 0.4, "\"step\":0");
        }
    }
    put_end(&made, 1, "");
    char *page = report_with("bounded", made);
    assert_has(page, "short ones, the first: short");
    assert_true(test_count(page, "<rect") > 20);
    assert_true(test_count(page, "<rect") < 10000);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_step_of_median_length_is_drawn),
        cmocka_unit_test(iterations_are_drawn_in_the_optimizer),
        cmocka_unit_test(an_exchange_behind_backward_is_said),
        cmocka_unit_test(a_step_of_decoding_is_drawn_in_parts),
        cmocka_unit_test(what_is_not_there_is_said),
        cmocka_unit_test(one_step_is_kept),
        cmocka_unit_test(foreign_spans_are_left_out),
        cmocka_unit_test(damaged_files_are_not_drawn),
        cmocka_unit_test(clocks_are_bounded),
        cmocka_unit_test(long_lines_are_not_parsed),
        cmocka_unit_test(a_run_without_a_trace_has_no_picture),
        cmocka_unit_test(the_picture_is_bounded),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
