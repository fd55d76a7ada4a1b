/* coll-bench as its users run it. */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"
#include "support.h"

enum { ARGUMENTS_MAX = 16 };

static test_program program;

/* Runs a program with the arguments of `line`; its exit code. */
static int run_program(const char *path, const char *line, const char *variable)
{
    static char words[512];
    const char *arguments[ARGUMENTS_MAX + 2] = {path};
    const char *variables[] = {variable, NULL};
    int count = 1;
    char *rest = NULL;
    assert_true(strlen(line) < sizeof words);
    memcpy(words, line, strlen(line) + 1);
    for (char *word = strtok_r(words, " ", &rest); word != NULL && count <= ARGUMENTS_MAX;
         word = strtok_r(NULL, " ", &rest)) {
        arguments[count++] = word;
    }
    test_program_start(&program, arguments, variables);
    const int code = test_program_wait(&program);
    test_program_assert_no_children();
    return code;
}

/* Runs coll-bench with the arguments of `line`; its exit code. */
static int run(const char *line, const char *variable)
{
    return run_program(COLL_BENCH_PATH, line, variable);
}

static void check_column(const json_t *row, const char *name)
{
    static const char *const times[] = {"time_us", "time_us_p50", "algbw", "busbw"};
    const json_t *column = json_object_get(row, name);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        assert_true(json_is_number(json_object_get(column, times[i])));
    }
    assert_true(json_number_value(json_object_get(column, "time_us")) > 0.0);
    assert_int_equal(json_integer_value(json_object_get(column, "wrong")), 0);
    assert_true(json_is_integer(json_object_get(column, "wrong")));
}

static void test_json(void **state)
{
    (void)state;
    test_directory directory;
    char line[512];
    json_error_t problem;
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "out.json");
    (void)snprintf(line, sizeof line, "all_reduce -b 8 -e 512 -f 8 -n 10 -o avg -J %s", path);
    assert_int_equal(run(line, NULL), 0);
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "ranks")), 2);
    assert_string_equal(json_string_value(json_object_get(root, "transport")), "shm");
    assert_true(json_is_string(json_object_get(root, "algorithm")));
    assert_true(json_number_value(
                    json_object_get(json_object_get(root, "roofline"), "read_gb_per_s")) > 0.0);
    const json_t *options = json_object_get(root, "options");
    assert_int_equal(json_integer_value(json_object_get(options, "maxbytes")), 512);
    assert_int_equal(json_integer_value(json_object_get(options, "iters")), 10);
    assert_string_equal(json_string_value(json_object_get(options, "transport")), "auto");
    assert_string_equal(json_string_value(json_object_get(options, "op")), "avg");
    const json_t *rows = json_object_get(root, "rows");
    assert_int_equal(json_array_size(rows), 3);
    const json_t *row = json_array_get(rows, 2);
    assert_int_equal(json_integer_value(json_object_get(row, "size")), 512);
    assert_int_equal(json_integer_value(json_object_get(row, "count")), 128);
    assert_string_equal(json_string_value(json_object_get(row, "type")), "float");
    assert_string_equal(json_string_value(json_object_get(row, "redop")), "avg");
    assert_int_equal(json_integer_value(json_object_get(row, "root")), -1);
    check_column(row, "out_of_place");
    check_column(row, "in_place");
    json_decref(root);
    test_directory_remove(&directory);
}

static void test_every_kind(void **state)
{
    (void)state;
    static const char *const kinds[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                        "reduce",     "alltoall",   "gather",         "scatter",
                                        "scan",       "exscan",     "sendrecv"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char line[128];
        (void)snprintf(line, sizeof line, "%s --ranks 3 -b 0 -e 40000 -i 20000 -n 3 -d half -c 2",
                       kinds[i]);
        if (run(line, NULL) != 0) {
            fail_msg("%s: %s%s", kinds[i], program.text[TEST_STDOUT], program.text[TEST_STDERR]);
        }
        assert_non_null(strstr(program.text[TEST_STDOUT], "# Out of bounds values : 0 OK"));
    }
}

