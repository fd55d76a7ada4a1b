/* Lengths of texts and bounds of numbers: what a schema allows, and nothing else. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar_texts.h"
#include "support.h"

static grammar_texts texts;

/* Also of a number that is written otherwise: as bounds, not as an answer. */
static const char *const lows[] = {"-12.5", "-10", "-1", "-0.35", "0",  "0.0",
                                   "0.05",  "1",   "4",  "9.5",   "10", "1e1"};
static const char *const highs[] = {"-10.5", "-10", "-0.05", "0",  "0.3",
                                    "1",     "5",   "9.95",  "12", "1.2e2"};
enum { LOWS = sizeof lows / sizeof lows[0], HIGHS = sizeof highs / sizeof highs[0] };

/* 0: no bound; 1: a bound that is in; 2: one that is out. */
static bool is_within(double value, int low_kind, double low, int high_kind, double high)
{
    return (low_kind == 0 || value > low || (low_kind == 1 && value == low)) &&
           (high_kind == 0 || value < high || (high_kind == 1 && value == high));
}

/* All numbers of so few digits, with a sign and without. */
static void check_numbers(const char *schema, const int kinds[2], const double bounds[2],
                          bool whole)
{
    static const char *const behind[] = {"",    ".0",  ".3",  ".5",  ".9",
                                         ".00", ".05", ".04", ".35", ".95"};
    char text[32];
    for (int k = 0; k < (whole ? 1 : 10); k++) {
        for (int i = 0; i <= 260; i++) {
            const int number = i % 130;
            (void)snprintf(text, sizeof text, "%s%d%s", i < 130 ? "" : "-", number, behind[k]);
            const double value = strtod(text, NULL);
            const bool within = is_within(value, kinds[0], bounds[0], kinds[1], bounds[1]);
            /* a minus stands in front of 0 where there are negative numbers */
            if (grammar_texts_is_whole(texts.steps, text) != within && !(i >= 130 && value == 0)) {
                fail_msg("%s and %s: %d", schema, text, within);
            }
        }
    }
}

static void numbers_are_between_their_bounds(void **state)
{
    static const char *const low_keys[] = {"minimum", "exclusiveMinimum"};
    static const char *const high_keys[] = {"maximum", "exclusiveMaximum"};
    char schema[160];
    (void)state;
    for (int i = 0; i < 2 * 9 * LOWS * HIGHS; i++) {
        const bool whole = i % 2 == 1;
        const int kinds[] = {i / 2 % 3, i / 6 % 3};
        const char *low = lows[i / 18 % LOWS];
        const char *high = highs[i / 18 / LOWS];
        const double bounds[] = {strtod(low, NULL), strtod(high, NULL)};
        size_t used = (size_t)snprintf(schema, sizeof schema, "{\"type\":\"%s\"",
                                       whole ? "integer" : "number");
        if (kinds[0] > 0) {
            used += (size_t)snprintf(schema + used, sizeof schema - used, ",\"%s\":%s",
                                     low_keys[kinds[0] - 1], low);
        }
        if (kinds[1] > 0) {
            used += (size_t)snprintf(schema + used, sizeof schema - used, ",\"%s\":%s",
                                     high_keys[kinds[1] - 1], high);
        }
        (void)snprintf(schema + used, sizeof schema - used, "}");
        if (grammar_texts_read(&texts, schema) == BASE_OK) {
            check_numbers(schema, kinds, bounds, whole);
        } else {
            assert_non_null(strstr(texts.error.message, "no number of at most 15 digits"));
            memset(texts.steps, 0, sizeof texts.steps);
            texts.steps[0] =
                (proto_grammar_step){.kind = PROTO_GRAMMAR_RANGE, .low = 'x', .high = 'x'};
            check_numbers(schema, kinds, bounds, whole);
        }
    }
}

static const grammar_case cases[] = {
    {"{\"type\":\"integer\",\"minimum\":0}",
     {"0", "7", "999999999999999"},
     {"-1", "-0", "1.0", "1e3", "00", "1000000000000000"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":0}",
     {"0.00000000000001", "1", "123456789012345", "12345678901234.5", "0.5"},
     {"0", "0.0", "1e3", "-1", "12345678901234.56", "0.000000000000001", "1."}},
    {"{\"minimum\":0,\"exclusiveMinimum\":0,\"maximum\":1,\"exclusiveMaximum\":2}",
     {"1", "1.0", "0.1"},
     {"0", "1.1", "2", "\"\""}},
    {"{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":1e300}",
     {"-999999999999999", "999999999999999"},
     {"1e3"}},
    {"{\"type\":\"number\",\"minimum\":0.30000000000000004}",
     {"0.30000000000001", "1", "0.4"},
     {"0.3", "0.30000000000000", "0"}},
    {"{\"type\":\"number\",\"minimum\":-1e-300,\"maximum\":1e-300}",
     {"0", "0.0", "-0", "-0.00"},
     {"0.00000000000001", "1"}},
    {"{\"anyOf\":[{\"type\":\"integer\",\"exclusiveMaximum\":18},{\"type\":\"null\"}]}",
     {"17", "-100", "null"},
     {"18", "20", "-"}},
    {"{\"type\":[\"integer\",\"string\"],\"minimum\":3,\"minLength\":3}",
     {"3", "\"abc\""},
     {"2", "\"ab\""}},
    {"{\"type\":\"string\",\"minLength\":1}",
     {"\"a\"", "\"abcdefgh\"", "\"\\n\"", "\"\xc3\xa9\""},
     {"\"\"", "\""}},
    {"{\"maxLength\":3}",
     {"\"\"", "\"abc\"", "\"\\u00e9\\\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\xc3\xa9\\\\\""},
     {"\"abcd\"", "\"abc\\n\"", "\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\"", "0"}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":2}",
     {"\"ab\"", "\"\xe2\x82\xac\\t\""},
     {"\"a\"", "\"abc\"", "\"\xe2\x82\xac\""}},
    {"{\"type\":\"string\",\"maxLength\":0}", {"\"\""}, {"\"a\""}},
    {"{\"type\":\"array\",\"maxItems\":2,\"items\":{\"type\":\"string\",\"maxLength\":1}}",
     {"[]", "[\"a\", \"\"]"},
     {"[\"ab\"]"}},
};

static void schemas_mean_what_they_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        grammar_texts_check(&texts, &cases[i]);
    }
}

/* Texts of a length share their steps: many fields have room. */
static void many_fields_have_room(void **state)
{
    static char schema[64 * 1024];
    size_t used = (size_t)snprintf(schema, sizeof schema, "{\"properties\":{\"a\":{}");
    (void)state;
    for (int i = 0; i < 40; i++) {
        used += (size_t)snprintf(schema + used, sizeof schema - used,
                                 ",\"t%d\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":%d},"
                                 "\"n%d\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
                                 i, 255 + i, i);
    }
    (void)snprintf(schema + used, sizeof schema - used, "}}");
    assert_ok(grammar_texts_read(&texts, schema), &texts.error);
    assert_true(grammar_texts_is_whole(texts.steps, "{\"t39\":\"a\", \"n39\": 0.5}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_between_their_bounds),
        cmocka_unit_test(schemas_mean_what_they_say),
        cmocka_unit_test(many_fields_have_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
