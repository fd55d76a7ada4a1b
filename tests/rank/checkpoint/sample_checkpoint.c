/* Writes a checkpoint, and what our model and tokenizer make of some sentences, for
 * tests/oracle/check_hf_directory.py: sample-checkpoint OUT TOKENIZER.json [MODEL_DIRECTORY].
 * Without MODEL_DIRECTORY the parameters are random and larger than an initialisation's, so that
 * every part of the model shows in its logits; with it, they are that checkpoint's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "rank/checkpoint.h"
#include "rank/tokenizer.h"

enum { TOKENS_MAX = 64, PATH_BYTES = 4096 };

static const char *const SENTENCES[] = {
    "he goed to school →",
    "i has eat → i have eaten",
    "she dont like apples → she doesn't like apples",
    " Ünïcode, \xf0\x9f\x98\x80 and  spaces\tand tabs",
};

/* {"text", "ids", "logits"}: one row of logits per token. */
static void print_rows(FILE *stream, const char *text, const int32_t *ids, int count,
                       const float *logits, int vocab_size)
{
    (void)fputs("{\"text\": \"", stream);
    for (; *text != '\0'; text++) {
        (void)fprintf(stream, *text == '\t' ? "\\t" : "%c", *text);
    }
    (void)fputs("\", \"ids\": [", stream);
    for (int i = 0; i < count; i++) {
        (void)fprintf(stream, "%s%d", i > 0 ? ", " : "", ids[i]);
    }
    (void)fputs("], \"logits\": [", stream);
    for (int i = 0; i < count * vocab_size; i++) {
        (void)fprintf(stream, "%s%.9g", i > 0 ? ", " : "", (double)logits[i]);
    }
    (void)fputs("]}\n", stream);
}

/* What a sentence runs through. */
typedef struct loaded {
    rank_model_config config;
    float *params;
    rank_model *model;
    rank_tokenizer *tokenizer;
} loaded;

static base_status run_sentence(const loaded *from, const char *text, FILE *stream,
                                base_error *reterr)
{
    const rank_model_config *config = &from->config;
    int32_t ids[TOKENS_MAX];
    int32_t rows[TOKENS_MAX];
    rank_ids encoded = {.at = ids, .capacity = TOKENS_MAX};
    const rank_hooks hooks = rank_hooks_flat(from->params);
    base_status status =
        rank_tokenizer_encode(from->tokenizer, text, strlen(text), &encoded, reterr);
    const size_t count = encoded.count;
    if (status != BASE_OK || count > TOKENS_MAX || (int)count > config->context) {
        return status != BASE_OK ? status
                                 : base_fail(reterr, BASE_ERR_LIMIT, "\"%s\" is too long", text);
    }
    for (size_t i = 0; i < count; i++) {
        rows[i] = (int32_t)i;
    }
    const int32_t starts[] = {0, (int32_t)count};
    const rank_batch batch = {
        .token_count = (int)count, .ids = ids, .segment_count = 1, .segment_start = starts};
    float *logits = calloc(count * (size_t)config->vocab_size, sizeof *logits);
    if (logits == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for logits");
    }
    status = rank_model_forward(from->model, &hooks, &batch,
                                &(rank_logits){rows, (int)count, logits}, NULL, reterr);
    if (status == BASE_OK) {
        print_rows(stream, text, ids, (int)count, logits, config->vocab_size);
    }
    free(logits);
    return status;
}

/* Parameters from directory, or random ones. */
static base_status get_params(const char *directory, rank_model_config *config, float **params,
                              base_error *reterr)
{
    char path[PATH_BYTES];
    base_status status = BASE_OK;
    if (directory != NULL) {
        status = rank_checkpoint_config(directory, config, reterr);
    }
    const size_t count = rank_model_param_count(config);
    *params = status == BASE_OK ? calloc(count, sizeof **params) : NULL;
    if (*params == NULL) {
        return status != BASE_OK ? status : base_fail(reterr, BASE_ERR_MEMORY, "no memory");
    }
    if (directory != NULL) {
        (void)snprintf(path, sizeof path, "%s/model.safetensors", directory);
        return rank_safetensors_read(path, config, *params, reterr);
    }
    rank_model_init(config, 35000, *params);
    for (size_t i = 0; i < count; i++) { /* biases and norms move too */
        const uint32_t scattered = ((uint32_t)i * 2654435761u) >> 16;
        (*params)[i] = (*params)[i] * 2 + 0.1F * ((float)scattered / 65536 - 0.5F);
    }
    return BASE_OK;
}

static base_status write_all(const char *out, const char *tokenizer_path, const char *directory,
                             base_error *reterr)
{
    char path[PATH_BYTES];
    rank_device device = {.backend = NULL};
    FILE *stream = NULL;
    loaded all = {.params = NULL};
    base_status status = rank_tokenizer_load(tokenizer_path, &all.tokenizer, reterr);
    if (status == BASE_OK) {
        all.config = (rank_model_config){.family = rank_family_default(),
                                         .vocab_size = rank_tokenizer_vocab_size(all.tokenizer),
                                         .width = 128,
                                         .layers = 2,
                                         .heads = 4,
                                         .context = 64};
        status = get_params(directory, &all.config, &all.params, reterr);
    }
    if (status == BASE_OK) {
        status = base_mkdirs(out, reterr);
    }
    if (status == BASE_OK) {
        status = rank_checkpoint_write(out,
                                       &(rank_checkpoint_about){.config = &all.config,
                                                                .tokenizer_path = tokenizer_path,
                                                                .end_id = all.config.vocab_size - 1,
                                                                .prompt_suffix = "",
                                                                .type = RANK_FLOAT32},
                                       all.params, reterr);
    }
    if (status == BASE_OK) {
        status = rank_device_open("cpu", &device, reterr);
    }
    if (status == BASE_OK) {
        status = rank_model_create(&(rank_model_options){.config = &all.config,
                                                         .device = &device,
                                                         .token_count_max = TOKENS_MAX,
                                                         .training = false},
                                   &all.model, reterr);
    }
    (void)snprintf(path, sizeof path, "%s/logits.jsonl", out);
    stream = status == BASE_OK ? fopen(path, "w") : NULL;
    for (size_t i = 0;
         stream != NULL && status == BASE_OK && i < sizeof SENTENCES / sizeof *SENTENCES; i++) {
        status = run_sentence(&all, SENTENCES[i], stream, reterr);
    }
    if (status == BASE_OK && (stream == NULL || fclose(stream) != 0)) {
        status = base_fail(reterr, BASE_ERR_IO, "cannot write %s", path);
    }
    rank_model_destroy(all.model);
    rank_device_close(&device);
    rank_tokenizer_destroy(all.tokenizer);
    free(all.params);
    return status;
}

int main(int argc, char **argv)
{
    base_error error;
    if (argc < 3 || argc > 4) {
        (void)fputs("usage: sample-checkpoint OUT TOKENIZER.json [MODEL_DIRECTORY]\n", stderr);
        return 2;
    }
    if (write_all(argv[1], argv[2], argc == 4 ? argv[3] : NULL, &error) != BASE_OK) {
        (void)fprintf(stderr, "sample-checkpoint: %s\n", error.message);
        return 1;
    }
    return 0;
}
