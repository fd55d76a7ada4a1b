/* Reads what a checkpoint says of chats. Called by generate/mode.c. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "checkpoint/hf_json.h"
#include "rank/checkpoint.h"

enum { TEMPLATE_BYTES_MAX = 1 << 20 };

/* A text, or an object with its content in it. */
static const char *name_of(const json_t *token)
{
    const char *name =
        json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
    return name != NULL ? name : "";
}

/* A text, or a list of several with names. */
static const char *default_of(const json_t *said)
{
    size_t index = 0;
    const json_t *one = NULL;
    json_array_foreach(said, index, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name != NULL && strcmp(name, "default") == 0) {
            return json_string_value(json_object_get(one, "template"));
        }
    }
    return json_string_value(said);
}

static base_status take_token(const json_t *config, const char *key,
                              char token[RANK_CHAT_TOKEN_NAME_BYTES], base_error *reterr)
{
    const char *name = name_of(json_object_get(config, key));
    if (strlen(name) >= RANK_CHAT_TOKEN_NAME_BYTES) {
        return base_fail(reterr, BASE_ERR_INVALID, "tokenizer_config.json: %s is too long", key);
    }
    memcpy(token, name, strlen(name) + 1);
    return BASE_OK;
}

static base_status take_config(const json_t *config, rank_chat_template *template,
                               base_error *reterr)
{
    const char *text = default_of(json_object_get(config, "chat_template"));
    base_status status = take_token(config, "bos_token", template->begin_token, reterr);
    status =
        status == BASE_OK ? take_token(config, "eos_token", template->end_token, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    template->text = text != NULL ? strdup(text) : NULL;
    return text == NULL || template->text != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for a chat template");
}

/* Takes the file's text in place of what there is. */
static base_status take_file(const char *directory, rank_chat_template *template,
                             base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    void *data = NULL;
    size_t size_bytes = 0;
    base_status status = base_path_join(directory, "chat_template.jinja", path, reterr);
    if (status == BASE_OK) {
        status = base_file_read_regular(path, TEMPLATE_BYTES_MAX, &data, &size_bytes, reterr);
    }
    if (status != BASE_OK) {
        return status == BASE_ERR_NOTFOUND ? BASE_OK : status;
    }
    free(template->text);
    template->text = data; /* a NUL is behind it */
    return BASE_OK;
}

base_status rank_checkpoint_chat_template(const char *directory, rank_chat_template *template,
                                          base_error *reterr)
{
    json_t *config = NULL;
    *template = (rank_chat_template){.text = NULL};
    /* transformers writes 1e30, as an integer, where a tokenizer has no model_max_length */
    base_status status =
        rank_hf_json_read_reals(directory, "tokenizer_config.json", &config, reterr);
    if (status == BASE_OK) {
        status = take_config(config, template, reterr);
    } else if (status == BASE_ERR_NOTFOUND) {
        status = BASE_OK;
    }
    json_decref(config);
    if (status == BASE_OK) {
        status = take_file(directory, template, reterr);
    }
    if (status != BASE_OK) {
        free(template->text);
        template->text = NULL;
    }
    return status;
}
