/* Reads prompts from a file. The launcher checks them with it, and the ranks answer them. */
#include "proto/prompts.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"
#include "base/utf8.h"
#include "proto/limits.h"

/* Keeps a copy of a prompt. */
static base_status keep(const json_t *prompt, char **text, base_error *reterr)
{
    if (json_string_length(prompt) > PROTO_PROMPT_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "longer than %d bytes", PROTO_PROMPT_BYTES_MAX);
    }
    if (strlen(json_string_value(prompt)) != json_string_length(prompt)) {
        return base_fail(reterr, BASE_ERR_INVALID, "a NUL in a prompt");
    }
    *text = strdup(json_string_value(prompt));
    return *text != NULL ? BASE_OK : base_fail(reterr, BASE_ERR_MEMORY, "no memory");
}

static base_status read_plain(const char *line, size_t line_bytes, char **text, base_error *reterr)
{
    json_t *prompt = json_stringn(line, line_bytes); /* NULL unless it is UTF-8 */
    const base_status status = prompt != NULL ? keep(prompt, text, reterr)
                                              : base_fail(reterr, BASE_ERR_INVALID, "not UTF-8");
    json_decref(prompt);
    return status;
}

/* What a request of `--prompts -` may also have would be ignored here. Other fields are the file's own. */
static base_status check_fields(json_t *object, base_error *reterr)
{
    static const char *const of_requests[] = {"prompt_token_ids",
                                              "messages",
                                              "max_new_tokens",
                                              "temperature",
                                              "top_k",
                                              "top_p",
                                              "min_p",
                                              "presence_penalty",
                                              "frequency_penalty",
                                              "repetition_penalty",
                                              "logit_bias",
                                              "logprobs",
                                              "chat_template_kwargs",
                                              "seed",
                                              "ignore_eos",
                                              "stop_token_ids",
                                              "cancel"};
    for (size_t i = 0; i < sizeof of_requests / sizeof *of_requests; i++) {
        if (json_object_get(object, of_requests[i]) != NULL) {
            return base_fail(
                reterr, BASE_ERR_INVALID,
                "\"%s\" goes with requests, which --prompts - reads from standard input",
                of_requests[i]);
        }
    }
    return BASE_OK;
}

static base_status read_json(const char *line, size_t line_bytes, char **text, base_error *reterr)
{
    json_error_t json_error;
    json_t *object = json_loadb(line, line_bytes, JSON_REJECT_DUPLICATES, &json_error);
    const json_t *prompt = json_object_get(object, "prompt");
    base_status status = BASE_OK;
    if (object == NULL) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s", json_error.text);
    } else if (json_string_length(prompt) == 0) { /* 0 also if it is not a string */
        status = base_fail(reterr, BASE_ERR_INVALID, "no \"prompt\" with a text in it");
    } else {
        status = check_fields(object, reterr);
        status = status == BASE_OK ? keep(prompt, text, reterr) : status;
    }
    json_decref(object);
    return status;
}

static base_status read_lines(const char *at, const char *end, bool json, proto_prompts *prompts,
                              base_error *reterr)
{
    for (size_t number = 1; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = newline != NULL ? newline : end;
        size_t line_bytes = (size_t)(line_end - at);
        line_bytes -= line_bytes > 0 && at[line_bytes - 1] == '\r' ? 1 : 0;
        if (line_bytes > 0 && prompts->count == PROTO_PROMPTS_MAX) {
            return base_fail(reterr, BASE_ERR_LIMIT, "more than %d prompts", PROTO_PROMPTS_MAX);
        }
        if (line_bytes > 0) {
            char **text = &prompts->texts[prompts->count];
            const base_status status = json ? read_json(at, line_bytes, text, reterr)
                                            : read_plain(at, line_bytes, text, reterr);
            if (status != BASE_OK) {
                return base_error_prepend(reterr, status, "line %zu", number);
            }
            prompts->count++;
        }
        at = line_end + 1;
    }
    return prompts->count > 0 ? BASE_OK : base_fail(reterr, BASE_ERR_INVALID, "no prompts in it");
}

base_status proto_prompts_read(const char *path, proto_prompts *prompts, base_error *reterr)
{
    void *data = NULL;
    size_t size_bytes = 0;
    *prompts = (proto_prompts){.count = 0};
    base_status status =
        base_file_read_regular(path, PROTO_PROMPTS_FILE_BYTES_MAX, &data, &size_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const bool json = base_path_has_json_lines(path);
    const char *text = (const char *)data + base_utf8_mark(data, size_bytes);
    const char *end = (const char *)data + size_bytes;
    prompts->texts = calloc(PROTO_PROMPTS_MAX, sizeof *prompts->texts);
    status = prompts->texts != NULL ? read_lines(text, end, json, prompts, reterr)
                                    : base_fail(reterr, BASE_ERR_MEMORY, "no memory for prompts");
    free(data);
    if (status != BASE_OK) {
        proto_prompts_fini(prompts);
        return base_error_prepend(reterr, status, "%s", path);
    }
    return BASE_OK;
}

void proto_prompts_fini(proto_prompts *prompts)
{
    for (size_t i = 0; prompts->texts != NULL && i < prompts->count; i++) {
        free(prompts->texts[i]);
    }
    free(prompts->texts);
    *prompts = (proto_prompts){.count = 0};
}
