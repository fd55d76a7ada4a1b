/* record/report.h: the page is well-formed in every case, and hostile texts are escaped. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "record/record.h"
#include "record/report.h"
#include "sample.h"
#include "support.h"

static const char HOSTILE[] = "</title><script>alert('1')</script>\" onload=\"x & \xff\x01";

/* The page of a made-up run; freed by the caller. */
static char *page_of(const sample *made, uint64_t steps)
{
    sample_write(made, steps);
    return sample_text(made, "report.html");
}

static void assert_whole(const char *page)
{
    static const char *const NEVER[] = {"http:",   "https:", "src=", "url(",
                                        "@import", "nan",    "inf<"};
    sample_assert_well_formed(page);
    for (size_t i = 0; i < sizeof NEVER / sizeof NEVER[0]; i++) {
        const char *found = strstr(page, NEVER[i]);
        if (found != NULL) {
            fail_msg("\"%s\" in the page: %.80s", NEVER[i], found > page + 40 ? found - 40 : found);
        }
    }
}

static void the_page_is_whole_in_every_case(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        uint64_t steps;
        int scaling_count;
        int exit_status;
    } CASES[] = {{2, 100, 1, 0}, {1, 1, 0, 0}, {2, 0, 0, 137}, {2, 2, 1, 1}, {16, 1000, 1, 0}};
    static sample made;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sample_make(&made, "out", CASES[i].ranks, 1000);
        made.end.scaling_count = CASES[i].scaling_count;
        made.end.exit_status = CASES[i].exit_status;
        char *page = page_of(&made, CASES[i].steps);
        assert_whole(page);
        assert_has(page, CASES[i].exit_status == 0 ? ">finished<" : ">ended with");
        free(page);
    }
}

/* The page of a job that has failed has the way to what each rank was doing. */
static void flight_records_are_linked(void **state)
{
    (void)state;
    static sample made;
    sample_make(&made, "out", 2, 100);
    char *page = page_of(&made, 4);
    assert_null(strstr(page, "flight.html"));
    free(page);
    made.options.overwrite = true;
    launch_record *record = sample_begin(&made, 0);
    base_error error;
    char path[BASE_PATH_BYTES];
    assert_ok(base_path_join(made.out, "flight.html", path, &error), &error);
    assert_ok(base_file_write(path, "a page", 6, &error), &error);
    sample_end(&made, record);
    page = sample_text(&made, "report.html");
    assert_whole(page);
    assert_has(page, "<a href=\"flight.html\">");
    free(page);
}

static void figures_are_on_the_page(void **state)
{
    (void)state;
    static sample made;
    sample_make(&made, "out", 2, 100);
    made.ranks[0].eval_total = made.ranks[1].eval_total = 624;
    made.ranks[0].eval_correct = 500;
    made.ranks[1].eval_correct = 451;
    made.ranks[0].eval_loss = made.ranks[1].eval_loss = 0.5;
    made.ranks[0].eval_measured = made.ranks[1].eval_measured = 1240;
    char *page = page_of(&made, 100);
    assert_has(page, "Held-out accuracy</span><b>76.2\xc2\xa0%</b><span "
                     "class=\"more\">951 of 1\xe2\x80\xaf"
                     "248 sentences exact<");
    assert_has(page, "Held-out loss</span><b>0.500</b><span class=\"more\">of 1\xe2\x80\xaf"
                     "240 sentences; perplexity 1.649<");
    assert_has(page, "logarithmic</label>");
    assert_has(page, "Held-out accuracy against step");
    /* of 100 steps, every 25th; in two loss charts and one of accuracy */
    assert_int_equal(test_count(page, ": held-out loss "), 3 * 4);
    assert_has(page, "470\xe2\x80\xaf"
                     "528 parameters");
    assert_has(page, "Where every millisecond went");
    assert_has(page, ">identical<");
    assert_has(page, "<td class=\"n\" data-part=\"forward and backward\">");
    assert_has(page, ".manifest td{display:block}"); /* on narrow screens */
    assert_has(page, "<td>tokens_per_sec_1proc</td><td>96400.0</td>");
    assert_has(page, "<td>ranks[1].pid</td><td>4243</td>");
    assert_has(page, "he goed to school");
    assert_has(page, "my experiment&#39;\\&#39;&#39;s &lt;out&gt;");
    free(page);
}

/* The lesson is a list of its sentences, what was gained first. All but three are folded, and so is the manifest.
 * One point is no curve. */
static void the_page_is_short_for_a_reader(void **state)
{
    (void)state;
    static sample made;
    sample_make(&made, "out", 2, 100);
    char *page = page_of(&made, 100);
    const char *lesson = strstr(page, "What this run shows</h2><ul>\n<li>2 processes handled ");
    assert_non_null(lesson);
    const char *folded = strstr(lesson, ".</li>\n</ul><details><summary>");
    assert_non_null(folded);
    assert_has(folded, "<li>The mean step took ");
    assert_has(folded, ".</li>\n</ul></details></section>");
    assert_has(page, "<details><summary><h2>The manifest</h2></summary>");
    assert_has(page, "How it scales");
    free(page);
    made.end.scaling_count = 0;
    made.options.overwrite = true;
    page = page_of(&made, 100);
    assert_null(strstr(page, "How it scales"));
    free(page);
}

