/* coll-bench's command line: what is taken, and what is refused by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/on_device.h"
#include "coll/coll.h"
#include "options.h"
#include "support.h"

static base_error error;
static int launched_ranks;
static bench_options options; /* of the line that was parsed last */

/* Parses the words of `line`. */
static base_status parse(const char *line)
{
    static test_words words;
    char **argv = words.argv;
    const int argc = test_words_split(&words, line);
    error.message[0] = '\0';
    return bench_options_parse(argc, argv, launched_ranks, &options, &error);
}

static void test_defaults(void **state)
{
    (void)state;
    assert_ok(parse("coll-bench all_reduce"), &error);
    assert_false(options.help);
    assert_int_equal(options.kind, COLL_ALL_REDUCE);
    assert_int_equal(options.ranks, 2);
    assert_int_equal(options.begin_bytes, 8);
    assert_int_equal(options.end_bytes, 64 << 20);
    assert_int_equal(options.factor, 2);
    assert_int_equal(options.iterations, 0);
    assert_int_equal(options.checks, 1);
    assert_int_equal(options.type, COLL_FLOAT32);
    assert_int_equal(options.reduce, COLL_SUM);
    assert_true(options.arena);
    assert_string_equal(options.json_path, "");
    assert_string_equal(options.interface, "127.0.0.1");
}

static void nccl_is_for_what_gpus_do(void **state)
{
    (void)state;
    assert_ok(parse("coll-bench reduce --transport nccl"), &error);
    assert_int_equal(options.transport, BENCH_TRANSPORT_NCCL);
    assert_ok(bench_options_check_nccl(&options, &error), &error);
    assert_ok(parse("coll-bench scan --transport nccl"), &error);
    assert_int_equal(bench_options_check_nccl(&options, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "scan is not for --transport nccl"));
    assert_ok(parse("coll-bench --tune --transport nccl"), &error);
    assert_int_equal(bench_options_check_nccl(&options, &error), BASE_ERR_INVALID);
    assert_ok(bench_check_words("all_reduce -b 4 -e 64K", 3, &error), &error);
    assert_int_equal(bench_check_words("all_reduce --ranks 2", 3, &error), BASE_ERR_INVALID);
    assert_int_equal(bench_check_words("sendrecv", 2, &error), BASE_ERR_INVALID);
    assert_int_equal(bench_check_words("alltoall --counts", 2, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "--counts is not for --transport nccl"));
    assert_int_equal(bench_check_words("", 2, &error), BASE_ERR_INVALID);
}

/* Bits are combined of integers; where nothing is combined, the operation says nothing. */
static void bits_are_for_integers(void **state)
{
    (void)state;
    assert_ok(parse("coll-bench all_reduce -d uint32 -o or"), &error);
    assert_int_equal(options.type, COLL_UINT32);
    assert_int_equal(options.reduce, COLL_OR);
    assert_ok(parse("coll-bench all_reduce -d all -o and"), &error);
    assert_ok(parse("coll-bench all_gather -o xor"), &error);
    assert_int_equal(bench_check_words("all_reduce -d int32 -o xor", 2, &error), BASE_ERR_INVALID);
    assert_has(error.message, "--op and, or or xor is not for --transport nccl");
}

static void counts_are_for_kinds_with_blocks(void **state)
{
    static const char *const with[] = {"all_gather", "reduce_scatter", "alltoall", "gather",
                                       "scatter"};
    static const char *const without[] = {"all_reduce", "broadcast", "reduce", "sendrecv"};
    char line[64];
    (void)state;
    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++) {
        (void)snprintf(line, sizeof line, "coll-bench %s --counts", with[i]);
        assert_ok(parse(line), &error);
        assert_true(options.by_counts);
    }
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        (void)snprintf(line, sizeof line, "coll-bench %s --counts", without[i]);
        assert_int_equal(parse(line), BASE_ERR_INVALID);
        assert_non_null(strstr(error.message, "--counts is for all_gather"));
    }
    assert_int_equal(parse("coll-bench alltoall --counts --tune"), BASE_ERR_INVALID);
    assert_ok(parse("coll-bench alltoall"), &error);
    assert_false(options.by_counts);
}

