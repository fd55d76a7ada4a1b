/* base/path.h: paths that are joined, and which files have lines of JSON by their names. */
#include "base/path.h"

#include "support.h"

static void endings_say_what_lines_are(void **state)
{
    (void)state;
    static const char *const lines[] = {"a.jsonl", "/d.txt/a.json", "a.ndjson", ".jsonl", ".json"};
    static const char *const plain[] = {"a.txt",      "a",          "",       "json",
                                        "a.jsonl.gz", "/d.jsonl/a", "a.JSONL"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_true(base_path_has_json_lines(lines[i]));
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        assert_false(base_path_has_json_lines(plain[i]));
    }
}

static void an_ending_says_what_tokens_are(void **state)
{
    (void)state;
    assert_true(base_path_has_tokens("/d/a.safetensors"));
    assert_false(base_path_has_tokens("a.safetensors.txt"));
    assert_false(base_path_has_tokens("a.jsonl"));
    assert_false(base_path_has_tokens(""));
    assert_false(base_path_has_json_lines("a.safetensors"));
}

static void paths_are_joined_if_they_fit(void **state)
{
    (void)state;
    static char longest[BASE_PATH_BYTES];
    char path[BASE_PATH_BYTES];
    base_error error;
    assert_ok(base_path_join("/", "a", path, &error), &error);
    assert_string_equal(path, "/a");
    memset(longest, 'a', sizeof longest - 3);
    assert_ok(base_path_join(longest, "b", path, &error), &error);
    assert_int_equal(base_path_join(longest, "bc", path, &error), BASE_ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endings_say_what_lines_are),
        cmocka_unit_test(an_ending_says_what_tokens_are),
        cmocka_unit_test(paths_are_joined_if_they_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
