/* base/thread.h: waiting for another thread until a deadline. */
#include "base/thread.h"

#include "base/clock.h"
#include "support.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static bool done;

/* By the deadline's own clock, not before and not at once. */
static void a_wait_ends_at_its_deadline(void **state)
{
    (void)state;
    const int64_t deadline_ns = base_deadline_after_ns(20 * BASE_NS_PER_MS);
    bool in_time = true;
    base_cond_init(&changed);
    assert_int_equal(pthread_mutex_lock(&lock), 0);
    while (in_time) {
        in_time = base_cond_wait(&changed, &lock, deadline_ns);
    }
    assert_int_equal(pthread_mutex_unlock(&lock), 0);
    assert_true(base_now_ns() >= deadline_ns);
    assert_int_equal(pthread_cond_destroy(&changed), 0);
}

static void *finish(void *argument)
{
    (void)argument;
    (void)pthread_mutex_lock(&lock);
    done = true;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    return NULL;
}

static void a_wait_ends_when_it_is_woken(void **state)
{
    (void)state;
    const int64_t deadlines[] = {BASE_NO_DEADLINE, base_deadline_after_ns(10 * BASE_NS_PER_S)};
    for (size_t i = 0; i < sizeof deadlines / sizeof deadlines[0]; i++) {
        pthread_t thread;
        base_error error;
        bool in_time = true;
        done = false;
        base_cond_init(&changed);
        assert_ok(base_thread_start(&thread, finish, NULL, "a test", &error), &error);
        assert_int_equal(pthread_mutex_lock(&lock), 0);
        while (!done && in_time) {
            in_time = base_cond_wait(&changed, &lock, deadlines[i]);
        }
        assert_int_equal(pthread_mutex_unlock(&lock), 0);
        assert_true(done && in_time);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(pthread_cond_destroy(&changed), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_ends_at_its_deadline),
        cmocka_unit_test(a_wait_ends_when_it_is_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