/* What ranks exchange inside of forward and backward has a column of its own. */
static void inner_exchanges_have_a_column(void **state)
{
    (void)state;
    static const char experts[] = "of this, exchanging rows with experts";
    static const char context[] = "of this, exchanging heads of attention";
    static sample made;
    sample_make(&made, "out", 2, 100);
    made.job.parallel.expert_ranks = 2;
    made.options.overwrite = true;
    char *page = page_of(&made, 100);
    assert_whole(page);
    assert_has(page, experts);
    assert_has(page, "some of the experts, and a copy of the rest of the model");
    assert_null(strstr(page, context));
    free(page);
    made.job.parallel.expert_ranks = 0;
    made.job.parallel.context_ranks = 2;
    page = page_of(&made, 100);
    assert_whole(page);
    assert_has(page, context);
    assert_null(strstr(page, experts));
    free(page);
}

/* A card holds some nine characters in a line. */
static void times_fit_their_cards(void **state)
{
    (void)state;
    static const struct {
        double ms;
        const char *shown;
    } cases[] = {
        {0.12345, "0.123"}, {9.876, "9.88"},      {99.994, "99.99"},
        {104.28, "104.3"},  {999.94, "999.9"},    {1234.5, "1234"},
        {-0.5, "-0.50"},    {123456.7, "123457"}, {NAN, "–"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[32];
        base_buffer text = {0};
        const double ms = cases[i].ms;
        launch_report_ms(&text, ms, ms > 0 && ms < 1 ? 3 : 2);
        (void)snprintf(expected, sizeof expected, "%s%s", cases[i].shown,
                       isfinite(ms) ? "\xc2\xa0ms" : "");
        assert_string_equal(text.data, expected);
        base_buffer_fini(&text);
    }
}

static void hostile_texts_are_escaped(void **state)
{
    (void)state;
    static sample made;
    static char argument[sizeof HOSTILE];
    char *arguments[] = {argument, NULL};
    memcpy(argument, HOSTILE, sizeof HOSTILE);
    sample_make(&made, "<b>&out", 2, 4);
    made.options.argv = arguments;
    made.options.argc = 1;
    made.end.message = HOSTILE;
    made.end.transport = HOSTILE;
    made.end.instruction_set = HOSTILE;
    made.end.exit_status = 1;
    (void)snprintf(made.ranks[0].first_sentence, sizeof made.ranks[0].first_sentence, "%s",
                   HOSTILE);
    (void)snprintf(made.ranks[0].host, sizeof made.ranks[0].host, "%s", HOSTILE);
    char *page = page_of(&made, 4);
    assert_whole(page);
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "onload=\""));
    assert_null(strstr(page, "\xff"));
    assert_has(page, "&lt;script&gt;alert(&#39;1&#39;)");
    free(page);
}

static void losses_that_are_no_numbers_are_left_out(void **state)
{
    (void)state;
    static sample made;
    sample_make(&made, "out", 1, 10);
    made.end.scaling_count = 0;
    made.end.job_seconds = 0;
    launch_record *record = sample_begin(&made, 0);
    for (uint64_t i = 0; i < 10; i++) {
        launch_step step = sample_step(&made, i, 0);
        step.loss = NAN;
        step.loss_global = i % 2 == 0 ? NAN : INFINITY;
        step.times.step_ns = 0; /* and a clock that stood still */
        step.times.compute_ns = step.times.allreduce_ns = step.times.allreduce_exposed_ns =
            step.times.optimizer_ns = 0;
        sample_add(record, &step);
    }
    sample_end(&made, record);
    char *page = sample_text(&made, "report.html");
    assert_whole(page);
    assert_has(page, "No loss was reported.");
    free(page);
}

/* A run of more steps than columns, in which one step took 90 s: neither the note nor a hint takes the
 * mean of a column for a step. */
static void columns_are_means_of_steps(void **state)
{
    (void)state;
    enum { STEPS = 600, SLOW = 451 }; /* columns of 2 and 3 steps: 450 and 451, or 450 to 452 */
    static sample made;
    sample_make(&made, "out", 2, STEPS);
    launch_record *record = sample_begin(&made, 0);
    for (uint64_t i = 0; i < (uint64_t)STEPS * 2; i++) {
        launch_step step = sample_step(&made, i / 2, (int)(i % 2));
        if (step.step == SLOW && step.rank == 1) {
            step.times.compute_ns = 90000000000;
            step.times.step_ns = 90003000000;
        }
        sample_add(record, &step);
    }
    sample_end(&made, record);
    char *page = sample_text(&made, "report.html");
    assert_whole(page);
    assert_has(page, "Each column is the mean of 2 or 3 steps.");
    assert_has(page, "Higher columns are cut at the top. The slowest step, 451, took "
                     "90003.");
    assert_has(page, "<title>steps 450 to 451, mean: ");
    assert_has(page, "</b><span class=\"more\">mean; median 1");
    assert_has(page, "each rank&rsquo;s own. A few steps took most of the time: the ");
    free(page);
}

