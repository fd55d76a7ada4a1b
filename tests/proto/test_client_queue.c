/* The client's queue: messages come out in order and unchanged, and a full queue refuses more. */
#include "queue.h"

#include <string.h>

#include "support.h"

static void messages_come_out_as_they_went_in(void **state)
{
    (void)state;
    client_queue queue;
    char message[32];
    assert_true(client_queue_init(&queue, 64));
    assert_int_equal(client_queue_take(&queue, message, sizeof message), 0);
    /* sizes that make every message wrap around at a different position */
    for (int round = 0; round < 500; round++) {
        const size_t size_bytes = 1 + (size_t)round % 23;
        char sent[32];
        memset(sent, 'a' + round % 26, sizeof sent);
        assert_true(client_queue_put(&queue, sent, size_bytes));
        assert_true(client_queue_put(&queue, "second", 6));
        assert_int_equal(client_queue_take(&queue, message, sizeof message), size_bytes);
        assert_memory_equal(message, sent, size_bytes);
        assert_int_equal(client_queue_take(&queue, message, sizeof message), 6);
        assert_memory_equal(message, "second", 6);
        assert_true(client_queue_empty(&queue));
    }
    client_queue_fini(&queue);
}

static void a_full_queue_takes_no_more(void **state)
{
    (void)state;
    client_queue queue;
    char message[32];
    int count = 0;
    assert_true(client_queue_init(&queue, 64));
    while (client_queue_put(&queue, "0123456789", 10)) {
        count++;
    }
    assert_int_equal(count, 4); /* of 4 + 10 bytes each */
    assert_int_equal(client_queue_take(&queue, message, sizeof message), 10);
    assert_true(client_queue_put(&queue, "0123456789", 10));
    client_queue_fini(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_out_as_they_went_in),
        cmocka_unit_test(a_full_queue_takes_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
