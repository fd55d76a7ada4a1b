/* proto/prompts.h: lines of a file as prompts, and their limits. */
#include "proto/prompts.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "proto/limits.h"
#include "support.h"

static base_status read_text(const char *name, const char *text, size_t size_bytes,
                             proto_prompts *prompts, base_error *error)
{
    const char *path = test_shared_path(name);
    assert_ok(base_file_write(path, text, size_bytes, error), error);
    return proto_prompts_read(path, prompts, error);
}

static void lines_are_prompts(void **state)
{
    (void)state;
    static const char plain[] = "\xef\xbb\xbfhe goed\r\n\n  {\"prompt\"} é\nlast";
    static const char json[] =
        "{\"prompt\": \"he goed\"}\n\n{\"id\": 7, \"prompt\": \"two\\nlines\"}\n";
    base_error error;
    proto_prompts prompts;
    assert_ok(read_text("p.txt", plain, sizeof plain - 1, &prompts, &error), &error);
    assert_int_equal(prompts.count, 3);
    assert_string_equal(prompts.texts[0], "he goed");
    assert_string_equal(prompts.texts[1], "  {\"prompt\"} é");
    assert_string_equal(prompts.texts[2], "last");
    proto_prompts_fini(&prompts);
    assert_ok(read_text("p.jsonl", json, sizeof json - 1, &prompts, &error), &error);
    assert_int_equal(prompts.count, 2);
    assert_string_equal(prompts.texts[0], "he goed");
    assert_string_equal(prompts.texts[1], "two\nlines");
    proto_prompts_fini(&prompts);
}

static void errors_name_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *text;
        const char *expected;
    } cases[] = {
        {"p.jsonl", "{\"prompt\":\"a\"}\nb\n", "p.jsonl: line 2"},
        {"p.jsonl", "{\"text\":\"a\"}\n", "no \"prompt\""},
        {"p.jsonl", "{\"prompt\":7}\n", "no \"prompt\""},
        {"p.jsonl", "{\"prompt\":\"\"}\n", "no \"prompt\""},
        {"p.jsonl", "[\"prompt\"]\n", "no \"prompt\""},
        {"p.jsonl", "{\"prompt\":\"a\",\"prompt\":\"b\"}\n", "line 1"},
        {"p.jsonl", "{\"prompt\":\"a\",\"max_new_tokens\":3}\n", "line 1: \"max_new_tokens\" goes"},
        {"p.jsonl", "{\"prompt\":\"a\",\"logprobs\":0}\n", "line 1: \"logprobs\" goes"},
        {"p.jsonl", "{\"prompt\":\"a\",\"chat_template_kwargs\":{}}\n",
         "\"chat_template_kwargs\" goes"},
        {"p.txt", "a\n\xff\n", "line 2: not UTF-8"},
        {"p.txt", "\n\n", "no prompts in it"},
        {"p.txt", "", "no prompts in it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {.message = ""};
        proto_prompts prompts;
        if (read_text(cases[i].name, cases[i].text, strlen(cases[i].text), &prompts, &error) !=
                BASE_ERR_INVALID ||
            strstr(error.message, cases[i].expected) == NULL) {
            fail_msg("'%s': '%s'", cases[i].text, error.message);
        }
        assert_null(prompts.texts);
    }
    base_error error;
    proto_prompts prompts;
    assert_status(read_text("p.txt", "a\0b", 3, &prompts, &error), BASE_ERR_INVALID);
}

static void limits_are_enforced(void **state)
{
    (void)state;
    base_error error;
    proto_prompts prompts;
    const size_t size_bytes = 2 * (size_t)PROTO_PROMPTS_MAX + 2;
    static char longest[PROTO_PROMPT_BYTES_MAX + 1];
    char *text = malloc(size_bytes);
    assert_non_null(text);
    for (size_t i = 0; i < size_bytes; i++) {
        text[i] = i % 2 == 0 ? 'a' : '\n';
    }
    assert_ok(read_text("p", text, size_bytes - 2, &prompts, &error), &error);
    assert_int_equal(prompts.count, PROTO_PROMPTS_MAX);
    proto_prompts_fini(&prompts);
    assert_status(read_text("p", text, size_bytes, &prompts, &error), BASE_ERR_LIMIT);
    memset(longest, 'a', sizeof longest);
    assert_ok(read_text("p", longest, PROTO_PROMPT_BYTES_MAX, &prompts, &error), &error);
    proto_prompts_fini(&prompts);
    assert_status(read_text("p", longest, PROTO_PROMPT_BYTES_MAX + 1, &prompts, &error),
                  BASE_ERR_LIMIT);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_prompts),
        cmocka_unit_test(errors_name_what_is_wrong),
        cmocka_unit_test(limits_are_enforced),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
