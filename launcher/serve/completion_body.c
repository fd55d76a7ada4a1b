/* Reads the bodies of POST /v1/completions and /v1/chat/completions. Called by routes.c. */
#include "serve/completion_body.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/other_fields.h"
#include "serve/request_key.h"
#include "serve/schema.h"
#include "serve/tools.h"

enum { COMPLETION_LOGPROBS_MAX = 5 }; /* as OpenAI limits them */

static base_status read_flag(const char *key, const json_t *value, bool *flag, base_error *reterr)
{
    *flag = json_is_true(value);
    return json_is_boolean(value)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "%s: must be true or false", key);
}

static base_status read_stream_options(const json_t *value, bool *include_usage, base_error *reterr)
{
    static const char *const others[] = {"include_obfuscation", "continuous_usage_stats"};
    const json_t *usage = json_object_get(value, "include_usage");
    size_t known = usage != NULL ? 1 : 0;
    bool fits = json_is_object(value);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const json_t *other = json_object_get(value, others[i]);
        known += other != NULL ? 1 : 0;
        fits = fits && (other == NULL || json_is_null(other) || json_is_false(other));
    }
    if (!fits || json_object_size(value) != known) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "stream_options: has include_usage, and nothing else, unless it is "
                         "include_obfuscation or continuous_usage_stats: false");
    }
    return usage != NULL && !json_is_null(usage)
               ? read_flag("stream_options", usage, include_usage, reterr)
               : BASE_OK;
}

/* Of a completion, how many of the best each token has beside itself; of a chat, whether it has any, and how many. */
static base_status read_logprobs(const char *key, const json_t *value, launch_completion_body *body,
                                 base_error *reterr)
{
    int64_t best = 0;
    if (body->chat && strcmp(key, "logprobs") == 0) {
        return read_flag(key, value, &body->logprobs, reterr);
    }
    const base_status status = launch_request_integer(
        key, value, 0, body->chat ? PROTO_LOGPROBS_MAX - 1 : COMPLETION_LOGPROBS_MAX, &best,
        reterr);
    if (status == BASE_OK) {
        body->logprobs = body->logprobs || !body->chat;
        body->logprobs_best = (int32_t)best;
    }
    return status;
}

/* Whether it belongs to the path that was asked for. */
static base_status check_input(const char *key, const launch_completion_body *body,
                               base_error *reterr)
{
    return body->chat == (strcmp(key, "messages") == 0)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           body->chat
                               ? "prompt: a chat has messages; /v1/completions takes a prompt"
                               : "messages: /v1/chat/completions takes them");
}

static base_status read_count(const char *key, const json_t *value, int *count, base_error *reterr)
{
    int64_t number = 0;
    const base_status status =
        launch_request_integer(key, value, 1, LAUNCH_SERVE_CHOICES_MAX, &number, reterr);
    *count = (int)number;
    return status;
}

/* The templates here know no efforts, but one of them a switch. */
static base_status read_effort(const json_t *value, launch_completion_body *body,
                               base_error *reterr)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh"};
    const char *effort = json_is_string(value) ? json_string_value(value) : "";
    for (size_t i = 0; i < sizeof efforts / sizeof efforts[0]; i++) {
        if (strcmp(effort, efforts[i]) == 0) {
            body->effort = i == 0 ? LAUNCH_EFFORT_NONE : LAUNCH_EFFORT_SOME;
            return BASE_OK;
        }
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     "reasoning_effort: must be none, minimal, low, medium, high or xhigh");
}

static base_status read_seed(const json_t *value, launch_completion_body *body, base_error *reterr)
{
    int64_t seed = 0;
    const base_status status =
        launch_request_integer("seed", value, INT64_MIN, INT64_MAX, &seed, reterr);
    body->request.seed = (uint64_t)seed;
    body->seeded = true;
    return status;
}

/* Fields that lines of standard input have, too. */
static bool is_sampling(const char *key)
{
    static const char *const keys[] = {"temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "presence_penalty",
                                       "frequency_penalty",
                                       "repetition_penalty",
                                       "logit_bias",
                                       "ignore_eos",
                                       "stop_token_ids"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(key, keys[i]) == 0) {
            return true;
        }
    }
    return false;
}

