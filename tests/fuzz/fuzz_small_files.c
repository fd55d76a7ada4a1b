/* Any bytes are a small file of a job or refused. The first byte says which: training.json or
 * generation_config.json of a checkpoint, or prompts as plain text or as JSONL. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "directory.h"
#include "proto/limits.h"
#include "proto/prompts.h"
#include "rank/checkpoint.h"
#include "train/training_state.h"

enum { VOCAB_SIZE = 100 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static base_status read_state(const char *directory, base_error *error)
{
    rank_training_state state;
    uint32_t *positions = NULL;
    const base_status status = rank_training_state_read(directory, &state, &positions, error);
    BASE_ASSERT((status == BASE_OK) == (positions != NULL));
    if (status == BASE_OK) {
        BASE_ASSERT(state.course.slots > 0);
        BASE_ASSERT(rank_training_course_check(&state.course, &state.course, NULL) == BASE_OK);
        BASE_ASSERT(rank_training_local_check(&state.local, &state.local, NULL) == BASE_OK);
        BASE_ASSERT(state.local.ranks <= BASE_COLL_RANKS_MAX);
    }
    free(positions);
    return status;
}

static base_status read_generation(const char *directory, base_error *error)
{
    rank_generation_config config;
    const base_status status = rank_checkpoint_generation(directory, VOCAB_SIZE, &config, error);
    for (int i = 0; status == BASE_OK && i < config.stop_count; i++) {
        BASE_ASSERT(config.stops[i] >= 0 && config.stops[i] < VOCAB_SIZE);
    }
    BASE_ASSERT(status != BASE_OK ||
                memchr(config.prompt_suffix, '\0', sizeof config.prompt_suffix) != NULL);
    return status;
}

static base_status read_prompts(const char *path, base_error *error)
{
    proto_prompts prompts;
    const base_status status = proto_prompts_read(path, &prompts, error);
    if (status != BASE_OK) {
        return status;
    }
    BASE_ASSERT(prompts.count > 0);
    for (size_t i = 0; i < prompts.count; i++) {
        const size_t text_bytes = strlen(prompts.texts[i]);
        BASE_ASSERT(text_bytes > 0 && text_bytes <= PROTO_PROMPT_BYTES_MAX);
        BASE_ASSERT(base_utf8_valid(prompts.texts[i], text_bytes));
    }
    proto_prompts_fini(&prompts);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const char *const names[] = {"training.json", "generation_config.json", "prompts.txt",
                                        "prompts.jsonl"};
    enum { KINDS = sizeof names / sizeof names[0] };
    char path[FUZZ_PATH_BYTES];
    fuzz_directory directory;
    base_error error = {.message = ""};
    if (size_bytes == 0) {
        return 0;
    }
    const int kind = data[0] % KINDS;
    fuzz_directory_make(&directory);
    fuzz_directory_put(&directory, names[kind], data + 1, size_bytes - 1, path);
    const base_status status = kind == 0   ? read_state(directory.path, &error)
                               : kind == 1 ? read_generation(directory.path, &error)
                                           : read_prompts(path, &error);
    BASE_ASSERT((status == BASE_OK) == (error.message[0] == '\0'));
    fuzz_directory_remove(&directory);
    return 0;
}
