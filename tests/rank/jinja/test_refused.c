/* What a template may not do, and where it may not lead: what is not known, and limits. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "jinja.h"
#include "limits.h"
#include "support.h"

static base_status run_at(const char *source, const struct tm *now, base_error *error)
{
    rank_jinja *template = NULL;
    rank_jinja_text text = {.at = NULL};
    json_t *variables = json_pack("{s:s, s:[i, i, i]}", "word", "Hello", "numbers", 1, 2, 3);
    assert_non_null(variables);
    const rank_jinja_given given = {.variables = variables, .traced = "messages", .now = now};
    base_status status = rank_jinja_parse(source, &template, error);
    if (status == BASE_OK) {
        status = rank_jinja_render(template, &given, &text, error);
    }
    if (status != BASE_OK) {
        assert_null(text.at);
        assert_int_equal(error->status, status);
    }
    rank_jinja_text_fini(&text);
    rank_jinja_destroy(template);
    json_decref(variables);
    return status;
}

static base_status run(const char *source, base_error *error)
{
    return run_at(source, NULL, error);
}

typedef struct refusal {
    const char *source;
    base_status status;
    const char *message; /* a part of it */
} refusal;

static const refusal REFUSALS[] = {
    {"a\n{{ word | rot13 }}", BASE_ERR_UNSUPPORTED, "line 2: the filter 'rot13' is not known here"},
    {"{{ word is pretty }}", BASE_ERR_UNSUPPORTED, "line 1: the test 'pretty' is not known here"},
    {"\n\n{{ word.encode() }}", BASE_ERR_UNSUPPORTED,
     "line 3: the member 'encode' of a str is not known here"},
    {"{{ word.format is defined }}", BASE_ERR_UNSUPPORTED, "the member 'format' of a str"},
    {"{{ numbers.copy }}", BASE_ERR_UNSUPPORTED, "the member 'copy' of a list"},
    {"{{ 5 .real }}", BASE_ERR_UNSUPPORTED, "the member 'real' of a int"},
    {"{{ (0.5).hex() }}", BASE_ERR_UNSUPPORTED, "the member 'hex' of a float"},
    {"{{ {}.fromkeys }}", BASE_ERR_UNSUPPORTED, "the member 'fromkeys' of a dict"},
    {"{% for x in numbers %}{{ loop.changed(x) }}{% endfor %}", BASE_ERR_UNSUPPORTED,
     "the member 'changed' of a LoopContext"},
    {"{% macro m() %}{% endmacro %}{{ m.name }}", BASE_ERR_UNSUPPORTED,
     "the member 'name' of a Macro"},
    {"{% macro m() %}{{ varargs }}{% endmacro %}", BASE_ERR_UNSUPPORTED, "varargs of a macro"},
    {"{% call(x) m() %}{{ kwargs }}{% endcall %}", BASE_ERR_UNSUPPORTED, "kwargs of a macro"},
    {"{{ joiner is defined }}", BASE_ERR_UNSUPPORTED, "Jinja's 'joiner' is not known here"},
    {"{{ '\ufb01' | upper }}", BASE_ERR_UNSUPPORTED, "the large form of U+FB01"},
    {"{{ '\u00b2'.isdigit() }}", BASE_ERR_UNSUPPORTED, "isdigit of U+00B2"},
    {"{{ ' 1_000' | int }}", BASE_ERR_UNSUPPORTED, "the number '1_000' is not known here"},
    {"{{ '-Infinity' | float }}", BASE_ERR_UNSUPPORTED, "the number '-Infinity'"},
    {"{{ '\u0661' | float }}", BASE_ERR_UNSUPPORTED, "the number '\xd9\xa1'"},
    {"{{ word is sameas 'Hello' }}", BASE_ERR_UNSUPPORTED, "one object"},
    {"{{ (word | safe) + '<' }}", BASE_ERR_UNSUPPORTED, "the + of a str and one that is safe"},
    {"{{ '<' + (word | upper | e) }}", BASE_ERR_UNSUPPORTED, "the + of a str and one that is safe"},
    {"{{ (word | safe).replace('l', '<') }}", BASE_ERR_UNSUPPORTED, "the method 'replace'"},
    {"{{ [word | e] }}", BASE_ERR_UNSUPPORTED, "within a list"},
    {"{% include 'x' %}", BASE_ERR_UNSUPPORTED,
     "line 1: the statement 'include' is not known here"},
    {"{% filter upper %}{% endfilter %}", BASE_ERR_UNSUPPORTED, "the statement 'filter'"},
    {"{% for x in numbers recursive %}{% endfor %}", BASE_ERR_UNSUPPORTED, "recursive loops"},
    {"{{ '%s' % word }}", BASE_ERR_UNSUPPORTED, "the % of a str"},
    {"{{ numbers | map('rot13') | list }}", BASE_ERR_UNSUPPORTED, "the filter 'rot13'"},
    {"{{ f(**numbers) }}", BASE_ERR_UNSUPPORTED, "arguments with **"},
    {"{{ strftime_now('%Y') }}", BASE_ERR_UNSUPPORTED,
     "line 1: the template asks for today's date (strftime_now): say it with --chat-date"},
    {"{{ numbers.append(4) }}", BASE_ERR_INVALID, "sandbox"},
    {"{{ no.member }}", BASE_ERR_INVALID, "line 1: 'no' is undefined"},
    {"{{ word.no.member }}", BASE_ERR_INVALID, "a str has no member 'no'"},
    {"{{ numbers.no.member }}", BASE_ERR_INVALID, "a list has no member 'no'"},
    {"{% if word %}\nx", BASE_ERR_INVALID, "there is no {% endif %}"},
    {"{{ word", BASE_ERR_INVALID, "a tag has no end"},
    {"{{ 'word }}", BASE_ERR_INVALID, "a string has no end"},
    {"{% break %}", BASE_ERR_INVALID, "break stands in no loop"},
    {"\n{{ raise_exception('Said\nso') }}", BASE_ERR_INVALID, "Said\nso"},
    {"{{ 9223372036854775807 + 1 }}", BASE_ERR_LIMIT, "an integer is too great"},
    {"{{ 9223372036854775808 }}", BASE_ERR_LIMIT, "an integer is too great"},
    {"{{ 10 ** 1000000000 }}", BASE_ERR_LIMIT, "an integer is too great"},
    {"{{ range(1000000000) | list }}", BASE_ERR_LIMIT, "a range has more than 100000 numbers"},
    {"{{ 'x' * 1000000000 }}", BASE_ERR_LIMIT, "a str is repeated too often"},
    {"{{ [0] * 1000000000 }}", BASE_ERR_LIMIT, "a list is repeated too often"},
    {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
     BASE_ERR_LIMIT, "steps"},
    {"{% for a in range(99999) %}{{ 'xxxxxxxxxxxxxxxxxxxx' * 1000 }}{% endfor %}", BASE_ERR_LIMIT,
     "bytes"},
    {"{{ [0.5] * 9999999 }}", BASE_ERR_LIMIT, "steps"},
    {"{{ [0.1, 1] * 400000 }}", BASE_ERR_LIMIT, "steps"},
    {"{% set ns = namespace(t='x') %}{% for a in range(99) %}{% set ns.t = ns.t + ns.t %}{% endfor "
     "%}",
     BASE_ERR_LIMIT, "bytes"},
    {"{% set ns = namespace(t=[]) %}{% for a in range(9999) %}{% set ns.t = [ns.t] %}{% endfor %}"
     "{{ ns.t }}",
     BASE_ERR_LIMIT, "levels deep"},
    {"{% set ns = namespace(t=[]) %}{% for a in range(9999) %}{% set ns.t = [ns.t] %}{% endfor %}"
     "{{ ns.t == [ns.t] }}{{ ns.t | tojson }}",
     BASE_ERR_LIMIT, "levels deep"},
    {"{% set ns = namespace(t=[1]) %}{% for a in range(99) %}{% set ns.t = [ns.t, ns.t] %}{% "
     "endfor %}"
     "{{ ns.t | tojson }}",
     BASE_ERR_LIMIT, ""},
    {"{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns.me == ns.me }}{{ ns.me }}",
     BASE_ERR_UNSUPPORTED, "a Namespace is not written"},
    {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", BASE_ERR_LIMIT, "levels deep"},
    {"{% macro m(a) %}{{ m(a ~ a) }}{% endmacro %}{{ m('xx') }}", BASE_ERR_LIMIT, ""},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof REFUSALS / sizeof *REFUSALS; i++) {
        base_error error = {.message = ""};
        const base_status status = run(REFUSALS[i].source, &error);
        if (status != REFUSALS[i].status || strstr(error.message, REFUSALS[i].message) == NULL) {
            print_error("%s: %s: %s\n", REFUSALS[i].source, base_status_name(status),
                        error.message);
            fail();
        }
    }
}

