/* What --dry-run says of a training's files. */
#include <stdio.h>
#include <string.h>

#include "training.h"

static training_run one, two; /* large: they hold a program's output */

/* A dry run into NAME says what becomes of the record that is there; NULL: there is none. */
static void expect_fate(const char *name, const char *const *flags, const char *fate)
{
    training_expect(&two, &test_shared_directory, name, 0, flags);
    const char *line = strstr(two.program.text[TEST_STDOUT], "\nrecord: ");
    assert_non_null(line);
    const char *end = strchr(line + 1, '\n');
    const char *said = memmem(line, (size_t)(end - line), " (", 2);
    char wanted[128];
    (void)snprintf(wanted, sizeof wanted, " (there is one already: it %s)", fate);
    assert_true(said == NULL ? fate == NULL
                             : fate != NULL && strncmp(said, wanted, (size_t)(end - said)) == 0);
}

/* A dry run names exactly the files that the job then writes. */
static void a_dry_run_names_what_is_written(void **state)
{
    (void)state;
    char plain[BASE_PATH_BYTES];
    (void)snprintf(plain, sizeof plain, "%s", test_shared_path("w0"));
    const char *const jobs[][10] = {
        {"--ranks", "2"},
        {"--ranks", "2", "--zero", "3", "--save-every", "1"},
        {"--mode", "pp-cpu", "--ranks", "2", "--layers", "2", "--trace", "0"},
        {"--experts", "2", "--expert-ranks", "2", "--ranks", "2"},
        {"--checkpoint", plain, "--lora", "2"},
        {"--checkpoint", plain, "--lora", "2", "--lora-merge"},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        const char *flags[16] = {"--steps", "2"};
        char name[8];
        size_t count = 2;
        while (jobs[i][count - 2] != NULL) {
            flags[count] = jobs[i][count - 2];
            count++;
        }
        (void)snprintf(name, sizeof name, "w%zu", i);
        training_expect(&one, &test_shared_directory, name, 0, flags);
        flags[count] = "--dry-run";
        expect_fate(name, flags, "is moved away");
        training_assert_files(&two.program, one.out);
        if (i == 0) { /* what a chat model has beside it is kept */
            test_shared_put("w0/chat_template.jinja", "");
        }
    }
    expect_fate("none", FLAGS("--dry-run"), NULL);
    expect_fate("w1", FLAGS("--overwrite", "--dry-run"), "is replaced");
    expect_fate("w1", FLAGS("--resume", "--dry-run"), "goes on after step 2");
    expect_fate("w0", FLAGS("--resume", "--dry-run"), "is moved away");
}

/* Price and hours that no flag names are the policy's, and only these. */
static void an_estimate_names_what_the_policy_says(void **state)
{
    (void)state;
    static const struct {
        const char *flag;
        const char *says;
    } cases[] = {
        {NULL, "estimate: $0.50 at most; price and hours are the policy's\n"},
        {"--max-hours", "estimate: $0.50 at most; the price is the policy's\n"},
        {"--max-price", "estimate: $0.50 at most; the hours are the policy's\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        training_expect(&one, &test_shared_directory, "estimate", 0,
                        FLAGS("--mode", "ddp-nccl", "--account", "a", "--authorize", "0.50",
                              "--dry-run", cases[i].flag, "0.5"));
        assert_non_null(strstr(one.program.text[TEST_STDOUT], cases[i].says));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_estimate_names_what_the_policy_says),
        cmocka_unit_test(a_dry_run_names_what_is_written),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