static base_status read_sampling(const char *key, const json_t *value, proto_request *request,
                                 base_error *reterr)
{
    const base_status status = launch_request_key(key, value, request, reterr);
    const bool cold =
        request->temperature > 0 && request->temperature < PROTO_TEMPERATURE_MIN; /* as 1e-8 */
    request->temperature = cold ? 0 : request->temperature;
    return status == BASE_OK ? proto_request_check_sampling(request, reterr) : status;
}

static base_status read_field(const char *key, const json_t *value, const char *model,
                              launch_completion_body *body, base_error *reterr)
{
    proto_request *request = &body->request;
    if (json_is_null(value)) {
        return BASE_OK; /* as if it were left out */
    }
    if (strcmp(key, "model") == 0) {
        return json_is_string(value) && strcmp(json_string_value(value), model) == 0
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_NOTFOUND, LAUNCH_NO_SUCH_MODEL, model);
    }
    if (strcmp(key, "prompt") == 0 || strcmp(key, "messages") == 0) {
        return check_input(key, body, reterr); /* it is read when all options are known */
    }
    if (strcmp(key, "n") == 0 || (!body->chat && strcmp(key, "best_of") == 0)) {
        return read_count(key, value, key[0] == 'n' ? &body->choices_each : &body->best_of, reterr);
    }
    if (strcmp(key, "max_tokens") == 0 ||
        (body->chat && strcmp(key, "max_completion_tokens") == 0)) {
        int64_t tokens = 0;
        const base_status status =
            launch_request_integer(key, value, body->chat, PROTO_NEW_TOKENS_MAX, &tokens, reterr);
        request->max_new_tokens = (int32_t)tokens;
        body->limited = true;
        return status;
    }
    if (body->chat && strcmp(key, "chat_template_kwargs") == 0) {
        body->switched = json_object_size(value) > 0;
        return launch_request_key(key, value, request, reterr);
    }
    if (body->chat && strcmp(key, "reasoning_effort") == 0) {
        return read_effort(value, body, reterr);
    }
    if (strcmp(key, "seed") == 0) { /* OpenAI's may be below 0 */
        return read_seed(value, body, reterr);
    }
    if (!body->chat && strcmp(key, "echo") == 0) {
        return read_flag(key, value, &request->echo, reterr);
    }
    if (strcmp(key, "stream") == 0) {
        return read_flag(key, value, &body->stream, reterr);
    }
    if (strcmp(key, "logprobs") == 0 || (body->chat && strcmp(key, "top_logprobs") == 0)) {
        return read_logprobs(key, value, body, reterr);
    }
    if (strcmp(key, "stop") == 0) {
        return launch_stop_texts_read(value, &body->stops, reterr);
    }
    if (strcmp(key, PROTO_FORMAT_KEY) == 0) {
        return launch_schema_read(value, body->grammar, &body->grammar_count, reterr);
    }
    if (strcmp(key, "stream_options") == 0) {
        return read_stream_options(value, &body->include_usage, reterr);
    }
    if (body->chat &&
        (strcmp(key, LAUNCH_TOOLS_KEY) == 0 || strcmp(key, LAUNCH_TOOL_CHOICE_KEY) == 0)) {
        return BASE_OK; /* read_tools reads both together */
    }
    if (is_sampling(key)) {
        return read_sampling(key, value, request, reterr);
    }
    return launch_other_field(key, value, body->chat, reterr);
}

/* Refuses a text that is no JSON object. Where it is one but for an integer of more than 63 bits, the field is named. */
static base_status refuse_text(const char *text, size_t text_bytes, const json_error_t *flaw,
                               char field[LAUNCH_FIELD_BYTES], base_error *reterr)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_t *object =
        json_error_code(flaw) == json_error_numeric_overflow
            ? json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL)
            : NULL;
    json_object_foreach(object, key, value)
    {
        if (fabs(json_number_value(value)) >= 0x1p63) {
            (void)snprintf(field, LAUNCH_FIELD_BYTES, "%.48s", key);
        }
    }
    json_decref(object);
    return field[0] != '\0'
               ? base_fail(reterr, BASE_ERR_INVALID, "%s: the number is too large", field)
               : base_fail(reterr, BASE_ERR_INVALID, "the body is not a JSON object: %.100s",
                           flaw->text);
}