/* begin, middle, end; the middle so many times. */
static char *repeated(const char *begin, const char *middle, size_t count, const char *end)
{
    const size_t bytes = strlen(begin) + strlen(middle) * count + strlen(end) + 1;
    char *text = malloc(bytes);
    assert_non_null(text);
    char *at = text + strlen(begin);
    memcpy(text, begin, strlen(begin));
    for (size_t i = 0; i < count; i++) {
        memcpy(at, middle, strlen(middle));
        at += strlen(middle);
    }
    memcpy(at, end, strlen(end) + 1);
    return text;
}

/* As many as fit run; more are refused, also far more. */
static void check_depth(const char *begin, const char *middle, const char *end)
{
    base_error error;
    static const size_t many[] = {500, 20000};
    char *source = repeated(begin, middle, 20, end);
    assert_ok(run(source, &error), &error);
    free(source);
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        source = repeated(begin, middle, many[i], end);
        const base_status status = run(source, &error);
        if (status != BASE_ERR_LIMIT) {
            print_error("%zu times %s: %s\n", many[i], middle, error.message);
        }
        assert_int_equal(status, BASE_ERR_LIMIT);
        free(source);
    }
}

static void test_depth(void **state)
{
    (void)state;
    check_depth("{{ 1", " + 1", " }}");
    check_depth("{{ word", " | trim", " }}");
    check_depth("{{ word", ".strip()", " }}");
    check_depth("{{ 1", " and 1", " }}");
    check_depth("{{ ", "not ", "1 }}");
    check_depth("{{ ", "- ", "1 }}");
    check_depth("{{ ", "1 if 0 else ", "1 }}");
}

