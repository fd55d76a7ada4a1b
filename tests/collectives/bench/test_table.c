/* What coll-bench prints and draws, against lines written by hand in nccl-tests' layout; and how it
 * makes times of samples. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "measure.h"
#include "plot.h"
#include "support.h"
#include "table.h"

static const bench_options all_reduce = {.kind = COLL_ALL_REDUCE,
                                         .ranks = 2,
                                         .begin_bytes = 8,
                                         .end_bytes = 64 << 20,
                                         .factor = 2,
                                         .iterations = 20,
                                         .warm_up = 5,
                                         .checks = 1,
                                         .type = COLL_FLOAT32,
                                         .arena = true};

static const bench_roofline roofline = {.processors = 2,
                                        .read_one = 38.1,
                                        .read_all = 67.0,
                                        .copy_one = 20.1,
                                        .copy_all = 30.0,
                                        .core_to_core_ns = 33.2};

/* Everything that was printed to *stream; the caller frees it. */
static char *take_text(FILE **stream, char **text)
{
    assert_int_equal(fclose(*stream), 0);
    return *text;
}

static void test_row(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    const bench_row row = {
        .size_bytes = 67108864,
        .count = 16777216,
        .type = COLL_FLOAT32,
        .reduce = COLL_SUM,
        .root = -1,
        .columns = {{4242.64, 4200, 15.82, 15.82, 0}, {0.07, 0.07, 0.11, 0.11, -1}}};
    assert_non_null(out);
    bench_table_row_begin(out, &row);
    bench_table_column(out, &row.columns[0]);
    bench_table_column(out, &row.columns[1]);
    bench_table_row_end(out);
    assert_string_equal(take_text(&out, &text),
                        "    67108864      16777216     float     sum      -1  4242.64   15.82   "
                        "15.82       0    0.070    0.11    0.11     N/A\n");
    free(text);
}

static void test_wide_numbers(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    const bench_column column = {123456.789, 1, 1234.56, 99999.9, 12};
    assert_non_null(out);
    bench_table_column(out, &column);
    assert_string_equal(take_text(&out, &text), "   123457  1234.6  100000      12");
    free(text);
}

static void test_header(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    bench_shared *shared = calloc(1, sizeof *shared);
    assert_non_null(out);
    assert_non_null(shared);
    shared->transport = COLL_TRANSPORT_SHM;
    bench_table_header(out, &all_reduce, shared, &roofline);
    (void)take_text(&out, &text);
    assert_non_null(strstr(text,
                           "# nThread 1 nRanks 2 minBytes 8 maxBytes 67108864 step: 2(factor) "
                           "warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"));
    assert_non_null(strstr(text, "#  Rank  1 Group  0 Pid"));
    assert_non_null(strstr(text, "read 38.1 GB/s, copy 20.1 GB/s with one processor; read 67.0, "
                                 "copy 30.0 with 2; core to core 33 "
                                 "ns\n"));
    assert_non_null(strstr(text, "#       size         count      type   redop    root     time   "
                                 "algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"));
    assert_non_null(strstr(text, "#        (B)    (elements)                               (us)  "
                                 "(GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)        \n"));
    free(text);
    free(shared);
}

static bench_shared *sample_rows(int64_t wrong)
{
    bench_shared *shared = calloc(1, sizeof *shared);
    assert_non_null(shared);
    shared->row_count = 2;
    for (int i = 0; i < 2; i++) {
        shared->rows[i] = (bench_row){.size_bytes = 8U << i,
                                      .count = 2U << i,
                                      .type = COLL_FLOAT32,
                                      .reduce = COLL_SUM,
                                      .root = -1,
                                      .columns = {{1, 1, 10, 10, wrong}, {1, 1, 20, 20, -1}}};
    }
    return shared;
}

static void test_footer(void **state)
{
    (void)state;
    static const char *const says[] = {"# Out of bounds values : not checked\n",
                                       "# Out of bounds values : 0 OK\n",
                                       "# Out of bounds values : 2 FAILED\n"};
    for (int64_t wrong = -1; wrong < 2; wrong++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        bench_shared *shared = sample_rows(wrong);
        assert_non_null(out);
        assert_int_equal(bench_total_wrong(shared), wrong > 0 ? 2 * wrong : 0);
        bench_table_footer(out, &all_reduce, shared, &roofline);
        (void)take_text(&out, &text);
        assert_non_null(strstr(text, says[wrong + 1]));
        assert_non_null(strstr(text, "# Avg bus bandwidth    : 15 \n"));
        free(text);
        free(shared);
    }
}

