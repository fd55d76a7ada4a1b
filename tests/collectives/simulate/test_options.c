/* coll-simulate's command line: what is taken, and what is refused by name. */
#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "common/kinds.h"
#include "support.h"

static sweep_options options; /* of the line that was parsed last */
static base_error error;

/* Parses the words of `line`. */
static base_status parse(const char *line)
{
    static test_words words;
    char **argv = words.argv;
    const int argc = test_words_split(&words, line);
    error.message[0] = '\0';
    return sweep_options_parse(argc, argv, &options, &error);
}

static void test_defaults(void **state)
{
    (void)state;
    assert_ok(parse("coll-simulate"), &error);
    assert_int_equal(options.kind, COLL_ALL_REDUCE);
    assert_int_equal(options.whole_bytes, 1 << 20);
    assert_int_equal(options.ranks_max, 256);
    assert_int_equal(options.ranks_per_host, 8);
    assert_true(options.costs.between.latency_us == 20);
    assert_string_equal(options.plot_path, "");
    assert_false(options.trace.asked);
    assert_false(options.help);
}

static void test_flags(void **state)
{
    (void)state;
    assert_ok(parse("coll-simulate -b 64K broadcast -n 4096 -p 1 --inside 2,0.5,0.25 --between "
                    "30,0,1 --reduce 0.5 --plot out.svg"),
              &error);
    assert_int_equal(options.kind, COLL_BROADCAST);
    assert_int_equal(options.whole_bytes, 65536);
    assert_int_equal(options.ranks_max, 4096);
    assert_int_equal(options.ranks_per_host, 1);
    assert_true(options.costs.inside.latency_us == 2);
    assert_true(options.costs.inside.message_us == 0.5);
    assert_true(options.costs.inside.byte_ns == 0.25);
    assert_true(options.costs.between.message_us == 0);
    assert_true(options.costs.between.byte_ns == 1);
    assert_true(options.costs.reduce_byte_ns == 0.5);
    assert_string_equal(strrchr(options.plot_path, '/'), "/out.svg");
    assert_ok(parse("coll-simulate reduce --trace --algorithm two_level -p 2"), &error);
    assert_true(options.trace.asked);
    assert_int_equal(options.trace.algorithm, COLL_ALGORITHM_TWO_LEVEL);
    assert_int_equal(options.trace.ranks, 4);
    assert_ok(parse("coll-simulate --trace --algorithm ring --ranks 8"), &error);
    assert_int_equal(options.trace.ranks, 8);
    assert_ok(parse("coll-simulate --trace --algorithm ring --plot x.svg"), &error);
    assert_ok(parse("coll-simulate --trace --algorithm ring --plot x.html"), &error);
    assert_string_equal(strrchr(options.plot_path, '/'), "/x.html");
    assert_ok(parse("coll-simulate --help"), &error);
    assert_true(options.help);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *expected;
    } cases[] = {
        {"coll-simulate all_reduce broadcast", "one collective at a time, not 'broadcast' too"},
        {"coll-simulate all_add",
         "no collective 'all_add' has a schedule (these have: all_reduce broadcast"},
        {"coll-simulate barrier", "alltoall scan exscan)"},
        {"coll-simulate send", "no collective 'send' has a schedule"},
        {"coll-simulate scam", "did you mean scan?"},
        {"coll-simulate -n 1", "--ranks-max: 1: must be a whole number from 2 to 4096"},
        {"coll-simulate -b 0", "--bytes: '0'"},
        {"coll-simulate --inside 1,2", "--inside: '1,2': must be three numbers"},
        {"coll-simulate --inside 1,2,3,4", "three numbers"},
        {"coll-simulate --between 1,-2,3", "three numbers"},
        {"coll-simulate --between 1,nan,3", "three numbers"},
        {"coll-simulate --plot out.pdf", "/out.pdf: a picture's name must end with .svg"},
        {"coll-simulate broadcast --plot out", "/out: a picture's name must end with"},
        {"coll-simulate --trace",
         "--trace shows one algorithm: give --algorithm ring, for example"},
        {"coll-simulate --trace --algorithm auto", "--trace shows one algorithm"},
        {"coll-simulate --trace --algorithm bruck",
         "--algorithm: 'bruck': must be one of: auto ring"},
        {"coll-simulate --trace --algorithm ring --ranks 9",
         "--ranks: 9: must be a whole number from 2 to 8"},
        {"coll-simulate --trace --algorithm ring --ranks 1", "must be a whole number from 2 to 8"},
        {"coll-simulate --trace --algorithm ring --plot x.png",
         "/x.png: a trace's name must end with .svg, to move, or with .html"},
        {"coll-simulate --plot x.html", "/x.html: a picture's name must end with .svg"},
        {"coll-simulate --algorithm ring", "--algorithm and --ranks are for --trace"},
        {"coll-simulate --ranks 4", "--algorithm and --ranks are for --trace"},
        {"coll-simulate --ranks 4 --plot x.html", "--algorithm and --ranks are for --trace"},
        {"coll-simulate --trace --algorithm ring -n 8",
         "--bytes, --ranks-max and times are for the table"},
        {"coll-simulate --trace --algorithm ring -b 8",
         "--bytes, --ranks-max and times are for the table"},
        {"coll-simulate --trace --algorithm ring --reduce 1",
         "--bytes, --ranks-max and times are for the table"},
        {"coll-simulate --reduce -1", "--reduce: -1: must be a number from 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (parse(cases[i].line) == BASE_OK || strstr(error.message, cases[i].expected) == NULL) {
            fail_msg("%s: '%s'", cases[i].line, error.message);
        }
    }
}

/* The help of this program and of coll-bench lists what can be chosen. */
static void test_help_lists_all_algorithms(void **state)
{
    (void)state;
    for (int a = COLL_ALGORITHM_RING; a <= COLL_ALGORITHM_LAST; a++) {
        const char *name = coll_algorithm_name((coll_algorithm)a);
        if (strstr(COLL_ALGORITHM_NAMES, name) == NULL) {
            fail_msg("algorithm %d, '%s', is not in '%s'", a, name, COLL_ALGORITHM_NAMES);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_help_lists_all_algorithms),
    };
    return cmocka_run_group_tests_name("coll-simulate-options", tests, NULL, NULL);
}