/* Of floats, -o all leaves out what is for integers. */
static void test_bits(void **state)
{
    static const struct {
        const char *line;
        int rows;
    } cases[] = {
        {"all_reduce --ranks 3 -b 8K -e 8K -n 3 -d all -o xor", 6},
        {"reduce_scatter --ranks 3 -b 8K -e 8K -n 3 -d uint32 -o all", 8},
        {"all_reduce --ranks 2 -b 8 -e 8 -n 3 -d uint8 -o and", 1},
        {"reduce --ranks 3 -b 8K -e 8K -n 3 -d half -o all", 5},
        {"exscan --ranks 3 -b 8K -e 8K -n 3 -d half -o all", 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int rows = 0;
        assert_int_equal(run(cases[i].line, NULL), 0);
        for (const char *at = program.text[TEST_STDOUT]; at != NULL; at = strchr(at + 1, '\n')) {
            rows += *at == '\n' && at[1] == ' ';
        }
        assert_int_equal(rows, cases[i].rows);
        assert_has(program.text[TEST_STDOUT], "# Out of bounds values : 0 OK");
    }
}

static void test_counts(void **state)
{
    static const char *const lines[] = {
        "alltoall --ranks 3 -b 0 -e 400000 -i 200000 -n 3 -d all -c 2 --counts",
        "alltoall --ranks 3 -b 0 -e 400000 -i 200000 -n 3 --counts --no-arena",
        "alltoall --ranks 2 -b 3K -e 3M -f 32 -n 3 --counts --transport tcp",
        "gather --ranks 3 -b 0 -e 40000 -i 20000 -n 3 -r 1 --counts",
        "scatter --ranks 3 -b 0 -e 40000 -i 20000 -n 3 -r 2 --counts --transport zmq",
        "all_gather --ranks 3 -b 0 -e 40000 -i 20000 -n 3 --counts",
        "reduce_scatter --ranks 3 -b 0 -e 40000 -i 20000 -n 3 -o max --counts",
    };
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (run(lines[i], NULL) != 0) {
            fail_msg("%s: %s%s", lines[i], program.text[TEST_STDOUT], program.text[TEST_STDERR]);
        }
        assert_non_null(strstr(program.text[TEST_STDOUT], ", with counts\n"));
        assert_non_null(strstr(program.text[TEST_STDOUT], "# Out of bounds values : 0 OK"));
    }
    assert_int_equal(run("alltoall -b 1K -e 1K -n 3 --counts", "COLL_BENCH_CORRUPT=1"), 1);
}