static void test_all_flags(void **state)
{
    (void)state;
    assert_ok(parse("coll-bench reduce -n 7 -w 3 -b 1k -e 2M -f 4 -d bfloat16 -o max -r 2 -c 9 "
                    "-J out.json --ranks 5 --transport shm --algorithm tree --tcp-auth off "
                    "--no-arena --plot a.b.svg"),
              &error);
    assert_int_equal(options.kind, COLL_REDUCE);
    assert_int_equal(options.iterations, 7);
    assert_int_equal(options.warm_up, 3);
    assert_int_equal(options.begin_bytes, 1024);
    assert_int_equal(options.end_bytes, 2 << 20);
    assert_int_equal(options.factor, 4);
    assert_int_equal(options.type, COLL_BFLOAT16);
    assert_int_equal(options.reduce, COLL_MAX);
    assert_int_equal(options.root, 2);
    assert_int_equal(options.checks, 9);
    assert_string_equal(strrchr(options.json_path, '/'), "/out.json");
    assert_int_equal(options.ranks, 5);
    assert_int_equal(options.transport, COLL_TRANSPORT_SHM);
    assert_int_equal(options.algorithm, COLL_ALGORITHM_TREE);
    assert_int_equal(options.tcp_auth, COLL_TCP_AUTH_OFF);
    assert_false(options.arena);
    assert_false(options.tune);
    assert_string_equal(strrchr(options.plot_path, '/'), "/a.b.svg");
}

static void test_long_names(void **state)
{
    (void)state;
    assert_ok(parse("coll-bench --iters 7 --warmup_iters 3 --minbytes 16 --maxbytes 64 --stepbytes "
                    "16 --datatype all --op all --root all --check 0 --output_file x gather"),
              &error);
    assert_int_equal(options.kind, COLL_GATHER);
    assert_int_equal(options.type, 0);
    assert_int_equal(options.reduce, 0);
    assert_int_equal(options.root, BENCH_ROOT_ALL);
    assert_int_equal(options.checks, 0);
    assert_int_equal(bench_next_size(&options, 16), 32);
    assert_int_equal(bench_next_size(&options, 64), 0);
    assert_ok(parse("coll-bench all_reduce --help"), &error);
    assert_true(options.help);
}

static void test_tune(void **state)
{
    (void)state;
    assert_ok(parse("coll-bench --tune"), &error);
    assert_true(options.tune);
    assert_int_equal(options.kind, COLL_ALL_REDUCE);
    assert_ok(parse("coll-bench all_gather --tune"), &error);
    assert_int_equal(options.kind, COLL_ALL_GATHER);
}

static void test_sizes(void **state)
{
    (void)state;
    assert_ok(parse("coll-bench all_reduce -b 3 -e 25 -f 2"), &error);
    assert_int_equal(bench_next_size(&options, 3), 6);
    assert_int_equal(bench_next_size(&options, 12), 24);
    assert_int_equal(bench_next_size(&options, 24), 0);
    assert_ok(parse("coll-bench all_reduce -b 0 -e 3M -i 1M"), &error);
    assert_int_equal(bench_next_size(&options, 0), 1 << 20);
    assert_int_equal(bench_next_size(&options, 3 << 20), 0);
    assert_ok(parse("coll-bench all_reduce -b 3G -e 3G"), &error);
    assert_true(options.end_bytes == (size_t)3 << 30);
}