/* A text, or tokens. */
static base_status read_prompt(const json_t *value, proto_request *request, base_error *reterr)
{
    return json_is_array(value) ? launch_request_tokens("prompt", value, request, reterr)
                                : launch_request_key("prompt", value, request, reterr);
}

static base_status add_tools(const launch_tools *tools, proto_request *request, base_error *reterr)
{
    if (tools->list == NULL) {
        return BASE_OK;
    }
    char *text = json_dumps(tools->list, JSON_COMPACT);
    const base_status status = text != NULL
                                   ? proto_request_add_json(request, PROTO_CHAT_TOOLS, text, reterr)
                                   : base_fail(reterr, BASE_ERR_MEMORY, "no memory for tools");
    free(text);
    return status;
}

/* Adds a request with the prompt, or the messages. */
static base_status add_request(const char *key, const json_t *value, launch_completion_body *body,
                               base_error *reterr)
{
    proto_request *request = &body->request;
    request->id = 1; /* the server has yet to number it */
    request->text_bytes = 0;
    request->token_count = 0;
    request->grammar_count = 0;
    base_status status = add_tools(&body->tools, request, reterr);
    if (status == BASE_OK) {
        status = body->chat ? launch_request_key(key, value, request, reterr)
                            : read_prompt(value, request, reterr);
    }
    if (status == BASE_OK) {
        status = proto_request_check(request, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    proto_request_set_grammar(request, body->grammar, body->grammar_count);
    const size_t bytes = proto_request_bytes(request);
    proto_request *copy = malloc(bytes);
    if (copy == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a prompt");
    }
    memcpy(copy, request, bytes);
    body->requests[body->prompt_count++] = copy;
    return BASE_OK;
}

/* A prompt is a text, or tokens, or a list of these. */
static base_status read_input(const char *key, const json_t *value, launch_completion_body *body,
                              base_error *reterr)
{
    size_t index = 0;
    const json_t *one = NULL;
    const json_t *first = json_array_get(value, 0);
    if (value == NULL || json_is_null(value)) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s: there is none", key);
    }
    const size_t prompts =
        !body->chat && first != NULL && !json_is_integer(first) ? json_array_size(value) : 1;
    if (prompts * (size_t)body->choices_each > LAUNCH_SERVE_CHOICES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "%s: with n, of more than %d texts", key,
                         LAUNCH_SERVE_CHOICES_MAX);
    }
    if (body->chat || first == NULL || json_is_integer(first)) {
        return add_request(key, value, body, reterr);
    }
    json_array_foreach(value, index, one)
    {
        const base_status status = add_request(key, one, body, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
}

/* A null counts as left out. */
static const json_t *given(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* The tools of a chat, and the grammar of a call, if the answer must be one. */
static base_status read_tools(const json_t *object, launch_completion_body *body,
                              const char **field, base_error *reterr)
{
    if (!body->chat) {
        return BASE_OK;
    }
    base_status status =
        launch_tools_read(given(object, LAUNCH_TOOLS_KEY), given(object, LAUNCH_TOOL_CHOICE_KEY),
                          &body->tools, field, reterr);
    if (status != BASE_OK || body->tools.schema == NULL) {
        return status;
    }
    if (body->grammar_count > 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         LAUNCH_TOOL_CHOICE_KEY
                         ": an answer that must be a call has no " PROTO_FORMAT_KEY);
    }
    *field = LAUNCH_TOOLS_KEY;
    status = launch_schema_compile(body->tools.schema, body->grammar, &body->grammar_count, reterr);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, LAUNCH_TOOLS_KEY);
}

/* Fields that go together. *field: that which is wrong. */
static base_status check_fields(const launch_completion_body *body, const char **field,
                                base_error *reterr)
{
    if (body->include_usage && !body->stream) {
        *field = "stream_options";
        return base_fail(reterr, BASE_ERR_INVALID, "stream_options: goes with stream");
    }
    if (body->request.max_new_tokens == 0 && !body->request.echo) {
        *field = "max_tokens";
        return base_fail(reterr, BASE_ERR_INVALID,
                         "max_tokens: must be an integer from 1 to %d, or 0 with echo",
                         PROTO_NEW_TOKENS_MAX);
    }
    if (body->logprobs_best > 0 && !body->logprobs) {
        *field = "top_logprobs";
        return base_fail(reterr, BASE_ERR_INVALID, "top_logprobs: goes with logprobs: true");
    }
    if (body->best_of != 0 && body->best_of != body->choices_each) {
        *field = "best_of";
        return base_fail(reterr, BASE_ERR_INVALID,
                         "best_of: must be n, which is %d: no more texts are drawn than are sent",
                         body->choices_each);
    }
    return BASE_OK;
}

/* Whether the answer fits into one piece even where it is as long as the request says. Where it says nothing the
 * answer may be short: events.c counts. */
static base_status check_size(const launch_completion_body *body, const char **field,
                              base_error *reterr)
{
    const int texts = body->prompt_count * body->choices_each;
    const int64_t logprobs =
        (int64_t)texts * body->request.max_new_tokens * body->request.logprob_count;
    if (body->stream || !body->limited || logprobs <= LAUNCH_SERVE_LOGPROBS_MAX) {
        return BASE_OK;
    }
    *field = "max_tokens";
    return base_fail(reterr, BASE_ERR_LIMIT,
                     "max_tokens: %d of %d texts may have more than %d log-probabilities%s",
                     body->request.max_new_tokens, texts, LAUNCH_SERVE_LOGPROBS_MAX,
                     LAUNCH_ASK_FOR_LESS);
}

/* Reads all members of the object. */
static base_status read_object(const json_t *object, const char *model,
                               launch_completion_body *body, const char **field, base_error *reterr)
{
    const char *input = body->chat ? "messages" : "prompt";
    json_t *value = NULL;
    base_status status = BASE_OK;
    json_object_foreach((json_t *)(uintptr_t)object, *field, value)
    {
        status = read_field(*field, value, model, body, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    status = check_fields(body, field, reterr);
    body->silent = body->request.max_new_tokens == 0;
    body->request.max_new_tokens += body->silent ? 1 : 0;
    if (body->effort != LAUNCH_EFFORT_UNSAID && !body->switched) {
        body->request.no_thinking = body->effort == LAUNCH_EFFORT_NONE;
    }
    if (status == BASE_OK) {
        status = read_tools(object, body, field, reterr);
    }
    if (status == BASE_OK) {
        *field = input;
        body->request.logprob_count = body->logprobs ? 1 + body->logprobs_best : 0;
        status = read_input(input, json_object_get(object, input), body, reterr);
    }
    return status == BASE_OK ? check_size(body, field, reterr) : status;
}

base_status launch_completion_body_read(const char *text, size_t text_bytes, const char *model,
                                        launch_completion_body *body,
                                        char field[LAUNCH_FIELD_BYTES], base_error *reterr)
{
    json_error_t json_error;
    const char *wrong = "";
    field[0] = '\0';
    body->choices_each = 1;
    if (body->chat) { /* clients expect the whole answer where they do not say how long */
        body->request.max_new_tokens = PROTO_NEW_TOKENS_MAX;
    }
    json_t *object = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &json_error);
    if (object == NULL) {
        return refuse_text(text, text_bytes, &json_error, field, reterr);
    }
    if (!json_is_object(object)) {
        json_decref(object);
        return base_fail(reterr, BASE_ERR_INVALID, "the body is not a JSON object");
    }
    const base_status status = read_object(object, model, body, &wrong, reterr);
    if (status != BASE_OK) {
        (void)snprintf(field, LAUNCH_FIELD_BYTES, "%.48s", wrong);
    }
    json_decref(object);
    return status;
}

void launch_completion_body_fini(launch_completion_body *body)
{
    for (int i = 0; i < body->prompt_count; i++) {
        free(body->requests[i]);
        body->requests[i] = NULL;
    }
    body->prompt_count = 0;
    launch_tools_fini(&body->tools);
}
