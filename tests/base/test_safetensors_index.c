/* base/safetensors_index.h: which files an index names, and which indices and files are refused. */
#include "base/safetensors_index.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support.h"

#define INDEX(map) "{\"metadata\":{\"total_size\":4},\"weight_map\":{" map "}}"

static void expect(base_status status, const char *text, const char *reason)
{
    base_error error = {.message = ""};
    base_safetensors_index index;
    assert_status(base_safetensors_index_parse(text, strlen(text), &index, &error), status);
    if (strstr(error.message, reason) == NULL) {
        fail_msg("%.200s: \"%s\" lacks \"%s\"", text, error.message, reason);
    }
    assert_null(index.owner);
    assert_int_equal(index.file_count, 0);
}

static void files_are_named_once_by_rising_name(void **state)
{
    (void)state;
    static const char text[] = INDEX("\"w\":\"2.st\",\"b\":\"1.st\",\"c\":\"2.st\"");
    base_error error;
    base_safetensors_index index;
    assert_ok(base_safetensors_index_parse(text, sizeof text - 1, &index, &error), &error);
    assert_int_equal(index.file_count, 2);
    assert_string_equal(index.files[0].name, "1.st");
    assert_int_equal(index.files[0].tensor_count, 1);
    assert_string_equal(index.files[1].name, "2.st");
    assert_int_equal(index.files[1].tensor_count, 2);
    base_safetensors_index_close(&index);
    base_safetensors_index_close(&index); /* zeros: fine */
}

static void bad_indices_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *reason;
    } CASES[] = {
        {"", "line 1"},
        {"{", "line 1"},
        {"[]", "no object"},
        {"{}", "no object"},
        {"{\"weight_map\":[]}", "no object"},
        {INDEX(""), "names 0 tensors"},
        {INDEX("\"a\":\"1.st\",\"a\":\"2.st\""), "duplicate"},
        {INDEX("\"a\":7"), "no name of a file for tensor a"},
        {INDEX("\"a\":\"\""), "no name of a file for tensor a"},
        {INDEX("\"a\":\".\""), "no name of a file for tensor a"},
        {INDEX("\"a\":\"\\u001b[2J\""), "no name of a file for tensor a"},
        {INDEX("\"a\":\"..\""), "no name of a file for tensor a"},
        {INDEX("\"a\":\"../1.st\""), "no name of a file for tensor a"},
        {INDEX("\"a\":\"/etc/passwd\""), "no name of a file for tensor a"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        expect(BASE_ERR_INVALID, CASES[i].text, CASES[i].reason);
    }
}

/* An index of `tensors` tensors in as many files, or all in one; malloc'ed. */
static char *make_index(int tensors, bool one_file)
{
    enum { ENTRY_BYTES = 64 };
    char *text = malloc((size_t)(tensors + 1) * ENTRY_BYTES);
    assert_non_null(text);
    int used = snprintf(text, ENTRY_BYTES, "{\"weight_map\":{");
    for (int i = 0; i < tensors; i++) {
        used += snprintf(text + used, ENTRY_BYTES, "%s\"%d\":\"%d.st\"", i > 0 ? "," : "", i,
                         one_file ? 0 : i);
    }
    (void)snprintf(text + used, ENTRY_BYTES, "}}");
    return text;
}

static void limits_hold(void **state)
{
    (void)state;
    base_error error;
    base_safetensors_index index;
    char *text = make_index(BASE_SAFETENSORS_FILES_MAX, false);
    assert_ok(base_safetensors_index_parse(text, strlen(text), &index, &error), &error);
    assert_int_equal(index.file_count, BASE_SAFETENSORS_FILES_MAX);
    base_safetensors_index_close(&index);
    free(text);
    text = make_index(BASE_SAFETENSORS_FILES_MAX + 1, false);
    expect(BASE_ERR_LIMIT, text, "names more than 256 files");
    free(text);
    text = malloc(BASE_SAFETENSORS_INDEX_BYTES_MAX + 2);
    assert_non_null(text);
    memset(text, ' ', BASE_SAFETENSORS_INDEX_BYTES_MAX + 1);
    text[BASE_SAFETENSORS_INDEX_BYTES_MAX + 1] = '\0';
    expect(BASE_ERR_LIMIT, text, "more than 16777216 bytes");
    free(text);
    text = make_index(BASE_SAFETENSORS_TENSORS_MAX + 1, true);
    expect(BASE_ERR_LIMIT, text, "names 65537 tensors");
    free(text);
}

static void a_file_has_just_the_tensors_of_the_map(void **state)
{
    (void)state;
    static const struct {
        const char *map;
        const char *reason; /* NULL: it is right */
    } CASES[] = {
        {INDEX("\"a\":\"1.st\",\"b\":\"1.st\""), NULL},
        {INDEX("\"a\":\"1.st\""), "tensor b is in 1.st, but \"weight_map\" says nothing of it"},
        {INDEX("\"a\":\"1.st\",\"b\":\"2.st\""), "\"weight_map\" says 2.st"},
        {INDEX("\"a\":\"1.st\",\"b\":\"1.st\",\"c\":\"1.st\""),
         "\"weight_map\" says that 3 tensors are in 1.st, which has 2"},
    };
    base_safetensor tensors[] = {{.name = "a"}, {.name = "b"}};
    const base_safetensors parsed = {.count = 2, .tensors = tensors};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        base_error error = {.message = ""};
        base_safetensors_index index;
        assert_ok(base_safetensors_index_parse(CASES[i].map, strlen(CASES[i].map), &index, &error),
                  &error);
        const base_status status =
            base_safetensors_index_check(&index, &index.files[0], &parsed, &error);
        assert_status(status, CASES[i].reason == NULL ? BASE_OK : BASE_ERR_INVALID);
        assert_true(CASES[i].reason == NULL || strstr(error.message, CASES[i].reason) != NULL);
        base_safetensors_index_close(&index);
    }
}

static void an_index_is_read_from_its_file(void **state)
{
    (void)state;
    static const char text[] = INDEX("\"a\":\"1.st\"");
    base_error error;
    base_safetensors_index index;
    const char *path = test_shared_path("index.json");
    assert_status(base_safetensors_index_open(path, &index, &error), BASE_ERR_NOTFOUND);
    assert_ok(base_file_write(path, text, sizeof text - 1, &error), &error);
    assert_ok(base_safetensors_index_open(path, &index, &error), &error);
    assert_string_equal(index.files[0].name, "1.st");
    base_safetensors_index_close(&index);
    assert_ok(base_file_write(path, "{}", 2, &error), &error);
    assert_status(base_safetensors_index_open(path, &index, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_named_once_by_rising_name),
        cmocka_unit_test(bad_indices_are_refused),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(a_file_has_just_the_tensors_of_the_map),
        cmocka_unit_test(an_index_is_read_from_its_file),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