/* Two panels with the median times and the bandwidths of both columns, at each size above 0. */
static void test_plot(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        ">all_reduce, 2 ranks, shm, ring, arena</text>",
        ">float sum, out of place</text>",
        ">float sum, in place</text>",
        ">microseconds, median</text>",
        ">bus bandwidth, GB/s</text>",
        ">8</text>",
        "<title>8 bytes: 1.00 us</title>",
        "<title>16 bytes: 10.00 GB/s</title>",
        "<title>16 bytes: 20.00 GB/s</title>",
    };
    test_directory directory;
    coll_error error;
    base_error unread;
    void *text = NULL;
    size_t bytes = 0;
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "it's.svg");
    bench_shared *shared = sample_rows(0);
    shared->transport = COLL_TRANSPORT_SHM;
    shared->algorithm = COLL_ALGORITHM_RING;
    shared->row_count = 3;
    shared->rows[2] = shared->rows[0];
    shared->rows[2].type = COLL_INT32; /* a series without a size */
    shared->rows[2].size_bytes = 0;
    assert_int_equal(bench_plot_draw(path, &all_reduce, shared, &error), COLL_OK);
    assert_int_equal(base_file_read(path, 1 << 20, &text, &bytes, &unread), BASE_OK);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        assert_has(text, wanted[i]);
    }
    assert_null(strstr(text, "int32"));
    assert_null(strstr(text, "nan"));
    free(text);
    free(shared);
    test_directory_remove(&directory);
}

/* Two ranks; an operation lasts from the last entering to the last leaving. */
static void test_times(void **state)
{
    (void)state;
    enum { SAMPLES = 3 };
    static const bench_sample samples[2 * SAMPLES] = {{100, 200}, {300, 420}, {500, 900},
                                                      {150, 190}, {290, 440}, {510, 800}};
    bench_shared *shared = calloc(1, sizeof *shared + sizeof samples);
    double mean_us = 0.0;
    double median_us = 0.0;
    assert_non_null(shared);
    shared->samples = SAMPLES;
    shared->samples_max = SAMPLES;
    shared->batch = 10;
    memcpy(shared->sample, samples, sizeof samples);
    bench_summarise(shared, 2, 10, 2.0, &mean_us, &median_us); /* 40, 130 and 380 ticks */
    assert_true(mean_us > 9.16 && mean_us < 9.17);
    assert_true(median_us == 6.5);
    free(shared);
}

/* -n is what is done, but for less than one operation a batch. */
static void test_iterations(void **state)
{
    (void)state;
    static const int asked[] = {1, 2, 19, 499, 500, 501, 700, 999, 1000, 1001, 99999, 100000};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        int samples = 0;
        int batch = 0;
        bench_choose_samples(asked[i], true, 1.0, &samples, &batch);
        assert_true(samples >= 1 && batch >= 1 && batch <= 500);
        assert_in_range(samples * batch, asked[i], asked[i] + samples - 1);
        bench_choose_samples(asked[i], false, 1.0, &samples, &batch);
        assert_int_equal(samples, asked[i]);
        assert_int_equal(batch, 1);
    }
    int samples = 0;
    int batch = 0;
    bench_choose_samples(0, false, 1e6, &samples, &batch);
    assert_int_equal(samples, 5);
    bench_choose_samples(0, true, 0.0, &samples, &batch);
    assert_int_equal(samples, BENCH_SAMPLES_AUTO_MAX);
    assert_int_equal(batch, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row),        cmocka_unit_test(test_wide_numbers),
        cmocka_unit_test(test_header),     cmocka_unit_test(test_footer),
        cmocka_unit_test(test_times),      cmocka_unit_test(test_plot),
        cmocka_unit_test(test_iterations),
    };
    return cmocka_run_group_tests_name("coll-bench-table", tests, NULL, NULL);
}
