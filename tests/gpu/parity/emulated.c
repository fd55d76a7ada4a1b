/* The parity cases on the emulator: each in several orders of threads and blocks, as late as
 * possible and at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "cases.h"
#include "emulate/emulate.h"
#include "support.h"

#if defined(__SANITIZE_ADDRESS__)
enum { GUARDS = false };
#else
enum { GUARDS = true };
#endif

static const rank_backend *backend;

static bool cpu_has_fma(const rank_device *cpu)
{
    rank_backend_info info;
    cpu->backend->info(cpu->queue, &info);
    return strcmp(info.kernels, "baseline") != 0;
}

static void open_twin(twin *t)
{
    base_error error;
    assert_ok(rank_device_open("cpu", &t->device[TWIN_CPU], &error), &error);
    t->device[TWIN_OTHER].backend = backend;
    assert_ok(backend->open(&t->device[TWIN_OTHER].queue, &error), &error);
    t->exact = backend == &rank_cuda_exact_backend && cpu_has_fma(&t->device[TWIN_CPU]);
    t->guards = GUARDS;
}

/* The seed is the same for all orders, so they have the same shapes and numbers. */
static void run_case(void **state)
{
    const parity_case *of = *state;
    twin t = {.seed = 0};
    const uint64_t launches = emulate_count().launches;
    open_twin(&t);
    for (int order = of->one_order ? EMULATE_SHUFFLED : EMULATE_FORWARD; order <= EMULATE_SHUFFLED;
         order++) {
        t.seed = 17;
        emulate_set_order((emulate_order)order, 5);
        emulate_set_eager(order == EMULATE_BACKWARD);
        for (int i = 0; i < (of->shapes > 0 ? of->shapes : PARITY_SHAPES); i++) {
            twin_begin(&t);
            of->run(&t);
            twin_end(&t);
        }
    }
    for (int side = 0; side < TWIN_SIDES; side++) {
        rank_device_close(&t.device[side]);
    }
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
    for (; cases[count].name != NULL; count++) {
        tests[count] = (struct CMUnitTest){.name = cases[count].name,
                                           .test_func = run_case,
                                           .initial_state = (void *)&cases[count]};
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
        {.name = "rows", .cases = parity_rows_cases},
        {.name = "products", .cases = parity_product_cases},
        {.name = "attention", .cases = parity_attention_cases},
        {.name = "step", .cases = parity_step_cases},
        {.name = "model", .cases = parity_model_cases},
    };
    backend =
        argc > 1 && strcmp(argv[1], "cuda") == 0 ? &rank_cuda_backend : &rank_cuda_exact_backend;
    for (size_t i = 0; argc > 2 && i < sizeof groups / sizeof *groups; i++) {
        if (strcmp(groups[i].name, argv[2]) == 0) {
            return run_cases(groups[i].cases);
        }
    }
    (void)fputs("usage: cuda|cuda-exact rows|products|attention|step|model\n", stderr);
    return EXIT_FAILURE;
}
