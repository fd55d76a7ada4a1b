/* Templates as jinja2 runs them (make_jinja_fixtures.py): small ones, a feature each, and whole chat templates. And
 * where each byte comes from. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "jinja.h"
#include "proto/chat_date.h"
#include "support.h"

enum {
    CASES_MIN = 500,
    FIRST_LETTER = 0xa000, /* message i of jinja_chats.py has the letters from there + 64 i on */
    LETTERS = 64,
    MESSAGES_MAX = 8,
    LETTER_BYTES = 3,
};

static size_t flaws;
static size_t letters_seen; /* of messages, in all texts */

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

/* The message that has a letter of three bytes; 0: it is no message's. */
static uint32_t origin_of(const char *letter)
{
    const unsigned char *at = (const unsigned char *)letter;
    if ((at[0] & 0xf0U) != 0xe0U) {
        return 0;
    }
    const unsigned point =
        ((at[0] & 0xfU) << 12U) | ((at[1] & 0x3fU) << 6U) | (unsigned)(at[2] & 0x3fU);
    return point >= FIRST_LETTER && point < FIRST_LETTER + LETTERS * MESSAGES_MAX
               ? (point - FIRST_LETTER) / LETTERS + 1
               : 0;
}

/* Each letter of a message is said to come from there, and what comes from a message is in it. */
static size_t check_origins(const char *source, const json_t *variables,
                            const rank_jinja_text *text)
{
    size_t letters = 0;
    const json_t *messages = json_object_get(variables, "messages");
    for (size_t i = 0; i < text->bytes; i++) {
        const uint32_t origin = text->origins[i];
        const uint32_t letter = i + LETTER_BYTES <= text->bytes ? origin_of(text->at + i) : 0;
        if (letter > 0 && (origin != letter || text->origins[i + 1] != letter ||
                           text->origins[i + 2] != letter)) {
            note(source, "a letter of another message", text->at + i, text->at);
        }
        letters += letter > 0 ? 1 : 0;
        if (origin > json_array_size(messages)) {
            note(source, "no such message", "", text->at + i);
        }
        const char byte[] = {text->at[i], '\0'};
        char *message = origin > 0 ? json_dumps(json_array_get(messages, origin - 1), 0) : NULL;
        if (message != NULL && text->at[i] > ' ' && strcasestr(message, byte) == NULL) {
            note(source, "a byte that is not in its message", message, text->at + i);
        }
        free(message);
    }
    return letters;
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
    struct tm now;
    const char *date = string_of(made, "now");
    assert_true(date == NULL || proto_chat_date_read(date, &now));
    const rank_jinja_given given = {
        .variables = variables, .traced = "messages", .now = date != NULL ? &now : NULL};
    base_status status = rank_jinja_parse(source, &template, &error);
    if (status == BASE_OK) {
        status = rank_jinja_render(template, &given, &text, &error);
    }
    if (status == BASE_OK) {
        check_text(made, source, &text);
        letters_seen += check_origins(source, variables, &text);
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
    assert_true(letters_seen > CASES_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_jinja)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
