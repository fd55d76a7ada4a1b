/* Templates as jinja2 runs them (make_jinja_fixtures.py): small ones, a feature each, and whole chat templates. And
 * where each byte comes from. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "jinja.h"
#include "support.h"

enum { CASES_MIN = 150 };

static size_t flaws;

/* Reports what is wrong, with the template; the test goes on, and fails at its end. */
static void note(const char *template, const char *what, const char *wanted, const char *got)
{
    print_error("%s\n---- template\n%s\n---- wanted\n%s\n---- got\n%s\n----\n", what, template,
                wanted, got);
    flaws++;
}

static const char *string_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static void check_text(const json_t *made, const char *source, const rank_jinja_text *text)
{
    const char *wanted = string_of(made, "text");
    if (wanted == NULL) {
        note(source, "it should fail", "", text->at);
        return;
    }
    const size_t wanted_bytes = json_string_length(json_object_get(made, "text"));
    if (wanted_bytes != text->bytes || memcmp(wanted, text->at, text->bytes) != 0) {
        note(source, "another text", wanted, text->at);
    }
    assert_int_equal(text->at[text->bytes], '\0');
}

static void check_failure(const json_t *made, const char *source, const base_error *error)
{
    const char *raised = string_of(made, "raised");
    if (string_of(made, "text") != NULL) {
        note(source, "it fails", string_of(made, "text"), error->message);
    }
    if (raised != NULL &&
        (strcmp(raised, error->message) != 0 || error->status != BASE_ERR_INVALID)) {
        note(source, "another message", raised, error->message);
    }
}

static void check(const json_t *all, const json_t *made)
{
    base_error error = {.message = ""};
    rank_jinja *template = NULL;
    rank_jinja_text text = {.at = NULL};
    const json_int_t index = json_integer_value(json_object_get(made, "template"));
    const json_int_t set = json_integer_value(json_object_get(made, "variables"));
    const char *source =
        json_string_value(json_array_get(json_object_get(all, "templates"), (size_t)index));
    const json_t *variables = json_array_get(json_object_get(all, "variables"), (size_t)set);
    base_status status = rank_jinja_parse(source, &template, &error);
    if (status == BASE_OK) {
        status = rank_jinja_render(template, variables, "messages", &text, &error);
    }
    if (status == BASE_OK) {
        check_text(made, source, &text);
    } else {
        check_failure(made, source, &error);
    }
    rank_jinja_text_fini(&text);
    rank_jinja_destroy(template);
}

static void test_as_jinja(void **state)
{
    json_error_t error;
    json_t *all = json_load_file(ORACLE_DIRECTORY "/jinja.json", JSON_ALLOW_NUL, &error);
    (void)state;
    assert_non_null(all);
    const json_t *cases = json_object_get(all, "cases");
    size_t index = 0;
    const json_t *made = NULL;
    assert_true(json_array_size(cases) >= CASES_MIN);
    json_array_foreach(cases, index, made)
    {
        check(all, made);
    }
    json_decref(all);
    assert_int_equal(flaws, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_jinja)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
