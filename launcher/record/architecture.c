/* Reads from a checkpoint's config.json what kind of model it is. Called by record.c and by the last lines
 * of a run (cli/summary_lines.c). */
#include "record/architecture.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/json_file.h"
#include "base/path.h"
#include "proto/mode.h"

enum { CONFIG_BYTES_MAX = 1 << 20 };

static json_t *read_config(const char *checkpoint)
{
    char path[BASE_PATH_BYTES];
    json_t *config = NULL;
    return base_path_join(checkpoint, "config.json", path, NULL) == BASE_OK &&
                   base_json_read(path, CONFIG_BYTES_MAX, &config, NULL) == BASE_OK
               ? config
               : NULL;
}

/* "2 of 4 experts", if the model has some. */
static void describe_experts(const json_t *config, char *text, size_t size_bytes)
{
    const json_t *local = json_object_get(config, "num_local_experts");
    const json_t *experts = local != NULL ? local : json_object_get(config, "num_experts");
    if (experts != NULL) {
        (void)snprintf(text, size_bytes,
                       "%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " experts",
                       json_integer_value(json_object_get(config, "num_experts_per_tok")),
                       json_integer_value(experts));
    }
}

/* Where nothing is said, SmolLM3 and Gemma tie their embeddings, and others do not. */
static bool is_tied(const json_t *config, const char *type)
{
    const json_t *tied = json_object_get(config, "tie_word_embeddings");
    return tied != NULL ? json_is_true(tied)
                        : strcmp(type, "smollm3") == 0 || strcmp(type, "gemma3_text") == 0;
}

void launch_architecture_find(const proto_job_model *model, launch_architecture *found)
{
    json_t *config = model->checkpoint[0] != '\0' ? read_config(model->checkpoint) : NULL;
    const char *type = json_string_value(json_object_get(config, "model_type"));
    *found = (launch_architecture){.untied = false};
    if (model->experts > 0) {
        (void)snprintf(found->text, sizeof found->text,
                       "mixtral, pre-norm, RMS norm, rotary positions, %" PRId64 " of %" PRId64
                       " experts, tied embedding",
                       proto_job_experts_per_token(model), model->experts);
    } else if (model->checkpoint[0] == '\0' || (type != NULL && strcmp(type, "gpt2") == 0)) {
        (void)snprintf(found->text, sizeof found->text, "GPT-2, pre-norm, tied embedding");
    } else if (type != NULL) { /* Llama's kind */
        found->untied = !is_tied(config, type);
        char mlp[48];
        (void)snprintf(mlp, sizeof mlp, "%s",
                       strcmp(type, "gemma3_text") == 0 ? "GeGLU" : "SwiGLU");
        describe_experts(config, mlp, sizeof mlp);
        (void)snprintf(found->text, sizeof found->text,
                       "%.32s, pre-norm, RMS norm, rotary positions, %s, %s", type, mlp,
                       found->untied ? "an output of its own" : "tied embedding");
    }
    json_decref(config);
}

bool launch_architecture_copies(const launch_architecture *of, const proto_job *job)
{
    if (job->parallel.zero == PROTO_ZERO_PARAMETERS) {
        return false;
    }
    return proto_job_copies(job) > 1 || proto_job_tensor(job) > 1 ||
           !(proto_mode_get(job->job.mode)->pipelined && of->untied);
}
