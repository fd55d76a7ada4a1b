/* Any bytes are a checkpoint's weights or refused, by both readers alike: the one that takes all of
 * a file, and the one of ranks that take their own part. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "checkpoint/shards.h"
#include "model/gpt2/gpt2.h"
#include "rank/checkpoint.h"

enum { RANKS = 2, FLOATS_MAX = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static const rank_model_config config = {
    .family = &rank_gpt2, .vocab_size = 6, .width = 4, .layers = 1, .heads = 2, .context = 3};

static bool load(const rank_device *device, const char *path, int rank, int ranks, size_t *elements)
{
    rank_shards *shards = NULL;
    base_error error = {.message = ""};
    const int32_t width = rank_tp_leaf_width(config.vocab_size);
    const int first = rank_tp_first_leaf(ranks, rank);
    const rank_tp tp = {.rank = rank,
                        .ranks = ranks,
                        .vocab_first = first * width,
                        .vocab_count = (rank_tp_first_leaf(ranks, rank + 1) - first) * width};
    const base_status status = rank_shards_load(
        &(rank_shards_options){
            .config = &config, .device = device, .tp = &tp, .type = RANK_FLOAT32},
        path, &shards, &error);
    BASE_ASSERT((status == BASE_OK) == (shards != NULL));
    BASE_ASSERT(status == BASE_OK || error.message[0] != '\0');
    *elements = shards != NULL ? rank_shards_elements(shards) : 0;
    rank_shards_destroy(shards);
    return status == BASE_OK;
}

static void compare(const rank_device *device, const char *path)
{
    static float params[FLOATS_MAX];
    const size_t count = rank_model_param_count(&config);
    size_t alone = 0;
    BASE_ASSERT(count <= FLOATS_MAX);
    const bool good = rank_safetensors_read(path, &config, params, NULL) == BASE_OK;
    BASE_ASSERT(load(device, path, 0, 1, &alone) == good);
    BASE_ASSERT(alone == (good ? count : 0));
    bool all = true; /* a NaN is only in one rank's part */
    for (int rank = 0; rank < RANKS; rank++) {
        size_t part = 0;
        all = load(device, path, rank, RANKS, &part) && all;
        BASE_ASSERT(!good || part <= alone);
    }
    BASE_ASSERT(all == good);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static rank_device device;
    char path[64];
    if (device.backend == NULL) {
        BASE_ASSERT(rank_device_open("cpu", &device, NULL) == BASE_OK);
    }
    const int fd = memfd_create("weights", MFD_CLOEXEC);
    BASE_ASSERT(fd >= 0);
    BASE_ASSERT(write(fd, data, size_bytes) == (ssize_t)size_bytes);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    compare(&device, path);
    (void)close(fd);
    return 0;
}
