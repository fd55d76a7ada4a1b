/* launcher/job/environment.h: what a rank of a mode that may cost money inherits. */
#include "job/environment.h"

#include <stdlib.h>
#include <string.h>

#include "support.h"

static const char *const given[] = {
    "PATH=/usr/bin",
    "LD_PRELOAD=/tmp/evil.so",
    "LD_LIBRARY_PATH=/tmp",
    "LD_AUDIT=/tmp/evil.so",
    "GLIBC_TUNABLES=x",
    "GCONV_PATH=/tmp",
    "PYTHONPATH=/tmp",
    "LC_ALL=C",
    "LANG=C",
    "LANGUAGE=x",
    "RANK=7",
    "NCCL_DEBUG=INFO",
    "NCCL_NET_PLUGIN=/tmp/evil.so",
    "CUDA_VISIBLE_DEVICES=0",
    "CUDA_INJECTION64_PATH=/tmp/evil.so",
    "AWS_SECRET_ACCESS_KEY=secret",
    "BUDGET_SERVICE_DIR=/b",
    NULL,
};

/* As execve has it. */
static char **make(const char *const *from, const char *const *ours, int count, bool is_reduced)
{
    return launch_environment_make((char *const *)(uintptr_t)from, (char *const *)(uintptr_t)ours,
                                   count, is_reduced);
}

static void assert_list(char **made, const char *const *wanted)
{
    assert_non_null(made);
    size_t i = 0;
    for (; wanted[i] != NULL; i++) {
        assert_non_null(made[i]);
        assert_string_equal(made[i], wanted[i]);
    }
    assert_null(made[i]);
    free(made);
}

static void a_mode_that_costs_money_inherits_what_it_needs(void **state)
{
    (void)state;
    static const char *const ours[] = {"RANK=0", "MASTER_PORT=1"};
    assert_list(make(given, ours, 2, true),
                (const char *const[]){"PATH=/usr/bin", "LC_ALL=C", "LANG=C", "NCCL_DEBUG=INFO",
                                      "CUDA_VISIBLE_DEVICES=0", "BUDGET_SERVICE_DIR=/b", "RANK=0",
                                      "MASTER_PORT=1", NULL});
}

static void nothing_of_the_linkers_passes(void **state)
{
    (void)state;
    static const char *const refused[] = {"LD_PRELOAD=x",   "LD_", "LD_X=1", "PATHX=1", "PAT=1",
                                          "XPATH=1",        "=x",  "",       "NCCL=1",  "HOMES=1",
                                          "LD_LIBRARY_PATH"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (launch_environment_passes(refused[i])) {
            fail_msg("%s passes", refused[i]);
        }
    }
    assert_true(launch_environment_passes("HOME=/x"));
    assert_true(launch_environment_passes("NCCL_ALGO=Ring"));
    assert_false(launch_environment_passes("NCCL_TUNER_PLUGIN=x"));
}

static void other_ranks_inherit_all_but_what_is_ours(void **state)
{
    (void)state;
    static const char *const few[] = {"LD_PRELOAD=a", "RANK=7", "RANKS=8",
                                      "TORCHELASTIC_USE_AGENT_STORE=True", NULL};
    static const char *const ours[] = {"RANK=0"};
    assert_list(make(few, ours, 1, false),
                (const char *const[]){"LD_PRELOAD=a", "RANKS=8", "RANK=0", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mode_that_costs_money_inherits_what_it_needs),
        cmocka_unit_test(nothing_of_the_linkers_passes),
        cmocka_unit_test(other_ranks_inherit_all_but_what_is_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
