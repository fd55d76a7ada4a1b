/* Loading the plugin: where libraries are looked for, and what is refused. The plugin and CUDA's
 * libraries are fakes beside this program. */
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/plugin.h"
#include "base/file.h"
#include "plugin/find.h"
#include "plugin/plugin.h"
#include "support.h"

/* The gate alone makes a pass, and the loader only asks that there is one. */
static const int gate;
static const rank_pass *const pass = (const rank_pass *)(const void *)&gate;

static void it_is_loaded_with_what_it_needs(void **state)
{
    base_error error;
    rank_plugin plugin;
    (void)state;
    assert_ok(rank_plugin_load(pass, FAKE_LIBRARIES, &plugin, &error), &error);
    assert_int_equal(plugin.gpu_count, 3);
    assert_string_equal(plugin.paths[RANK_LIBRARY_DRIVER], FAKE_LIBRARIES "/libcuda.so.1");
    assert_string_equal(plugin.paths[RANK_LIBRARY_CUBLASLT], FAKE_LIBRARIES "/libcublasLt.so.13");
    assert_int_equal(plugin.paths[RANK_LIBRARY_PLUGIN][0], '/');
    assert_int_equal(plugin.table->abi, RANK_CUDA_PLUGIN_ABI);
    assert_ok(rank_plugin_look(FAKE_LIBRARIES, &error), &error);
}

static void without_a_driver_there_is_one_line(void **state)
{
    base_error error;
    rank_plugin plugin;
    char path[BASE_PATH_BYTES];
    (void)state;
    if (rank_find_library("", "libcuda.so.1", path)) {
        print_message("a driver is here: %s\n", path);
        return;
    }
    static const char *const empty[] = {"", "/", "relative/directory", "."};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        assert_status(rank_plugin_load(pass, empty[i], &plugin, &error), BASE_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "no NVIDIA driver"));
        assert_null(strchr(error.message, '\n'));
        assert_null(plugin.table);
        assert_status(rank_plugin_look(empty[i], &error), BASE_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "no NVIDIA driver"));
    }
}

static void refused(const char *flaw, base_status expected, const char *text)
{
    base_error error;
    rank_plugin plugin;
    assert_int_equal(setenv("FAKE_PLUGIN", flaw, 1), 0);
    assert_status(rank_plugin_load(pass, FAKE_LIBRARIES, &plugin, &error), expected);
    assert_int_equal(unsetenv("FAKE_PLUGIN"), 0);
    assert_null(plugin.table);
    if (strstr(error.message, text) == NULL) {
        fail_msg("%s", error.message);
    }
}

static void another_version_is_refused(void **state)
{
    (void)state;
    refused("old", BASE_ERR_MISMATCH, "another version");
    refused("other-backend", BASE_ERR_MISMATCH, "another version");
}

static void a_driver_without_a_gpu_is_no_gpu(void **state)
{
    (void)state;
    refused("no-gpu", BASE_ERR_UNSUPPORTED, "no CUDA-capable device");
}

/* The host's own cache has the C library. */
static void the_linkers_cache_is_read(void **state)
{
    char path[BASE_PATH_BYTES];
    (void)state;
    assert_true(rank_find_library("", "libc.so.6", path));
    assert_int_equal(path[0], '/');
    assert_non_null(strstr(path, "libc.so.6"));
    assert_false(rank_find_library("", "libno-such-library.so.1", path));
    size_t size_bytes = 0;
    void *cache = test_file_read("/etc/ld.so.cache", &size_bytes);
    assert_non_null(rank_linker_cache_find(cache, size_bytes, "libc.so.6"));
    free(cache);
}

/* Every prefix, in memory of just that size, and every byte turned round. AddressSanitizer sees what
 * is read beyond. */
static void a_broken_cache_is_harmless(void **state)
{
    enum { BYTES = 48 + 24 + 32 };
    struct {
        char magic[20];
        uint32_t count, string_bytes, more[5];
        uint32_t flags, name, path, os_version;
        uint64_t hardware;
        char strings[32];
    } cache = {.magic = "glibc-ld.so.cache1.",
               .count = 1,
               .name = 72,
               .path = 80,
               .strings = "liba.so\0/lib/liba.so"};
    (void)state;
    cache.magic[19] = '1';
    assert_int_equal(sizeof cache, BYTES);
    assert_string_equal(rank_linker_cache_find(&cache, BYTES, "liba.so"), "/lib/liba.so");
    for (size_t i = 0; i < BYTES; i++) {
        char *copy = malloc(i > 0 ? i : 1);
        assert_non_null(copy);
        memcpy(copy, &cache, i);
        const char *found = rank_linker_cache_find(copy, i, "liba.so");
        assert_true(found == NULL || i > 72 + 20);
        free(copy);
        copy = malloc(BYTES);
        assert_non_null(copy);
        memcpy(copy, &cache, BYTES);
        copy[i] = (char)~copy[i];
        found = rank_linker_cache_find(copy, BYTES, "liba.so");
        assert_true(found == NULL || (found > copy && found < copy + BYTES));
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_loaded_with_what_it_needs),
        cmocka_unit_test(without_a_driver_there_is_one_line),
        cmocka_unit_test(another_version_is_refused),
        cmocka_unit_test(a_driver_without_a_gpu_is_no_gpu),
        cmocka_unit_test(the_linkers_cache_is_read),
        cmocka_unit_test(a_broken_cache_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
