/* Any bytes are a config.json of each family or refused; one that is read describes a model whose
 * tensors fill its parameters, and is the same after it is written and read again. */
#include <jansson.h>
#include <string.h>

#include "base/assert.h"
#include "model/family.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check_tensors(const rank_model_config *config)
{
    const int count = rank_model_tensor_count(config);
    const size_t params = rank_model_param_count(config);
    size_t end = 0;
    BASE_ASSERT(rank_model_config_check(config, NULL) == BASE_OK);
    for (int i = 0; i < count; i++) {
        rank_tensor tensor;
        rank_model_tensor(config, i, &tensor);
        BASE_ASSERT(tensor.name[0] != '\0');
        BASE_ASSERT(tensor.offset == end);
        end += tensor.count;
    }
    BASE_ASSERT(end == params);
}

static void configure(const rank_family *family, const json_t *object)
{
    rank_model_config config = {.family = NULL};
    rank_model_config again = {.family = NULL};
    base_error error = {.message = ""};
    if (family->configure(object, &config, &error) != BASE_OK) {
        BASE_ASSERT(error.message[0] != '\0');
        return;
    }
    BASE_ASSERT(config.family == family);
    check_tensors(&config);
    json_t *written = family->describe(&config);
    BASE_ASSERT(written != NULL);
    BASE_ASSERT(family->configure(written, &again, &error) == BASE_OK);
    BASE_ASSERT(memcmp(config.settings, again.settings, sizeof config.settings) == 0);
    BASE_ASSERT(memcmp(config.rope_factors, again.rope_factors, sizeof config.rope_factors) == 0);
    BASE_ASSERT(config.vocab_size == again.vocab_size && config.width == again.width);
    json_decref(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const char *const types[] = {"gpt2",    "llama",     "mistral", "qwen2", "qwen3",
                                        "mixtral", "qwen3_moe", "smollm3", "phi3",  "gemma3_text"};
    json_t *object = json_loadb((const char *)data, size_bytes, JSON_REJECT_DUPLICATES, NULL);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const rank_family *family = rank_family_find(types[i]);
        BASE_ASSERT(family != NULL);
        configure(family, object);
    }
    json_decref(object);
    return 0;
}
