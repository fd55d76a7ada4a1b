/* Where each byte comes from: 0 is the template, 1 the first message, 2 the second. */
#include <jansson.h>
#include <string.h>

#include "jinja.h"
#include "support.h"

typedef struct origin_case {
    const char *source;
    const char *text;
    const char *origins; /* a digit each */
} origin_case;

/* Messages: "Ab c", and " x<y>\nz ", which has an object with a role. The variable `other` is "O". */
static const origin_case CASES[] = {
    {"<{{ messages[0].content }}>", "<Ab c>", "011110"},
    {"{{ messages[0].role }}:{{ messages[0]['content'] }}", "r:Ab c", "001111"},
    {"{{ messages[1].role }}{{ messages[1].in.role }}", "st", "02"},
    {"{{ '<x>' + messages[0].content + other }}", "<x>Ab cO", "00011110"},
    {"{{ other }}{{ messages[0].content ~ messages[1].content }}", "OAb c x<y>\nz ",
     "0111122222222"},
    {"{{ messages[1].content | trim }}", "x<y>\nz", "222222"},
    {"{{ messages[1].content.strip().split('\n')[-1] }}|", "z|", "20"},
    {"{{ messages[0].content.split(' ') | join('-') }}", "Ab-c", "1101"},
    {"{{ messages[0].content.split() | join(messages[1].content[1]) }}", "Abxc", "1121"},
    {"{{ messages[0].content | upper }}{{ 'q' | upper }}", "AB CQ", "11110"},
    {"{{ messages[0].content | replace('b', '++') }}", "A++ c", "10011"},
    {"{{ 'a-b' | replace('-', messages[1].content[1]) }}", "axb", "020"},
    {"{{ messages[0].content[::-1] }}{{ messages[0].content[1:3] }}", "c bAb ", "111111"},
    {"{% for c in messages[0].content %}{{ c }}.{% endfor %}", "A.b. .c.", "10101010"},
    {"{{ messages[1].content | tojson }}", "\" x<y>\\nz \"", "02222222220"},
    {"{{ [messages[0].content] }}", "['Ab c']", "00111100"},
    {"{{ messages[1].content.strip() | e }}", "x&lt;y&gt;\nz", "222222222222"},
    {"{% set x %}-{{ messages[0].content }}-{% endset %}{{ x }}", "-Ab c-", "011110"},
    {"{% macro m(t) %}[{{ t }}]{% endmacro %}{{ m(messages[0].content) }}{{ m('t') }}", "[Ab c][t]",
     "011110000"},
    {"{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t ~ m.content[1] ~ ';' "
     "%}{% endfor %}{{ ns.t }}",
     "b;x;", "1020"},
    {"{{ messages[1].content.strip() | indent(1) }}", "x<y>\n z", "2222002"},
    {"{{ messages[0].content * 2 }}", "Ab cAb c", "11111111"},
    {"{{ messages | map(attribute='content') | map('trim') | join }}", "Ab cx<y>\nz", "1111222222"},
    {"{% for k, v in messages[0].items() %}{{ k }}={{ v }},{% endfor %}", "role=r,content=Ab c,",
     "11110001111111011110"},
    {"{{ messages[0].content.title() }}{{ messages[0].content.capitalize() }}", "Ab CAb c",
     "11111111"},
    {"{{ 'Ab c' if messages[0].content == 'Ab c' }}", "Ab c", "0000"},
    {"{{ messages[0].content | length }}", "4", "0"},
    /* strings of several origins */
    {"{{ ('<' ~ messages[0].content ~ '>')[2:] }}", "b c>", "1110"},
    {"{{ ('<' ~ messages[0].content ~ '>').split('b')[1] }}", " c>", "110"},
    {"{{ ('- ' ~ messages[0].content) | trim('- ') | upper }}", "AB C", "1111"},
    {"{{ (other ~ messages[0].content) | replace('b', 'b') }}", "OAb c", "01011"},
    {"{{ (other ~ messages[0].content) | tojson }}", "\"OAb c\"", "0011110"},
    {"{{ (other ~ messages[0].content)[::-1] }}", "c bAO", "11110"},
    {"{{ (other ~ messages[0].content ~ messages[1].content).splitlines()[1] }}", "z ", "22"},
    {"{{ (messages[0].content ~ other ~ messages[1].content).rsplit('<')[0].removeprefix('A') }}",
     "b cO x", "111022"},
    /* a format's letters are its own, and the date those of its conversions */
    {"{{ strftime_now('%d ' ~ messages[0].content) }}", "01 Ab c", "0001111"},
    {"", "", ""},
};

