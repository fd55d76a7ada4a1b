/* Models of several threads do not touch each other: each gives the bits that it gives alone. */
#include <pthread.h>

#include "support.h"
#include "tiny.h"

enum { THREADS = 3, REPEATS = 8 };

static const int lengths[] = {24, 7, 24, 24, 3, 0};

/* Assertions belong to the main thread, so a thread only says how many of its results differ. */
typedef struct worker {
    pthread_t thread;
    tiny t;
    const float *expected;
    int differing;
} worker;

static void *work(void *user)
{
    worker *w = user;
    for (int i = 0; i < REPEATS; i++) {
        base_error error;
        rank_result result;
        const base_status status =
            rank_model_train(w->t.model, &w->t.hooks, &w->t.batch, w->t.grads, &result, &error);
        w->differing += status != BASE_OK;
        for (size_t j = 0; j < w->t.param_count; j++) {
            w->differing += w->t.grads[j] != w->expected[j];
        }
    }
    return NULL;
}

static void threads_give_the_same_bits(void **state)
{
    (void)state;
    static worker workers[THREADS];
    tiny alone;
    tiny_open(&alone);
    tiny_fill(&alone, lengths, 21);
    (void)tiny_train(&alone);
    for (int i = 0; i < THREADS; i++) {
        tiny_open(&workers[i].t);
        tiny_fill(&workers[i].t, lengths, 21);
        workers[i].expected = alone.grads;
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].differing, 0);
        tiny_close(&workers[i].t);
    }
    tiny_close(&alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_give_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
