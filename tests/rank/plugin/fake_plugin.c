/* A plugin without CUDA, for test_plugin.c. FAKE_PLUGIN in the environment says what is wrong with
 * it. */
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/plugin.h"

static base_status count_gpus(int *count, base_error *reterr)
{
    const char *flaw = getenv("FAKE_PLUGIN");
    if (flaw != NULL && strcmp(flaw, "no-gpu") == 0) {
        reterr->status = BASE_ERR_UNSUPPORTED;
        strcpy(reterr->message, "no CUDA-capable device is detected");
        return BASE_ERR_UNSUPPORTED;
    }
    *count = 3;
    return BASE_OK;
}

__attribute__((visibility("default"))) const rank_cuda_plugin *rank_cuda_plugin_get(void)
{
    static rank_cuda_plugin plugin;
    const char *flaw = getenv("FAKE_PLUGIN");
    plugin = (rank_cuda_plugin){.abi = RANK_CUDA_PLUGIN_ABI,
                                .size_bytes = sizeof plugin,
                                .backend_abi = RANK_BACKEND_ABI,
                                .count_gpus = count_gpus};
    if (flaw != NULL && strcmp(flaw, "old") == 0) {
        plugin.abi--;
    }
    if (flaw != NULL && strcmp(flaw, "other-backend") == 0) {
        plugin.backend_abi++;
    }
    return &plugin;
}