static void test_origins(void **state)
{
    base_error error;
    json_error_t json_error;
    json_t *variables =
        json_loads("{\"messages\": [{\"role\": \"r\", \"content\": \"Ab c\"},"
                   "{\"role\": \"s\", \"content\": \" x<y>\\nz \", \"in\": {\"role\": \"t\"}}],"
                   "\"other\": \"O\"}",
                   0, &json_error);
    (void)state;
    assert_non_null(variables);
    const struct tm now = {.tm_year = 126, .tm_mday = 1};
    const rank_jinja_given given = {.variables = variables, .traced = "messages", .now = &now};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        rank_jinja *template = NULL;
        rank_jinja_text text;
        assert_ok(rank_jinja_parse(CASES[i].source, &template, &error), &error);
        assert_ok(rank_jinja_render(template, &given, &text, &error), &error);
        assert_string_equal(text.at, CASES[i].text);
        assert_int_equal(text.bytes, strlen(CASES[i].origins));
        for (size_t at = 0; at < text.bytes; at++) {
            if (text.origins[at] != (uint32_t)(CASES[i].origins[at] - '0')) {
                print_error("%s: byte %zu has origin %u\n", CASES[i].source, at, text.origins[at]);
                fail();
            }
        }
        rank_jinja_text_fini(&text);
        rank_jinja_destroy(template);
    }
    json_decref(variables);
}

/* Without a list to trace, or where the variable is none, all is the template's. */
static void test_untraced(void **state)
{
    static const char *const traced[] = {NULL, "other", "none"};
    base_error error;
    rank_jinja *template = NULL;
    json_t *variables = json_pack("{s:[{s:s}], s:s}", "messages", "c", "text", "other", "O");
    (void)state;
    assert_non_null(variables);
    assert_ok(rank_jinja_parse("{{ messages[0].c }}{{ other }}", &template, &error), &error);
    for (size_t i = 0; i < sizeof traced / sizeof *traced; i++) {
        rank_jinja_text text;
        const rank_jinja_given given = {.variables = variables, .traced = traced[i]};
        assert_ok(rank_jinja_render(template, &given, &text, &error), &error);
        assert_string_equal(text.at, "textO");
        for (size_t at = 0; at < text.bytes; at++) {
            assert_int_equal(text.origins[at], 0);
        }
        rank_jinja_text_fini(&text);
    }
    rank_jinja_destroy(template);
    json_decref(variables);
}

/* All strings of the variable that is quoted, keys among them, and no word of the template round them. */
static void test_quoted(void **state)
{
    base_error error;
    rank_jinja *template = NULL;
    rank_jinja_text text;
    json_t *variables = json_pack("{s:[{s:s}, {s:s}]}", "tools", "a", "b", "role", "c");
    const rank_jinja_given given = {
        .variables = variables, .traced = "messages", .quoted = "tools"};
    (void)state;
    assert_non_null(variables);
    assert_ok(rank_jinja_parse("{{ tools[0] | tojson }}{{ tools[1].role }}", &template, &error),
              &error);
    assert_ok(rank_jinja_render(template, &given, &text, &error), &error);
    assert_string_equal(text.at, "{\"a\": \"b\"}c");
    for (size_t at = 0; at < text.bytes; at++) {
        const bool letter = text.at[at] >= 'a' && text.at[at] <= 'c';
        assert_int_equal(text.origins[at], letter ? RANK_JINJA_QUOTED : 0);
    }
    rank_jinja_text_fini(&text);
    rank_jinja_destroy(template);
    json_decref(variables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_origins),
                                       cmocka_unit_test(test_untraced),
                                       cmocka_unit_test(test_quoted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
