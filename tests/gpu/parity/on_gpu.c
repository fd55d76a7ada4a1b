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

static void run_case(const char *backend, const parity_case *of)
{
    twin t = {.seed = 17, .guards = true};
    uint64_t bits = 0;
    twin_open(&t, find_backend(backend));
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
    {parity_rows_cases, {true, true}},      {parity_product_cases, {true, true, true}},
    {parity_attention_cases, {true, true}}, {parity_step_cases, {true, true}},
    {parity_bfloat16_cases, {false, true}}, {parity_model_cases, {true, true}},
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
