/* base/options.h: options reach the record, errors name the option, the help has groups and
 * defaults. */
#include "base/options.h"

#include <stdlib.h>
#include <string.h>

#include "sample_fields.h"
#include "support.h"

enum { WORDS_MAX = 16 };

typedef struct seen_options {
    char names[128];
} seen_options;

static void note(void *user, const base_field *field)
{
    seen_options *seen = user;
    const size_t used = strlen(seen->names);
    (void)snprintf(seen->names + used, sizeof seen->names - used, "%s ", field->option);
}

/* getopt reorders the pointers, but does not change the strings. */
static base_status parse(const char *const *arguments, sample *record, seen_options *seen,
                         int *rest, const char *operands[WORDS_MAX], base_error *error)
{
    char *argv[WORDS_MAX] = {(char *)"program"};
    int argc = 1;
    const base_option_set set = {.fields = &sample_fields, .record = record};
    for (; arguments[argc - 1] != NULL; argc++) {
        argv[argc] = (char *)arguments[argc - 1];
    }
    *record = sample_defaults;
    static const base_other_name others[] = {{.name = "col", .option = "name"},
                                             {.name = "q_u", .option = "path"},
                                             {.name = "qui", .instead = "say it otherwise"}};
    const base_command_line line = {.argc = argc,
                                    .argv = argv,
                                    .sets = &set,
                                    .set_count = 1,
                                    .seen = note,
                                    .user = seen,
                                    .others = others,
                                    .other_count = sizeof others / sizeof others[0]};
    const base_status status = base_options_parse(&line, rest, error);
    for (int i = *rest; status == BASE_OK && i < argc; i++) {
        operands[i - *rest] = argv[i];
    }
    *rest = argc - *rest;
    return status;
}

static void options_reach_the_record(void **state)
{
    (void)state;
    base_error error;
    sample record;
    seen_options seen = {.names = ""};
    int rest = 0;
    const char *operands[WORDS_MAX];
    const char *const arguments[] = {"one", "--rate=0.25", "-n", "7",  "--quiet", "two",
                                     "-h",  "--wai",       "2",  "--", "--name",  NULL};
    assert_ok(parse(arguments, &record, &seen, &rest, operands, &error), &error);
    assert_true(record.rate == 0.25);
    assert_int_equal(record.count, 7);
    assert_false(record.loud);
    assert_int_equal(record.called, 1);
    assert_int_equal(record.wait_ms, 2000);
    assert_string_equal(seen.names, "rate count quiet help wait ");
    assert_int_equal(rest, 3);
    assert_string_equal(operands[0], "one");
    assert_string_equal(operands[1], "two");
    assert_string_equal(operands[2], "--name");
}

static void errors_name_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *arguments[3];
        const char *expected;
    } cases[] = {
        {{"--count", "0"}, "--count: 0: must be a whole number from 1 to 9"},
        {{"-n", "x"}, "--count: 'x'"},
        {{"--count"}, "--count needs a value"},
        {{"-n"}, "-n needs a value"},
        {{"--quiet=yes"}, "--quiet=yes takes no value"},
        {{"--nothing"}, "unknown flag --nothing"},
        {{"-x"}, "unknown flag -x"},
        {{"--h"}, "--h may be one of: --hours --help"},
        {{"--deep.digest", "0"}, "unknown flag --deep.digest"},
        {{"--cuont", "2"}, "unknown flag --cuont; did you mean --count?"},
        {{"--ruom=2K"}, "unknown flag --ruom=2K; did you mean --room?"},
        {{"--wait-ms", "3"}, "unknown flag --wait-ms; did you mean --wait?"}, /* its key */
        {{"-rate", "0.5"}, "unknown flag -r; did you mean --rate?"},
        {{"--col", "red"}, "unknown flag --col; did you mean --name?"}, /* not of --colour */
        {{"--col=red"}, "unknown flag --col=red; did you mean --name?"},
        {{"--q-u"}, "unknown flag --q-u; did you mean --path?"},
        {{"--qui"}, "unknown flag --qui: say it otherwise"},
        {{"--colour", "gren"}, "--colour: 'gren': must be one of: red green; did you mean green?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {.message = ""};
        sample record;
        seen_options seen = {.names = ""};
        int rest = 0;
        const char *operands[WORDS_MAX];
        if (parse(cases[i].arguments, &record, &seen, &rest, operands, &error) == BASE_OK ||
            strstr(error.message, cases[i].expected) == NULL) {
            fail_msg("%s: '%s'", cases[i].arguments[0], error.message);
        }
    }
}

