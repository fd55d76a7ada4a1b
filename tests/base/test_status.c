/* base/status.h: messages gain context, are cut at their size, and carry errno's words. */
#include <errno.h>
#include <string.h>

#include "support.h"

static void messages_gain_context(void **state)
{
    (void)state;
    base_error error;
    assert_int_equal(base_fail(&error, BASE_ERR_IO, "cannot open %s", "x"), BASE_ERR_IO);
    assert_string_equal(error.message, "cannot open x");
    assert_int_equal(base_error_prepend(&error, error.status, "rank %d", 1), BASE_ERR_IO);
    assert_string_equal(error.message, "rank 1: cannot open x");
}

static void long_messages_are_cut(void **state)
{
    (void)state;
    char text[2 * BASE_ERROR_MESSAGE_BYTES];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    base_error error;
    (void)base_fail(&error, BASE_ERR_INVALID, "%s", text);
    assert_int_equal(strlen(error.message), BASE_ERROR_MESSAGE_BYTES - 1);
    (void)base_error_prepend(&error, error.status, "%s", text);
    assert_int_equal(strlen(error.message), BASE_ERROR_MESSAGE_BYTES - 1);
}

static void a_null_error_is_fine(void **state)
{
    (void)state;
    assert_int_equal(base_fail(NULL, BASE_ERR_LIMIT, "x"), BASE_ERR_LIMIT);
    assert_int_equal(base_fail_errno(NULL, ENOENT, "x"), BASE_ERR_IO);
    assert_int_equal(base_error_prepend(NULL, BASE_ERR_LIMIT, "x"), BASE_ERR_LIMIT);
}

static void errno_has_words(void **state)
{
    (void)state;
    base_error error;
    (void)base_fail_errno(&error, ENOENT, "cannot open %s", "x");
    assert_string_equal(error.message, "cannot open x: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_gain_context),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(a_null_error_is_fine),
        cmocka_unit_test(errno_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
