/* Parses a line of requests. Called by feed.c. */
#include "cli/prompt_line.h"

#include <jansson.h>

#include "serve/request_key.h"

static base_status read_cancel(const json_t *object, proto_request *request, base_error *reterr)
{
    int64_t id = 0;
    if (json_object_size(object) != 1) {
        return base_fail(reterr, BASE_ERR_INVALID, "\"cancel\" stands alone");
    }
    const base_status status = launch_request_integer("cancel", json_object_get(object, "cancel"),
                                                      1, INT64_MAX, &id, reterr);
    request->id = (uint64_t)id;
    return status;
}

static base_status read_object(json_t *object, proto_request *request, launch_line_kind *kind,
                               base_error *reterr)
{
    const char *key = NULL;
    json_t *value = NULL;
    base_status status = BASE_OK;
    if (json_object_get(object, "cancel") != NULL) {
        *kind = LAUNCH_LINE_CANCEL;
        return read_cancel(object, request, reterr);
    }
    static const char *const prompts[] = {"prompt", "prompt_token_ids", "messages"};
    int given = 0;
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++) {
        given += json_object_get(object, prompts[i]) != NULL ? 1 : 0;
    }
    if (given != 1) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "a request has a \"prompt\", or else \"prompt_token_ids\" or \"messages\"");
    }
    json_object_foreach(object, key, value)
    {
        status = launch_request_key(key, value, request, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return proto_request_check(request, reterr);
}

base_status launch_prompt_line(const char *line, size_t line_bytes, proto_request *request,
                               launch_line_kind *kind, base_error *reterr)
{
    json_error_t json_error;
    line_bytes -= line_bytes > 0 && line[line_bytes - 1] == '\r' ? 1 : 0;
    *kind = line_bytes > 0 ? LAUNCH_LINE_REQUEST : LAUNCH_LINE_EMPTY;
    if (line_bytes == 0) {
        return BASE_OK;
    }
    if (line[0] != '{') {
        const base_status status = launch_request_text(line, line_bytes, request, reterr);
        return status == BASE_OK ? proto_request_check(request, reterr) : status;
    }
    json_t *object = json_loadb(line, line_bytes, JSON_REJECT_DUPLICATES, &json_error);
    const base_status status = object != NULL ? read_object(object, request, kind, reterr)
                                              : base_fail(reterr, BASE_ERR_INVALID,
                                                          "not a JSON object: %s", json_error.text);
    json_decref(object);
    return status;
}