/* The header names the algorithm that runs, and who has chosen it. */
static void test_algorithm(void **state)
{
    static const struct {
        const char *line;
        const char *variable;
        const char *expected;
    } cases[] = {
        {"all_reduce -b 1K -e 1K -n 3", "RINGFENCE_COLL_ALGORITHM=ring",
         "# Transport shm, algorithm ring (RINGFENCE_COLL_ALGORITHM), buffers"},
        {"all_reduce -b 1K -e 1K -n 3 --algorithm tree", "RINGFENCE_COLL_ALGORITHM=ring",
         "# Transport shm, algorithm tree, buffers"},
        {"all_reduce -b 1K -e 1K -n 3", NULL, "# Transport shm, algorithm direct (auto), buffers"},
        {"all_reduce -b 1K -e 1K -n 3 --transport tcp", NULL,
         "# Transport tcp, algorithm auto, buffers"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(run(cases[i].line, cases[i].variable), 0);
        if (strstr(program.text[TEST_STDOUT], cases[i].expected) == NULL) {
            fail_msg("%s: %s", cases[i].expected, program.text[TEST_STDOUT]);
        }
    }
}

/* One bit of one rank's result, flipped before the check. */
static void test_wrong_value(void **state)
{
    (void)state;
    assert_int_equal(run("all_reduce -b 1K -e 1K -n 3", "COLL_BENCH_CORRUPT=1"), 1);
    assert_non_null(strstr(program.text[TEST_STDOUT], "# Out of bounds values : 2 FAILED"));
    assert_non_null(strstr(program.text[TEST_STDERR], "2 wrong values"));
    assert_int_equal(run("alltoall -b 1K -e 1K -n 3 -c 0", "COLL_BENCH_CORRUPT=1"), 0);
    assert_non_null(strstr(program.text[TEST_STDOUT], "N/A"));
}

static void test_usage(void **state)
{
    (void)state;
    assert_int_equal(run("all_reduce --algorithm bruck", NULL), 2);
    assert_non_null(
        strstr(program.text[TEST_STDERR], "--algorithm: 'bruck': must be one of: auto ring"));
    assert_int_equal(run("--help", NULL), 0);
}

/* What cannot be written is said before anything runs. */
static void test_unwritable(void **state)
{
    (void)state;
    static const char *const lines[] = {"all_reduce -b 8 -e 8 -J /nowhere/out.json",
                                        "all_reduce -b 8 -e 8 -J /tmp",
                                        "all_reduce -b 8 -e 8 --plot /nowhere/out.svg"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(run(lines[i], NULL), 2);
        assert_string_equal(program.text[TEST_STDOUT], "");
        assert_ptr_equal(strchr(program.text[TEST_STDERR], '\n'), /* one line */
                         strrchr(program.text[TEST_STDERR], '\n'));
    }
    assert_non_null(strstr(program.text[TEST_STDERR], "/nowhere/out.svg"));
}

/* Results that go nowhere are no success; whoever reads only the first lines is no error. */
static void test_lost_output(void **state)
{
    (void)state;
    static const char *const variables[] = {NULL};
    static const char *const lines[] = {
        "exec " COLL_BENCH_PATH " all_reduce -b 8 -e 8 -n 3 >/dev/full",
        "exec " COLL_BENCH_PATH " all_reduce --tune -b 8 -e 8 >/dev/full",
        "exec " COLL_BENCH_PATH " all_reduce -b 8 -e 8 -n 3 -J /dev/full",
    };
    static const char *const said[] = {"standard output", "standard output", "/dev/full"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *const arguments[] = {"/bin/sh", "-c", lines[i], NULL};
        test_program_start(&program, arguments, variables);
        assert_int_equal(test_program_wait(&program), 1);
        assert_non_null(strstr(program.text[TEST_STDERR], said[i]));
    }
    /* The table of who has closed its output must not go to a peer's socket. */
    static const char *const gone[] = {
        "/bin/sh", "-c", "exec " COLL_BENCH_PATH " all_reduce -b 8 -e 8 -n 3 --transport tcp >&-",
        NULL};
    test_program_start(&program, gone, variables);
    assert_int_equal(test_program_wait(&program), 0);

    static const char *const arguments[] = {
        COLL_BENCH_PATH, "all_reduce", "-b", "8", "-e", "30000", "-i", "8", NULL}; /* many rows */
    test_program_start(&program, arguments, variables);
    test_program_wait_text(&program, TEST_STDOUT, "\n");
    assert_int_equal(close(program.fds[TEST_STDOUT]), 0);
    program.fds[TEST_STDOUT] = -1;
    assert_int_equal(test_program_wait(&program), 128 + SIGPIPE);
    assert_string_equal(program.text[TEST_STDERR], "");
    test_program_assert_no_children();
}

static void test_interface(void **state)
{
    (void)state;
    assert_int_equal(run("all_reduce -b 8 -e 8 -n 3 --transport tcp --interface lo", NULL), 0);
    assert_int_equal(run("all_reduce -b 8 -e 8 -n 3 --transport zmq --interface 127.0.0.0/8", NULL),
                     0);
    assert_int_equal(run("all_reduce -b 8 -e 8 --transport tcp --interface none0", NULL), 1);
    assert_non_null(strstr(program.text[TEST_STDERR], "none0"));
}

static void test_plot(void **state)
{
    (void)state;
    test_directory directory;
    char line[512];
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "out.svg");
    (void)snprintf(line, sizeof line, "all_gather -b 8 -e 512 -f 8 -n 3 --plot %s", path);
    assert_int_equal(run(line, NULL), 0);
    assert_int_equal(access(path, R_OK), 0);
    (void)snprintf(line, sizeof line, "all_gather -b 8 -e 8 -n 3 --ranks 4 --plot %s", path);
    assert_int_equal(run(line, NULL), 1); /* rounded down to nothing */
    assert_string_equal(program.text[TEST_STDERR], "coll-bench: error: no plot: all sizes are 0\n");
    test_directory_remove(&directory);
}

/* Every algorithm at every size, one of them chosen for each. */
static void test_tune(void **state)
{
    (void)state;
    assert_int_equal(run("--tune -b 64 -e 4K -f 64 --transport zmq", NULL), 0);
    assert_int_equal(test_count(program.text[TEST_STDOUT], " chosen\n"), 2);
    assert_int_equal(test_count(program.text[TEST_STDOUT], "  ring "), 2);

    /* On one host over shared memory there is nothing to choose, whatever the model says. */
    assert_int_equal(run("--tune -b 8K -e 8K --transport shm", NULL), 0);
    const char *line = strstr(program.text[TEST_STDOUT], "8192  direct ");
    assert_non_null(line);
    assert_ptr_equal(strstr(program.text[TEST_STDOUT], " chosen\n"), strchr(line, '\n') - 7);
}