/* What stays open is refused for its end or for its depth. */
static void test_open(void **state)
{
    static const char *const open[] = {"{{ (",   "(",
                                       "{{ [",   "[",
                                       "{{ {1:", "{1:",
                                       "",       "{% if 1 %}",
                                       "",       "{% for a in [1] %}",
                                       "",       "{% macro a() %}",
                                       "{{ -",   "-"};
    base_error error;
    (void)state;
    for (size_t i = 0; i < sizeof open / sizeof *open; i += 2) {
        char *source = repeated(open[i], open[i + 1], 5000, "");
        const base_status status = run(source, &error);
        assert_true(status == BASE_ERR_LIMIT || status == BASE_ERR_INVALID);
        free(source);
    }
}

static void test_source(void **state)
{
    base_error error;
    (void)state;
    char *source = repeated("", "x", RANK_JINJA_SOURCE_BYTES_MAX, "");
    assert_ok(run(source, &error), &error);
    free(source);
    source = repeated("", "x", RANK_JINJA_SOURCE_BYTES_MAX + 1, "");
    assert_int_equal(run(source, &error), BASE_ERR_LIMIT);
    free(source);
    assert_int_equal(run("\xff", &error), BASE_ERR_INVALID);
}

/* With a date, what Python leaves to the C library: it may be anything there, or the conversion as it stands. */
static void test_unknown_conversions(void **state)
{
    static const char *const unknown[] = {"%Q",  "%s", "%E",  "%Oy", "%-f",
                                          "%-z", "%-", "%_d", "%é",  "%5Y"};
    static const char *const said[] = {"%Q",  "%s", "%E", "%O", "%-f",
                                       "%-z", "%-", "%_", "%é", "%5"};
    const struct tm now = {.tm_year = 126, .tm_mday = 1};
    base_error error;
    (void)state;
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        char source[64];
        char message[64];
        (void)snprintf(source, sizeof source, "{{ strftime_now('%%d %s') }}", unknown[i]);
        (void)snprintf(message, sizeof message, "line 1: strftime_now does not know '%s' here",
                       said[i]);
        assert_int_equal(run_at(source, &now, &error), BASE_ERR_UNSUPPORTED);
        assert_string_equal(error.message, message);
    }
}

static void test_reads(void **state)
{
    base_error error;
    rank_jinja *template = NULL;
    (void)state;
    assert_ok(rank_jinja_parse("{% set a = b.c %}{% if d is defined %}e{{ x['f'] }}{% endif %}",
                               &template, &error),
              &error);
    assert_true(rank_jinja_reads(template, "b"));
    assert_true(rank_jinja_reads(template, "d"));
    assert_true(rank_jinja_reads(template, "x"));
    assert_false(rank_jinja_reads(template, "a"));
    assert_false(rank_jinja_reads(template, "c"));
    assert_false(rank_jinja_reads(template, "e"));
    assert_false(rank_jinja_reads(template, "f"));
    rank_jinja_destroy(template);
    rank_jinja_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_depth),
                                       cmocka_unit_test(test_open),
                                       cmocka_unit_test(test_source),
                                       cmocka_unit_test(test_unknown_conversions),
                                       cmocka_unit_test(test_reads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
