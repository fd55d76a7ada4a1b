/* The tiny-message protocol between ranks that share memory, model-checked (model.h): every
 * interleaving of 2 and 3 ranks' loads and stores is tried.
 *
 * The search proves its worth: each of seven mutations, a fence or an order less, must be found. */
#include <string.h>

#include "model.h"
#include "support.h"

static model_protocol correct(int ranks, int operations)
{
    model_protocol p = {
        .ranks = ranks, .operations = operations, .slots = 2, .credit = 2, .sleepers = 3};
    memset(p.kinds, MODEL_ALL, sizeof p.kinds);
    return p;
}

static void holds(const model_protocol *p)
{
    size_t states = 0;
    const char *error = model_check(p, &states);
    if (error != NULL) {
        fail_msg("%d ranks: %s", p->ranks, error);
    }
    print_message("%d ranks, %d operations, sleepers %u: %zu states\n", p->ranks, p->operations,
                  p->sleepers, states);
}

/* With three ranks, one at a time may sleep: that is what a ring could miss. */
static void hold_of_three(const model_protocol *p)
{
    for (unsigned rank = 0; rank <= MODEL_RANKS_MAX; rank++) {
        model_protocol one = *p;
        one.sleepers = rank == MODEL_RANKS_MAX ? 0 : 1u << rank;
        holds(&one);
    }
}

static void test_all_wait_for_all(void **state)
{
    (void)state;
    const model_protocol two = correct(2, 5);
    const model_protocol three = correct(3, 3);
    holds(&two);
    hold_of_three(&three);
}

/* A root runs ahead as far as credit lets it; then everybody meets, or the root is another. */
static void test_roots_run_ahead(void **state)
{
    (void)state;
    model_protocol two = correct(2, 5);
    memcpy(two.kinds, (uint8_t[]){0, 0, 0, 1, MODEL_ALL}, 5);
    holds(&two);
    memcpy(two.kinds, (uint8_t[]){0, 0, 0, 0, 0}, 5);
    holds(&two);
    model_protocol three = correct(3, 3);
    memcpy(three.kinds, (uint8_t[]){0, 0, 0}, 3);
    hold_of_three(&three);
    memcpy(three.kinds, (uint8_t[]){0, 1, 2}, 3);
    hold_of_three(&three);
}

static void breaks(const model_protocol *p, const char *words)
{
    size_t states = 0;
    const char *error = model_check(p, &states);
    assert_non_null(error);
    assert_string_equal(error, words);
}

static void test_mutations_are_found(void **state)
{
    (void)state;
    model_protocol p = correct(2, 4);
    p.slots = 1; /* one buffer in the place of two */
    breaks(&p, "a payload is not the operation's");
    p = correct(2, 4);
    p.credit = 3; /* a slot is used again one operation too early */
    memcpy(p.kinds, (uint8_t[]){0, 0, 0, 0}, 4);
    breaks(&p, "a payload is not the operation's");
    p = correct(2, 4);
    p.no_release = true;
    breaks(&p, "a payload is not the operation's");
    p = correct(2, 4);
    p.no_acquire = true;
    breaks(&p, "a payload is not the operation's");
    p = correct(2, 4);
    p.no_fence = true;
    breaks(&p, "nobody can go on");
    p = correct(2, 4);
    p.no_second_look = true;
    breaks(&p, "nobody can go on");
    p = correct(2, 4);
    p.no_last_word = true;
    breaks(&p, "nobody can go on");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_wait_for_all),
        cmocka_unit_test(test_roots_run_ahead),
        cmocka_unit_test(test_mutations_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
