/* base/nearest.h: what a mistyped word may have meant. */
#include "base/nearest.h"

#include <string.h>

#include "support.h"

static const char *const names[] = {"ranks", "rate", "micro-batches", "steps", "ddp-cpu", "o"};

static const char *name_of(int value)
{
    return value < (int)(sizeof names / sizeof names[0]) ? names[value] : NULL;
}

static void names_are_found_and_listed(void **state)
{
    char text[64];
    char shorter[12];
    (void)state;
    assert_int_equal(base_names_find(name_of, "ranks"), 0);
    assert_int_equal(base_names_find(name_of, "o"), 5);
    assert_int_equal(base_names_find(name_of, "rank"), -1);
    base_names_list(name_of, text, sizeof text);
    assert_string_equal(text, "ranks rate micro-batches steps ddp-cpu o");
    base_names_list(name_of, shorter, sizeof shorter);
    assert_memory_equal(shorter, "ranks rate", strlen("ranks rate"));
}

static void the_nearest_name_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *word;
        const char *expected;
    } cases[] = {
        {"rnaks", "; did you mean --ranks?"},  /* neighbours swapped */
        {"ranksx", "; did you mean --ranks?"}, /* one too many */
        {"anks", "; did you mean --ranks?"},   /* one too few */
        {"rbnks", "; did you mean --ranks?"},  /* one replaced */
        {"rates", "; did you mean --rate?"},   /* nearer than "ranks" */
        {"ddp_cpu", "; did you mean --ddp-cpu?"},
        {"dd", "; did you mean --ddp-cpu?"},               /* begins so */
        {"mcrobatchs", "; did you mean --micro-batches?"}, /* three edits in a long word */
        {"mcrobatc", ""},                                  /* five */
        {"rbnbs", ""},                                     /* two in a short one */
        {"colour", ""},
        {"x", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[BASE_NEAREST_BYTES];
        base_nearest nearest = base_nearest_begin(cases[i].word, strlen(cases[i].word));
        base_nearest_offer_all(&nearest, name_of);
        assert_string_equal(base_nearest_ask(&nearest, "--", text), cases[i].expected);
    }
}

/* Only the first bytes count; what is longer than any name is near none. */
static void a_word_has_its_length(void **state)
{
    (void)state;
    static char longer[4096];
    char text[BASE_NEAREST_BYTES];
    base_nearest nearest = base_nearest_begin("rnaks=3", 5);
    base_nearest_offer(&nearest, "ranks");
    assert_string_equal(base_nearest_ask(&nearest, "", text), "; did you mean ranks?");
    memset(longer, 'r', sizeof longer - 1);
    nearest = base_nearest_begin(longer, sizeof longer - 1);
    base_nearest_offer(&nearest, "ranks");
    base_nearest_offer(&nearest, longer);
    assert_null(nearest.name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_and_listed),
        cmocka_unit_test(the_nearest_name_is_found),
        cmocka_unit_test(a_word_has_its_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
