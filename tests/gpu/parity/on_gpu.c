/* gpu-parity: the parity cases on a GPU. It loads the plugin itself: it is a test, no rank, and
 * spends nothing.
 *   gpu-parity PLUGIN [CASE...]
 * Exits with 77 where there is no GPU. In a bundle (./dev gpu-bundle) it reads the tokenizer that
 * lies there. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cases.h"
#include "open.h"
#include "plugin/find.h"
#include "support.h"

static gpu_plugin plugin;

static void run_case(const char *backend, const parity_case *of)
{
    twin t = {.seed = 17, .guards = true};
    uint64_t bits = 0;
    base_error error;
    const rank_backend *other = NULL;
    assert_ok(gpu_plugin_backend(&plugin, backend, &other, &error), &error);
    twin_open(&t, other);
    for (int again = 0; again < 2; again++) { /* the same again has the same bits */
        t.seed = 17;
        t.bits = 1;
        for (int i = 0; i < (of->shapes > 0 ? of->shapes : PARITY_SHAPES); i++) {
            twin_begin(&t);
            of->run(&t);
            twin_end(&t);
        }
        if (again > 0 && bits != t.bits) {
            fail_msg("%s: the second time has other bits", of->name);
        }
        bits = t.bits;
    }
    twin_close(&t);
}

static void run_exact(void **state)
{
    run_case("cuda-exact", *state);
}

static void run_fast(void **state)
{
    run_case("cuda", *state);
}

static void run_tf32(void **state)
{
    run_case("cuda-tf32", *state);
}

/* Which backends run a group of cases. */
static const struct {
    const parity_case *cases;
    bool on[3]; /* as in `runs` */
} groups[] = {
#if defined(GPU_PARITY_TILE) /* its kernel is in this program, not in the plugin */
    {parity_mma_cases, {false, true}},
#endif
    {parity_norm_cases, {true, true}},          {parity_rows_cases, {true, true}},
    {parity_product_cases, {true, true, true}}, {parity_attention_cases, {true, true}},
    {parity_step_cases, {true, true}},          {parity_bfloat16_cases, {false, true}},
    {parity_model_cases, {true, true}},         {parity_bfloat16_model_cases, {false, true}},
};

static const struct {
    const char *backend;
    CMUnitTestFunction run;
} runs[] = {{"cuda-exact", run_exact}, {"cuda", run_fast}, {"cuda-tf32", run_tf32}};

static bool is_wanted(const parity_case *of, char *const *wanted)
{
    bool any = false;
    for (; *wanted != NULL; wanted++) {
        if (strcmp(*wanted, of->name) == 0) {
            return true;
        }
        any = true;
    }
    return !any;
}

static int run_all(char *const *wanted)
{
    struct CMUnitTest tests[128];
    char names[128][80];
    size_t count = 0;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (const parity_case *of = groups[g].cases; of->name != NULL; of++) {
            if (!is_wanted(of, wanted)) {
                continue;
            }
            for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
                if (!groups[g].on[r]) {
                    continue;
                }
                (void)snprintf(names[count], sizeof names[count], "%s, %s", of->name,
                               runs[r].backend);
                tests[count] = (struct CMUnitTest){
                    .name = names[count], .test_func = runs[r].run, .initial_state = (void *)of};
                count++;
            }
        }
    }
    if (count == 0) {
        (void)fputs("gpu-parity: there is no such case\n", stderr);
        return 2;
    }
    return _cmocka_run_group_tests("parity", tests, count, NULL, NULL);
}

static void use_tokenizer_beside(char path[BASE_PATH_BYTES + 64])
{
    char origin[BASE_PATH_BYTES];
    if (!rank_find_origin(origin)) {
        return;
    }
    (void)snprintf(path, BASE_PATH_BYTES + 64, "%s/../share/ringfence/tokenizer.json", origin);
    if (access(path, R_OK) == 0) {
        parity_tokenizer = path;
    }
}

int main(int argc, char **argv)
{
    base_error error;
    char tokenizer[BASE_PATH_BYTES + 64];
    if (argc < 2) {
        (void)fputs("usage: gpu-parity PLUGIN [CASE...]\n", stderr);
        return 2;
    }
    const base_status status = gpu_plugin_open(argv[1], &plugin, &error);
    if (status != BASE_OK) {
        (void)printf("%s%s\n", status == BASE_ERR_UNSUPPORTED ? "skipped: " : "", error.message);
        return status == BASE_ERR_UNSUPPORTED ? TEST_EXIT_SKIPPED : 1;
    }
    (void)printf("%s\n", plugin.table->version);
    use_tokenizer_beside(tokenizer);
    return run_all(argv + 2);
}