/* The word behind an unknown letter is not what was meant. */
static void a_letter_is_not_the_next_word(void **state)
{
    (void)state;
    base_error error = {.message = ""};
    sample record;
    seen_options seen = {.names = ""};
    int rest = 0;
    const char *operands[WORDS_MAX];
    assert_int_equal(parse((const char *const[]){"-x", "--count", "3", NULL}, &record, &seen, &rest,
                           operands, &error),
                     BASE_ERR_INVALID);
    assert_string_equal(error.message, "unknown flag -x");
}

/* A long help goes on below its column; a word that is longer than a line has one of its own. */
static void help_is_wrapped(void **state)
{
    (void)state;
    char *text = NULL;
    size_t text_bytes = 0;
    char word[101];
    char help[256];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    (void)snprintf(help, sizeof help, "%.73s ab %s", word, word);
    sample record = sample_defaults;
    const base_field row = {BASE_INT(sample, count), .option = "count", .value = "N", .help = help,
                            .group = "First"};
    const base_fields fields = {.rows = &row, .count = 1};
    const base_option_set set = {.fields = &fields, .defaults = &record};
    FILE *stream = open_memstream(&text, &text_bytes);
    assert_non_null(stream);
    base_options_help(&set, 1, stream);
    base_options_operand("WHAT", help, stream);
    assert_int_equal(fclose(stream), 0);
    char expected[1024];
    (void)snprintf(expected, sizeof expected,
                   "\nFirst:\n  --count N                %.73s\n%27sab\n%27s%s\n%27s(2)\n"
                   "%-27s%.73s\n%27sab\n%27s%s\n",
                   word, "", "", word, "", "WHAT", word, "", "", word);
    assert_string_equal(text, expected);
    free(text);
}

static void help_has_groups_and_defaults(void **state)
{
    (void)state;
    char *text = NULL;
    size_t text_bytes = 0;
    const base_option_set set = {.fields = &sample_fields, .defaults = &sample_defaults};
    FILE *stream = open_memstream(&text, &text_bytes);
    assert_non_null(stream);
    base_options_help(&set, 1, stream);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(text, "\nFirst:\n"
                              "  -n, --count N            how many (2)\n"
                              "  --rate X                 (0.5)\n"
                              "  --name TEXT              of it (any)\n"
                              "  --path FILE              read\n"
                              "  --colour NAME            red or green (red)\n"
                              "  --wait SECONDS           (1.5)\n"
                              "  --turns N\n"
                              "  --room BYTES\n"
                              "  --hours HOURS\n"
                              "\nSecond:\n"
                              "  --quiet                  say less\n"
                              "  -h, --help               this\n");
    free(text);
}

static void messages_of_checks_name_options(void **state)
{
    static const char *const messages[][2] = {
        {"deep.rate 2: above count", "--rate 2: above --count"},
        {"count", "--count"},
        {"no deep.rate.", "no --rate."},
        {"(deep.rate)", "(--rate)"},
        {"deep.rates, a_count, account, countdown", "deep.rates, a_count, account, countdown"},
        {"", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        base_error error;
        (void)snprintf(error.message, sizeof error.message, "%s", messages[i][0]);
        base_options_name(&sample_fields, &error);
        assert_string_equal(error.message, messages[i][1]);
    }
}

static void a_message_that_grows_is_cut(void **state)
{
    base_error error;
    (void)state;
    memset(error.message, 'x', sizeof error.message);
    (void)snprintf(error.message + sizeof error.message - 7, 7, " count");
    base_options_name(&sample_fields, &error);
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
    assert_string_equal(error.message + sizeof error.message - 7, " --cou");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_reach_the_record),
        cmocka_unit_test(errors_name_what_is_wrong),
        cmocka_unit_test(a_letter_is_not_the_next_word),
        cmocka_unit_test(help_has_groups_and_defaults),
        cmocka_unit_test(help_is_wrapped),
        cmocka_unit_test(messages_of_checks_name_options),
        cmocka_unit_test(a_message_that_grows_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
