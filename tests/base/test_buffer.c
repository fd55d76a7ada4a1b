/* base/buffer.h: quoting for HTML and shells, and readable numbers. */
#include "base/buffer.h"

#include <math.h>
#include <string.h>

#include "support.h"

static void html_is_escaped(void **state)
{
    (void)state;
    base_buffer text = {0};
    base_buffer_html(&text, "<a href='x'>\"&\"</a>\x01\xff\x7f→");
    assert_string_equal(text.data, "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;&lt;/a&gt;"
                                   "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd→");
    assert_false(text.failed);
    base_buffer_fini(&text);
}

static void arguments_are_quoted(void **state)
{
    (void)state;
    static const char *const CASES[][2] = {
        {"--ranks", "--ranks"}, {"", "''"},       {"a b", "'a b'"},
        {"it's", "'it'\\''s'"}, {"$x;", "'$x;'"}, {"a=/b,c:d@e%f+g.h-i", "a=/b,c:d@e%f+g.h-i"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        base_buffer text = {0};
        base_buffer_shell(&text, CASES[i][0]);
        assert_string_equal(text.data, CASES[i][1]);
        base_buffer_fini(&text);
    }
}

static void numbers_are_readable(void **state)
{
    (void)state;
    base_buffer text = {0};
    base_buffer_count(&text, 1234567);
    base_buffer_put(&text, " ");
    base_buffer_count(&text, 12);
    base_buffer_put(&text, " ");
    base_buffer_number(&text, 2.345, 1);
    base_buffer_put(&text, " ");
    base_buffer_number(&text, NAN, 1);
    assert_string_equal(text.data, "1\xe2\x80\xaf"
                                   "234\xe2\x80\xaf"
                                   "567 12 2.3 –");
    base_buffer_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(html_is_escaped),
        cmocka_unit_test(arguments_are_quoted),
        cmocka_unit_test(numbers_are_readable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
