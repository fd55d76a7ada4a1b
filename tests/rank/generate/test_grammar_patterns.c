/* Patterns of texts: what they match, alone and with lengths, and what of ECMA-262 is refused. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "grammar_texts.h"
#include "support.h"

#define P(pattern) "{\"pattern\":\"" pattern "\"}"

static grammar_texts texts;

static const grammar_case cases[] = {
    {P("^[a-z]+$"), {"\"a\"", "\"abcz\""}, {"\"\"", "\"A\"", "\"a1\"", "\"a\\n\"", "\"\\u0061\""}},
    {P("b"), {"\"b\"", "\"abc\"", "\"bb\"", "\"\\u0061b\\n\""}, {"\"\"", "\"a\"", "\"\\\\u0062\""}},
    {P(""), {"\"\"", "\"a\""}, {"1"}},
    {P("^a|b$"), {"\"a\"", "\"ac\"", "\"cb\"", "\"acb\""}, {"\"ca\"", "\"bc\"", "\"\""}},
    {P("^(?:a|(b))$"), {"\"a\"", "\"b\""}, {"\"ab\"", "\"\""}},
    {P("(^a$)|(^b)"), {"\"a\"", "\"bc\""}, {"\"ab\"", "\"cb\""}},
    {P("^\\\\d{3}-\\\\d{2,4}$"),
     {"\"123-45\"", "\"123-4567\""},
     {"\"123-4\"", "\"12-345\"", "\"123-45678\""}},
    {P("^\\\\w+@\\\\w+\\\\.[a-z]{2,}$"),
     {"\"a_1@b.de\""},
     {"\"a@b.c\"", "\"@b.de\"", "\"a@bxde\""}},
    {P("^\\\\s\\\\S$"),
     {"\" a\"", "\"\\na\"", "\"\\u2028a\"", "\"\xc2\xa0\xf0\x9f\x98\x80\"", "\"\\u000b\\\"\""},
     {"\"  \"",
      "\"\xe2\x80\xa8"
      "a\"",
      "\"a \""}},
    {P("^[^a\\\\d]$"),
     {"\"b\"", "\"\\\"\"", "\"\\u0001\"", "\"\xc3\xa9\"", "\"\\u2029\""},
     {"\"a\"", "\"0\"", "\"\\u0009\"", "\"\\/\"", "\"\\u0000\""}},
    {P("^.$"),
     {"\"a\"", "\"\xe2\x82\xac\"", "\"\\t\"", "\"\\\\\""},
     {"\"\\n\"", "\"\\r\"", "\"\"", "\"\\u2028\""}},
    {P("^(a*)*(b?c?)+(d|e*)*$"), {"\"\"", "\"aabccbdede\"", "\"e\""}, {"\"ba\"", "\"f\""}},
    {P("^(a?){3}(b?){2,}$"), {"\"\"", "\"aaa\"", "\"abbbb\""}, {"\"aaaa\"", "\"ba\""}},
    {P("^(ab){1,2}?c*?$"), {"\"ab\"", "\"ababcc\""}, {"\"ababab\"", "\"c\""}},
    {P("^(){9}a{0}[b-b]$"), {"\"b\""}, {"\"ab\""}},
    {P("^[\\\\-\\\\]\\\\\\\\^]\\\\/$"),
     {"\"-/\"", "\"]/\"", "\"\\\\/\"", "\"^/\""},
     {"\"a/\"", "\"-\\/\""}},
    {P("^[a-]$"), {"\"a\"", "\"-\""}, {"\"b\""}},
    {P("^\\\\u00e9\\\\x41\\\\u{1F600}\\\\ud83d\\\\ude01$"),
     {"\"\xc3\xa9"
      "A\xf0\x9f\x98\x80\xf0\x9f\x98\x81\""},
     {"\"eA\""}},
    {P("^[\xc3\xa0-\xc3\xbf\\\\u4e00-\\\\u9fff\\\\u{10000}-\\\\u{10ffff}]$"),
     {"\"\xc3\xa9\"", "\"\xe4\xb8\xad\"", "\"\xf4\x8f\xbf\xbf\"", "\"\xf0\x90\x80\x80\"",
      "\"\xe9\xbf\xbf\""},
     {"\"\xc3\x9f\"", "\"a\"", "\"\xea\x80\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe3\x80\x80\""}},
    {P("^(?<year>\\\\d{4})$"), {"\"2024\""}, {"\"202\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[a-z]+$\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"abc\""},
     {"\"a\"", "\"abcd\"", "\"a1\""}},
    {"{\"type\":\"string\",\"pattern\":\"^(abc)*$\",\"minLength\":4,\"maxLength\":8}",
     {"\"abcabc\""},
     {"\"abc\"", "\"abca\"", "\"abcabcabc\""}},
    {"{\"type\":\"string\",\"pattern\":\"x\",\"minLength\":3}",
     {"\"abx\"", "\"xxxx\"", "\"x\\n\\u00e9\""},
     {"\"ax\"", "\"abc\""}},
    {"{\"type\":\"string\",\"pattern\":\"a|b{3}\",\"maxLength\":2}",
     {"\"a\"", "\"ba\""},
     {"\"bbb\"", "\"b\"", "\"abb\""}},
    {"{\"type\":\"string\",\"pattern\":\"^$\",\"maxLength\":2}", {"\"\""}, {"\"a\""}},
    {"{\"type\":\"array\",\"items\":{\"pattern\":\"^[A-Z]{2}$\"},\"minItems\":1}",
     {"[\"AB\"]", "[\"AB\", \"CD\"]"},
     {"[]", "[\"A\"]"}},
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-02-29\"", "\"2000-02-29\"", "\"1999-12-31\"", "\"2023-04-30\""},
     {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-04-31\"", "\"2023-13-01\"", "\"2023-00-10\"",
      "\"2023-1-1\"", "\"0999-01-01\""}},
    {"{\"format\":\"time\"}",
     {"\"23:59:59Z\"", "\"00:00:00.123456+23:59\""},
     {"\"24:00:00Z\"", "\"12:60:00Z\"", "\"12:00:00\"", "\"12:00Z\"", "\"12:00:00.Z\""}},
    {"{\"format\":\"date-time\",\"maxLength\":20}",
     {"\"2024-02-29T12:00:00Z\""},
     {"\"2024-02-29T12:00:00.5Z\"", "\"2024-02-30T12:00:00Z\"", "\"2024-02-29 12:00:00Z\""}},
    {"{\"format\":\"uuid\"}",
     {"\"123e4567-e89b-12d3-A456-426614174000\""},
     {"\"123e4567-e89b-12d3-a456-42661417400\"", "\"123e4567e89b12d3a456426614174000\"",
      "\"g23e4567-e89b-12d3-a456-426614174000\""}},
};

static void patterns_mean_what_they_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        grammar_texts_check(&texts, &cases[i]);
    }
}

static void none_of_many_ways_is_lost(void **state)
{
    (void)state;
    enum { WAYS = 200 };
    char schema[32 + 8 * WAYS] = "{\"pattern\":\"^(0:";
    for (int i = 1; i < WAYS; i++) {
        base_text_append(schema, sizeof schema, "|%d:", i);
    }
    base_text_append(schema, sizeof schema, ")$\"}");
    assert_int_equal(grammar_texts_read(&texts, schema), BASE_OK);
    for (int i = 0; i <= WAYS; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "\"%d:\"", i);
        assert_int_equal(grammar_texts_is_whole(texts.steps, text), i < WAYS);
    }
}

static void what_is_not_supported_is_named(void **state)
{
    static const struct {
        const char *schema;
        const char *says;
    } wrong[] = {
        {P("a(?=b)"), "look-arounds are not"},
        {P("(?<!a)b"), "look-arounds are not"},
        {P("(a)\\\\1"), "back-references are not"},
        {P("(?<a>b)\\\\k<a>"), "back-references are not"},
        {P("\\\\ba"), "word boundaries"},
        {P("\\\\p{L}"), "classes of Unicode"},
        {P("(?i)a"), "a group with flags"},
        {P("(?P<a>b)"), "a group with flags"},
        {P("\\\\Aa"), "there is no such escape"},
        {P("a\\\\"), "there is no such escape"},
        {P("[a"), "a [ without its ]"},
        {P("[a\\\\"), "there is no such escape"},
        {P("(a"), "a ( without its )"},
        {P("a)"), "a ) without its ("},
        {P("(?"), "a group with flags"},
        {P("(?<a"), "a group with flags"},
        {P("[b-a]"), "a range whose end"},
        {P("[a-\\\\d]"), "no end of a range"},
        {P("[\\\\d-a]"), "no end of a range"},
        {P("*a"), "a quantifier or a bracket"},
        {P("a**"), "a quantifier or a bracket"},
        {P("a{2,1}"), "a { that begins no quantifier"},
        {P("a{,1}"), "a { that begins no quantifier"},
        {P("a{1"), "a { that begins no quantifier"},
        {P("\\\\u12"), "without its digits"},
        {P("\\\\u{110000}"), "without its digits"},
        {P("\\\\xg0"), "without its digits"},
        {P("[^\\\\s\\\\S]"), "a class that has no character"},
        {P("[]"), "a class that has no character"},
        {P("\\\\ud800"), "a class that has no character"},
        {P("(a|^)b"), "^ is supported only where"},
        {P("a$b"), "^ is supported only where"},
        {P("^*a"), "cannot be repeated"},
        {P("(a$)+"), "cannot be repeated"},
        {P("a{1,100000}"), "more than 4096 steps"},
        {P("(((a{99}){99}){99}){99}"), "more than 4096 steps"},
        {"{\"pattern\":\"^a{3}$\",\"maxLength\":2}", "\"pattern\": no text of such a length"},
        {"{\"pattern\":\"^(abc)*$\",\"minLength\":4,\"maxLength\":5}", "no text of such a length"},
        {"{\"pattern\":\"^[ab]+$\",\"maxLength\":100000}", "more than 4096 steps"},
        {"{\"pattern\":\"^[ab]+$\",\"maxLength\":9223372036854775807}", "more than 4096 steps"},
        {"{\"pattern\":\"^$\",\"minLength\":1}", "no text of such a length"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (grammar_texts_read(&texts, wrong[i].schema) == BASE_OK ||
            strstr(texts.error.message, wrong[i].says) == NULL) {
            fail_msg("%s: %s", wrong[i].schema, texts.error.message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_mean_what_they_say),
        cmocka_unit_test(none_of_many_ways_is_lost),
        cmocka_unit_test(what_is_not_supported_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