static void what_has_diverged_is_short(void **state)
{
    (void)state;
    static const struct {
        double loss;
        const char *shown;
    } CASES[] = {{13.5, "perplexity 729416<"},
                 {9, "perplexity 8103.084<"},
                 {22102.7175, "<b>22103<"},
                 {100, "perplexity 2.688e+43<"},
                 {1000, "perplexity –<"}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        static sample made;
        sample_make(&made, "out", 1, 4);
        made.ranks[0].eval_measured = 10;
        made.ranks[0].eval_loss = CASES[i].loss;
        char *page = page_of(&made, 4);
        assert_has(page, CASES[i].shown);
        free(page);
    }
}

/* Where the steps before a checkpoint are not known, charts begin with the step behind it. */
static void charts_number_steps_as_timings_do(void **state)
{
    (void)state;
    enum { FIRST = 72, END = 77 };
    static sample made;
    sample_make(&made, "out", 1, END);
    launch_record *record = sample_begin(&made, FIRST);
    for (uint64_t i = FIRST; i < END; i++) {
        launch_step step = sample_step(&made, i, 0);
        if (i == 75) { /* is higher than the axis */
            step.times.compute_ns += 90000000;
            step.times.step_ns += 90000000;
        }
        sample_add(record, &step);
    }
    sample_end(&made, record);
    char *page = sample_text(&made, "report.html");
    assert_whole(page);
    assert_has(page, "went on after step 72 (--resume): the time is of the rest. This record does "
                     "not have the steps before it.");
    assert_has(page, "<title>step 72: loss ");
    assert_has(page, "<title>step 76: loss ");
    assert_has(page, "<title>step 74: held-out loss ");
    assert_has(page, "<title>step 75: 10");
    assert_has(page, "The slowest step, 75, took 10");
    assert_has(page, "text-anchor=\"middle\">74</text>"); /* of an axis */
    assert_null(strstr(page, "<title>step 0: "));
    free(page);
    char *data = sample_text(&made, "loss.dat");
    assert_has(data, "\n72 ");
    assert_null(strstr(data, "\n0 "));
    free(data);
}

/* The card, the chart and the manifest do not take a disturbed machine's speed-up for one. */
static void a_suspect_speed_up_is_no_figure(void **state)
{
    (void)state;
    static sample made;
    sample_make(&made, "out", 2, 100);
    made.scaling[0] = sample_point(1, 200, 9, 1);
    made.scaling[1] = sample_point(2, 20962, 9, 1);
    made.end.scaling_count = 2;
    char *page = page_of(&made, 100);
    assert_whole(page);
    assert_has(page, "Speed-up</span><b>–</b><span class=\"more\"><span class=\"bad\">"
                     "says nothing: this machine was disturbed</span> (104.81× was");
    assert_null(strstr(page, "efficient<"));
    assert_null(strstr(page, "(104.81×)"));
    assert_null(strstr(page, "one process times as many"));
    assert_has(page, "<td>suspect</td><td>2 processes were 104.81 times as fast");
    free(page);
}

/* Where a point's label begins, in units of the drawing. */
static double label_y(const char *page, const char *label)
{
    const char *at = page;
    while ((at = strstr(at, "<text class=\"value\"")) != NULL) {
        const char *text = strchr(at, '>') + 1;
        if (strncmp(text, label, strlen(label)) == 0) {
            return strtod(strstr(at, " y=\"") + 4, NULL);
        }
        at = text;
    }
    fail_msg("no label %s", label);
    return 0;
}

/* Two processes that are a little slower than one: each label has a line of its own. */
static void labels_do_not_overlap(void **state)
{
    (void)state;
    enum { LINE = 16 };
    static sample made;
    sample_make(&made, "out", 2, 100);
    made.scaling[0] = sample_point(1, 10671, 93, 1);
    made.scaling[1] = sample_point(2, 10062, 166, 2);
    made.end.scaling_count = 2;
    char *page = page_of(&made, 100);
    assert_true(label_y(page, "10\xe2\x80\xaf"
                              "062 (0.94") > label_y(page, "10\xe2\x80\xaf"
                                                           "671<") +
                                                 LINE);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_DIRECTORY(the_page_is_whole_in_every_case),
        TEST_IN_DIRECTORY(flight_records_are_linked),
        TEST_IN_DIRECTORY(figures_are_on_the_page),
        TEST_IN_DIRECTORY(the_page_is_short_for_a_reader),
        TEST_IN_DIRECTORY(inner_exchanges_have_a_column),
        TEST_IN_DIRECTORY(times_fit_their_cards),
        TEST_IN_DIRECTORY(hostile_texts_are_escaped),
        TEST_IN_DIRECTORY(losses_that_are_no_numbers_are_left_out),
        TEST_IN_DIRECTORY(columns_are_means_of_steps),
        TEST_IN_DIRECTORY(what_has_diverged_is_short),
        TEST_IN_DIRECTORY(charts_number_steps_as_timings_do),
        TEST_IN_DIRECTORY(a_suspect_speed_up_is_no_figure),
        TEST_IN_DIRECTORY(labels_do_not_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
