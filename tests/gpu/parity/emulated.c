/* The parity cases on the emulator: each in several orders of threads and blocks, as late as
 * possible and at once. Under AddressSanitizer, which takes five times as long, in one order, and without
 * the cases that only repeat others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "cases.h"
#include "emulate/emulate.h"
#include "support.h"

#if defined(__SANITIZE_ADDRESS__)
enum { GUARDS = false, REPEATS = false, FIRST_ORDER = EMULATE_SHUFFLED };
#else
enum { GUARDS = true, REPEATS = true, FIRST_ORDER = EMULATE_FORWARD };
#endif

static const rank_backend *backend;

/* Whether the backend runs this case's kernels in other cases, too. */
static bool repeats(const parity_case *of)
{
    return of->tiles && backend == &rank_cuda_exact_backend;
}

/* The seed is the same for all orders, so they have the same shapes and numbers. */
static void run_case(void **state)
{
    const parity_case *of = *state;
    twin t = {.guards = GUARDS};
    const uint64_t launches = emulate_count().launches;
    uint64_t bits = 0;
    twin_open(&t, backend);
    const bool one_order = of->one_order || repeats(of);
    for (int order = one_order ? (int)EMULATE_SHUFFLED : (int)FIRST_ORDER;
         order <= EMULATE_SHUFFLED; order++) {
        t.seed = 17;
        t.bits = 1;
        emulate_set_order((emulate_order)order, 5);
        emulate_set_eager(order == EMULATE_BACKWARD);
        for (int i = 0; i < (of->shapes > 0 ? of->shapes : PARITY_SHAPES); i++) {
            twin_begin(&t);
            of->run(&t);
            twin_end(&t);
        }
        if (bits != 0 && bits != t.bits) {
            fail_msg("%s: another order of threads gives other bits", of->name);
        }
        bits = t.bits;
    }
    twin_close(&t);
    if (of->replays) {
        assert_true(emulate_count().launches > launches);
    }
    assert_int_equal(emulate_count().blocks, 0);
    assert_int_equal(emulate_count().objects, 0);
}

static int run_cases(const parity_case *cases)
{
    struct CMUnitTest tests[16];
    int count = 0;
    for (const parity_case *of = cases; of->name != NULL; of++) {
        if (REPEATS || !repeats(of)) {
            tests[count++] = (struct CMUnitTest){
                .name = of->name, .test_func = run_case, .initial_state = (void *)of};
        }
    }
    return _cmocka_run_group_tests(backend->name, tests, (size_t)count, NULL, NULL);
}

/* ARGUMENTS: the backend, and which cases. */
int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        const parity_case *cases;
    } groups[] = {
        {.name = "norms", .cases = parity_norm_cases},
        {.name = "rows", .cases = parity_rows_cases},
        {.name = "products", .cases = parity_product_cases},
        {.name = "attention", .cases = parity_attention_cases},
        {.name = "step", .cases = parity_step_cases},
        {.name = "model", .cases = parity_model_cases},
        {.name = "mma", .cases = parity_mma_cases},
        {.name = "bfloat16", .cases = parity_bfloat16_cases},
        {.name = "bfloat16-model", .cases = parity_bfloat16_model_cases},
    };
    static const rank_backend *const backends[] = {&rank_cuda_backend, &rank_cuda_exact_backend,
                                                   &rank_cuda_tf32_backend};
    for (size_t i = 0; argc > 1 && i < sizeof backends / sizeof *backends; i++) {
        backend = strcmp(argv[1], backends[i]->name) == 0 ? backends[i] : backend;
    }
    for (size_t i = 0; argc > 2 && backend != NULL && i < sizeof groups / sizeof *groups; i++) {
        if (strcmp(groups[i].name, argv[2]) == 0) {
            return run_cases(groups[i].cases);
        }
    }
    (void)fputs("usage: cuda|cuda-exact|cuda-tf32 rows|products|attention|step|model|mma|"
                "bfloat16|bfloat16-model\n",
                stderr);
    return EXIT_FAILURE;
}