static void test_kinds(void **state)
{
    (void)state;
    static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                        "reduce",     "alltoall",   "gather",         "scatter",
                                        "scan",       "exscan",     "sendrecv"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "coll-bench %s", names[i]);
        assert_ok(parse(line), &error);
        assert_string_equal(bench_kind_name(options.kind), names[i]);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *says;
    } cases[] = {
        {"coll-bench", "say what to time"},
        {"coll-bench all_reduce all_gather", "one collective at a time"},
        {"coll-bench barrier", "no collective 'barrier'"},
        {"coll-bench allreduce", "sendrecv); did you mean all_reduce?"},
        {"coll-bench all_reduce -b 64 -e 8", "-b 64 is more than -e 8"},
        {"coll-bench all_reduce -i 8 -f 2", "either -i or -f"},
        {"coll-bench all_reduce -b 0 -e 64", "from 0 bytes on"},
        {"coll-bench all_reduce -b 4x",
         "--minbytes: '4x': must be a number of bytes from 0 to 1024G"},
        {"coll-bench all_reduce -b -4", "'-4': must be a number of bytes"},
        {"coll-bench all_reduce -n 0", "--iters: 0: must be a whole number from 1"},
        {"coll-bench all_reduce --ranks 65", "--ranks: 65: must be a whole number from 1 to 64"},
        {"coll-bench all_reduce -d float8", "--datatype: 'float8': must be one of: all float"},
        {"coll-bench all_reduce -o nand", "--op: 'nand': must be one of: all sum"},
        {"coll-bench all_reduce -o xor", "--op xor is for integers, not --datatype float"},
        {"coll-bench reduce -d half -o and", "--op and is for integers, not --datatype half"},
        {"coll-bench all_reduce --algorithm bruck",
         "--algorithm: 'bruck': must be one of: auto ring"},
        {"coll-bench all_reduce --transport rdma", "--transport: 'rdma': must be one of: auto shm"},
        {"coll-bench all_reduce --tcp-auth maybe", "'maybe'"},
        {"coll-bench broadcast -r x", "'x': must be a rank, or all"},
        {"coll-bench broadcast -r 64", "'64': must be a rank, or all"},
        {"coll-bench broadcast -r 2", "there is no rank 2 among 2"},
        {"coll-bench sendrecv --ranks 1", "at least 2 ranks"},
        {"coll-bench exscan -o avg", "--op avg is not for exscan"},
        {"coll-bench all_reduce --plot x.png", "/x.png: a picture's name must end with .svg"},
        {"coll-bench sendrecv --tune", "not for sendrecv"},
        {"coll-bench --tune --plot x.svg", "not for --plot"},
        {"coll-bench --tune -d double", "not with --datatype"},
        {"coll-bench --tune -o max", "not with --datatype, --op"},
        {"coll-bench --tune --algorithm ring", "--op, --algorithm or --counts"},
        {"coll-bench all_reduce -b 1 -e 64M -i 1", "more than 4096 rows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_not_equal(parse(cases[i].line), BASE_OK);
        if (strstr(error.message, cases[i].says) == NULL) {
            fail_msg("%s: '%s' does not say '%s'", cases[i].line, error.message, cases[i].says);
        }
    }
}

/* A launcher's ranks are its, and so is what it makes the context of. */
static void test_launched(void **state)
{
    (void)state;
    launched_ranks = 5;
    assert_ok(parse("coll-bench broadcast -r 4"), &error);
    assert_int_equal(options.ranks, 5);
    assert_ok(parse("coll-bench broadcast --ranks 5"), &error);
    assert_status(parse("coll-bench broadcast --ranks 2"), BASE_ERR_INVALID);
    assert_status(parse("coll-bench broadcast -r 5"), BASE_ERR_INVALID);
    assert_status(parse("coll-bench all_reduce --algorithm auto"), BASE_ERR_INVALID);
    assert_status(parse("coll-bench all_reduce --interface lo"), BASE_ERR_INVALID);
    launched_ranks = 4096;
    assert_status(parse("coll-bench all_reduce"), BASE_ERR_INVALID);
    launched_ranks = 0;
}

/* --help names every option, and defaults. */
static void test_help(void **state)
{
    (void)state;
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *stream = open_memstream(&text, &text_bytes);
    assert_non_null(stream);
    bench_options_help(stream);
    assert_int_equal(fclose(stream), 0);
    assert_non_null(strstr(text, "\n  -e, --maxbytes BYTES     largest size (64M)\n"));
    assert_non_null(strstr(text, "\n  --ranks N                processes (2)\n"));
    for (int i = 0; i < bench_option_fields.count; i++) {
        char option[64];
        (void)snprintf(option, sizeof option, "--%s", bench_option_fields.rows[i].option);
        assert_non_null(strstr(text, option));
    }
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        assert_true(strcspn(line, "\n") <= 100);
    }
    assert_non_null(strstr(text, " exscan sendrecv\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(counts_are_for_kinds_with_blocks),
        cmocka_unit_test(nccl_is_for_what_gpus_do),
        cmocka_unit_test(bits_are_for_integers),
        cmocka_unit_test(test_all_flags),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_tune),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_launched),
    };
    return cmocka_run_group_tests_name("coll-bench-options", tests, NULL, NULL);
}
