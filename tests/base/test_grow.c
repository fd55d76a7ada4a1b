/* base/grow.h: growing from nothing, keeping items, and no memory. */
#include "base/grow.h"

#include <stdlib.h>

#include "support.h"

static void arrays_double_and_keep_their_items(void **state)
{
    int *numbers = NULL;
    size_t capacity = 0;
    (void)state;
    for (size_t count = 0; count < 100; count++) {
        int *grown = base_grow(numbers, count, &capacity, 3, sizeof *numbers);
        assert_non_null(grown);
        assert_true(capacity > count);
        assert_true(count % 3 != 0 || capacity % 3 == 0);
        numbers = grown;
        numbers[count] = (int)count;
    }
    assert_int_equal(capacity, 192);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(numbers[i], i);
    }
    free(numbers);
}

static void several_items_are_made_room_for_at_once(void **state)
{
    size_t capacity = 0;
    (void)state;
    char *text = base_reserve(NULL, 0, 0, &capacity, 4, sizeof *text);
    assert_non_null(text);
    assert_int_equal(capacity, 4);
    text = base_reserve(text, 0, 17, &capacity, 4, sizeof *text);
    assert_non_null(text);
    assert_int_equal(capacity, 32);
    memset(text, 'a', 17);
    assert_ptr_equal(base_reserve(text, 17, 15, &capacity, 4, sizeof *text), text);
    text = base_reserve(text, 17, 16, &capacity, 4, sizeof *text);
    assert_int_equal(capacity, 64);
    assert_int_equal(text[16], 'a');
    assert_null(base_reserve(text, 17, SIZE_MAX, &capacity, 4, sizeof *text));
    assert_null(base_reserve(text, 17, SIZE_MAX / 2 + 2, &capacity, 4, sizeof *text));
    assert_int_equal(capacity, 64);
    free(text);
}

static void an_array_that_cannot_be_is_refused(void **state)
{
    char item = 'x';
    size_t capacity = SIZE_MAX / 2 + 1;
    (void)state;
    assert_null(base_grow(&item, capacity, &capacity, 1, 1));
    assert_true(capacity == SIZE_MAX / 2 + 1);
    capacity = SIZE_MAX / 16;
    assert_null(base_grow(&item, capacity, &capacity, 1, 16));
    assert_true(capacity == SIZE_MAX / 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_double_and_keep_their_items),
        cmocka_unit_test(several_items_are_made_room_for_at_once),
        cmocka_unit_test(an_array_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