/* A rank that dies, or the user's signal, ends all of them. */
static void test_ends(void **state)
{
    (void)state;
    static const char *const arguments[] = {
        COLL_BENCH_PATH, "all_reduce", "-b", "1M", "-e", "1M", "-n", "100000", NULL};
    static const char *const variables[] = {NULL};
    test_program_start(&program, arguments, variables);
    test_program_wait_text(&program, TEST_STDOUT, "#wrong");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&program), 128 + SIGINT);
    test_program_assert_no_children();

    test_program_start(&program, arguments, variables);
    test_program_wait_text(&program, TEST_STDOUT, "#wrong");
    const long pid = test_program_number_after(&program, TEST_STDOUT, "Rank  1 Group  0 Pid ");
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
    assert_int_equal(test_program_wait(&program), 1);
    test_program_assert_no_children();
    assert_non_null(strstr(program.text[TEST_STDERR], "rank 1 was ended by signal 9"));
}

static int count_of(const char *text)
{
    return test_count(program.text[TEST_STDOUT], text);
}

/* The ranks of a launcher are ranks of one benchmark: one table. */
static void test_launched(void **state)
{
    (void)state;
    static const char before[] = "--ranks 3 --no-bind --transport tcp -- " COLL_BENCH_PATH;
    char line[512];
    (void)snprintf(line, sizeof line, "%s alltoall -b 0 -e 40000 -i 20000 -n 30", before);
    assert_int_equal(run_program(LAUNCHER_PATH, line, NULL), 0);
    assert_int_equal(count_of("Collective test starting"), 1);
    assert_int_equal(count_of("nRanks 3 "), 1);
    assert_int_equal(count_of(" Group  0 Pid "), 3);
    assert_int_equal(count_of("Transport tcp"), 1);
    assert_int_equal(count_of("  float  "), 3);
    assert_int_equal(count_of("# Out of bounds values : 0 OK"), 1);

    (void)snprintf(line, sizeof line, "%s all_reduce -b 1K -e 1K -n 3", before);
    assert_int_equal(run_program(LAUNCHER_PATH, line, "COLL_BENCH_CORRUPT=1"), 1);
    assert_int_equal(count_of("# Out of bounds values : 2 FAILED"), 1);

    (void)snprintf(line, sizeof line, "%s all_reduce --ranks 2", before);
    assert_int_equal(run_program(LAUNCHER_PATH, line, NULL), 2);
    assert_non_null(strstr(program.text[TEST_STDERR], "the launcher has started 3 ranks, not 2"));
    (void)snprintf(line, sizeof line, "%s all_reduce -b 1024G -e 1024G", before);
    assert_int_equal(run_program(LAUNCHER_PATH, line, NULL), 1);
    assert_non_null(strstr(program.text[TEST_STDERR], "for each of 3 ranks take 6597.1 GB, and "));
    (void)snprintf(line, sizeof line, "%s all_reduce --tcp-auth off", before);
    assert_int_equal(run_program(LAUNCHER_PATH, line, NULL), 2);
    assert_non_null(strstr(program.text[TEST_STDERR], "the launcher decides on --tcp-auth"));
    (void)snprintf(line, sizeof line, "%s all_reduce -J /nowhere/out.json", before);
    assert_int_equal(run_program(LAUNCHER_PATH, line, NULL), 1);
    assert_non_null(strstr(program.text[TEST_STDERR], "rank 0"));
    assert_non_null(strstr(program.text[TEST_STDERR], "/nowhere/out.json"));
}

/* Else the kernel would kill a rank, or another process, once they write there. */
static void test_no_memory(void **state)
{
    (void)state;
    assert_int_equal(run("all_reduce --ranks 2 -b 1024G -e 1024G", NULL), 1);
    assert_non_null(strstr(program.text[TEST_STDERR],
                           "2 buffers of --maxbytes for each of 2 ranks take 4398.0 GB, and "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_json),
        cmocka_unit_test(test_every_kind),  cmocka_unit_test(test_bits),
        cmocka_unit_test(test_counts),      cmocka_unit_test(test_algorithm),
        cmocka_unit_test(test_wrong_value), cmocka_unit_test(test_usage),
        cmocka_unit_test(test_unwritable),  cmocka_unit_test(test_lost_output),
        cmocka_unit_test(test_interface),   cmocka_unit_test(test_plot),
        cmocka_unit_test(test_ends),        cmocka_unit_test(test_tune),
        cmocka_unit_test(test_launched),
    };
    return cmocka_run_group_tests_name("coll-bench", tests, NULL, NULL);
}
