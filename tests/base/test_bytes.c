/* base/bytes.h: values read back, the end is never passed, sizes do not overflow. */
#include "base/bytes.h"

#include <string.h>

#include "support.h"

static void written_values_read_back(void **state)
{
    (void)state;
    uint8_t buffer[16];
    base_writer writer = base_writer_make(buffer, sizeof buffer);
    base_write_u32(&writer, 0x01020304);
    base_write_u64(&writer, UINT64_MAX - 1);
    base_write_bytes(&writer, "xyz", 3);
    assert_false(writer.failed);
    assert_int_equal(buffer[0], 4); /* little endian */

    base_reader reader = base_reader_make(buffer, sizeof buffer);
    assert_int_equal(base_read_u32(&reader), 0x01020304);
    assert_true(base_read_u64(&reader) == UINT64_MAX - 1);
    assert_memory_equal(base_read_bytes(&reader, 3), "xyz", 3);
    assert_false(reader.failed);
}

static void the_end_is_never_passed(void **state)
{
    (void)state;
    uint8_t buffer[4] = {1, 2, 3, 4};
    base_reader reader = base_reader_make(buffer, 3);
    assert_int_equal(base_read_u32(&reader), 0);
    assert_true(reader.failed);
    assert_null(base_read_bytes(&reader, 1)); /* failed stays */

    reader = base_reader_make(buffer, 3);
    assert_null(base_read_bytes(&reader, SIZE_MAX));

    base_writer writer = base_writer_make(buffer, 3);
    base_write_u32(&writer, 0);
    assert_true(writer.failed);
    assert_int_equal(buffer[0], 1);
    assert_int_equal(buffer[3], 4);
}

static void sizes_do_not_overflow(void **state)
{
    (void)state;
    size_t result = 7;
    assert_false(base_add_size(SIZE_MAX, 1, &result));
    assert_false(base_mul_size(SIZE_MAX / 2, 3, &result));
    assert_int_equal(result, 7);
    assert_true(base_mul_size(6, 7, &result));
    assert_int_equal(result, 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_values_read_back),
        cmocka_unit_test(the_end_is_never_passed),
        cmocka_unit_test(sizes_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
