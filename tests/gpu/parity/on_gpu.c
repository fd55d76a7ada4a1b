/* gpu-parity: the parity cases on a GPU. It loads the plugin itself: it is a test, no rank, and
 * spends nothing.
 *   gpu-parity PLUGIN [CASE...]
 * Exits with 77 where there is no GPU. In a bundle (./dev gpu-bundle) it reads the tokenizer that
 * lies there. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/cuda/plugin.h"
#include "cases.h"
#include "plugin/find.h"
#include "support.h"

static const rank_cuda_plugin *plugin;

static const rank_backend *find_backend(const char *name)
{
    for (int i = 0; plugin->backends[i] != NULL; i++) {
        if (strcmp(plugin->backends[i]->name, name) == 0) {
            return plugin->backends[i];
        }
    }
    fail_msg("the plugin has no backend %s", name);
    return NULL;
}

static bool cpu_has_fma(const rank_device *cpu)
{
    rank_backend_info info;
    cpu->backend->info(cpu->queue, &info);
    return strcmp(info.kernels, "baseline") != 0;
}

static void run_case(const char *backend, const parity_case *of)
{
    base_error error;
    twin t = {.seed = 17, .guards = true};
    assert_ok(rank_device_open("cpu", &t.device[TWIN_CPU], &error), &error);
    t.device[TWIN_OTHER].backend = find_backend(backend);
    assert_ok(t.device[TWIN_OTHER].backend->open(&t.device[TWIN_OTHER].queue, &error), &error);
    t.exact = strcmp(backend, "cuda-exact") == 0 && cpu_has_fma(&t.device[TWIN_CPU]);
    for (int i = 0; i < (of->shapes > 0 ? of->shapes : PARITY_SHAPES); i++) {
        twin_begin(&t);
        of->run(&t);
        twin_end(&t);
    }
    for (int side = 0; side < TWIN_SIDES; side++) {
        rank_device_close(&t.device[side]);
    }
}

static void run_exact(void **state)
{
    run_case("cuda-exact", *state);
}

static void run_fast(void **state)
{
    run_case("cuda", *state);
}

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
    static const parity_case *const groups[] = {parity_rows_cases, parity_product_cases,
                                                parity_attention_cases, parity_step_cases,
                                                parity_model_cases};
    struct CMUnitTest tests[64];
    char names[64][80];
    size_t count = 0;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (const parity_case *of = groups[g]; of->name != NULL; of++) {
            if (!is_wanted(of, wanted)) {
                continue;
            }
            for (int exact = 1; exact >= 0; exact--, count++) {
                (void)snprintf(names[count], sizeof names[count], "%s, %s", of->name,
                               exact ? "cuda-exact" : "cuda");
                tests[count] = (struct CMUnitTest){.name = names[count],
                                                   .test_func = exact ? run_exact : run_fast,
                                                   .initial_state = (void *)of};
            }
        }
    }
    if (count == 0) {
        (void)fputs("gpu-parity: there is no such case\n", stderr);
        return 2;
    }
    return _cmocka_run_group_tests("parity", tests, count, NULL, NULL);
}

/* As the rank does it. What is missing is named when the plugin is loaded. */
static void preload(void)
{
    static const char *const names[] = {"libcuda.so.1", "libcublasLt.so.13", "libnccl.so.2"};
    char path[BASE_PATH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (rank_find_library("", names[i], path)) {
            (void)dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
    }
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
    rank_cuda_plugin_getter get = NULL;
    int gpus = 0;
    if (argc < 2) {
        (void)fputs("usage: gpu-parity PLUGIN [CASE...]\n", stderr);
        return 2;
    }
    preload();
    void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        (void)printf("skipped: %s\n", dlerror());
        return TEST_EXIT_SKIPPED;
    }
    *(void **)&get = dlsym(handle, RANK_CUDA_PLUGIN_SYMBOL);
    if (get == NULL || get()->abi != RANK_CUDA_PLUGIN_ABI) {
        (void)fputs("the plugin is of another version\n", stderr);
        return 1;
    }
    plugin = get();
    if (plugin->count_gpus(&gpus, &error) != BASE_OK) {
        (void)printf("skipped: %s\n", error.message);
        return TEST_EXIT_SKIPPED;
    }
    (void)printf("%s, %d GPUs\n", plugin->version, gpus);
    use_tokenizer_beside(tokenizer);
    return run_all(argv + 2);
}
