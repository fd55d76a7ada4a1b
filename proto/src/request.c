/* Checks requests, and turns them into messages and back. Called by envelope.c and the launcher, and
 * by the control thread of rank 0 (proto/client). */
#include "proto/request.h"

#include <control.pb-c.h>
#include <string.h>

#include "base/utf8.h"
#include "proto/job.h"

static size_t prompt_bytes(const proto_request *request)
{
    return request->token_count > 0 ? request->token_count * sizeof(int32_t)
                                    : (size_t)request->text_bytes + 1;
}

static size_t grammar_offset(const proto_request *request)
{
    const size_t each = sizeof(proto_grammar_step);
    return offsetof(proto_request, prompt) + (prompt_bytes(request) + each - 1) / each * each;
}

size_t proto_request_bytes(const proto_request *request)
{
    return request->grammar_count > 0
               ? grammar_offset(request) + request->grammar_count * sizeof(proto_grammar_step)
               : offsetof(proto_request, prompt) + prompt_bytes(request);
}

const proto_grammar_step *proto_request_grammar(const proto_request *request)
{
    return (const void *)((const uint8_t *)request + grammar_offset(request));
}

void proto_request_set_grammar(proto_request *request, const proto_grammar_step *steps,
                               uint32_t count)
{
    const size_t used = offsetof(proto_request, prompt) + prompt_bytes(request);
    uint8_t *to = (uint8_t *)request + used;
    request->grammar_count = count;
    memset(to, 0, grammar_offset(request) - used);
    memcpy((uint8_t *)request + grammar_offset(request), steps, count * sizeof *steps);
}

static base_status check_range(const char *name, double value, double least, double most,
                               base_error *reterr)
{
    return value >= least && value <= most /* false of NaN */
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "%s %g: must be %g to %g", name, value, least,
                           most);
}

/* The penalties and the biases. */
static base_status check_adjustment(const proto_request *request, base_error *reterr)
{
    base_status status = check_range("presence_penalty", request->presence_penalty,
                                     -PROTO_PENALTY_MAX, PROTO_PENALTY_MAX, reterr);
    if (status == BASE_OK) {
        status = check_range("frequency_penalty", request->frequency_penalty, -PROTO_PENALTY_MAX,
                             PROTO_PENALTY_MAX, reterr);
    }
    if (status == BASE_OK) {
        status = check_range("repetition_penalty", request->repetition_penalty,
                             PROTO_REPETITION_MIN, PROTO_REPETITION_MAX, reterr);
    }
    if (status == BASE_OK &&
        (request->bias_count < 0 || request->bias_count > PROTO_LOGIT_BIASES_MAX)) {
        return base_fail(reterr, BASE_ERR_INVALID, "logit_bias: of more than %d tokens",
                         PROTO_LOGIT_BIASES_MAX);
    }
    for (int32_t i = 0; status == BASE_OK && i < request->bias_count; i++) {
        status = check_range("logit_bias", (double)request->biases[i], -PROTO_LOGIT_BIAS_MAX,
                             PROTO_LOGIT_BIAS_MAX, reterr);
    }
    return status;
}

base_status proto_request_check_sampling(const proto_request *request, base_error *reterr)
{
    if (!(request->temperature == 0.0 || (request->temperature >= PROTO_TEMPERATURE_MIN &&
                                          request->temperature <= PROTO_TEMPERATURE_MAX))) {
        return base_fail(reterr, BASE_ERR_INVALID, "temperature %g: must be 0 or %g to %g",
                         request->temperature, PROTO_TEMPERATURE_MIN, PROTO_TEMPERATURE_MAX);
    }
    if (!(request->top_p > 0 && request->top_p <= 1)) {
        return base_fail(reterr, BASE_ERR_INVALID, "top_p %g: must be above 0, and at most 1",
                         request->top_p);
    }
    if (request->top_k < 0 || request->top_k > PROTO_TOP_K_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "top_k %d: must be 0 to %d", request->top_k,
                         PROTO_TOP_K_MAX);
    }
    if (!(request->min_p >= 0 && request->min_p <= 1)) {
        return base_fail(reterr, BASE_ERR_INVALID, "min_p %g: must be 0 to 1", request->min_p);
    }
    return check_adjustment(request, reterr);
}

static bool is_role(const char *text)
{
    return strcmp(text, "system") == 0 || strcmp(text, "user") == 0 ||
           strcmp(text, "assistant") == 0;
}

static bool is_json(const char *role)
{
    return strcmp(role, PROTO_CHAT_MESSAGE) == 0 || strcmp(role, PROTO_CHAT_TOOLS) == 0;
}

_Static_assert((int)PROTO_PROMPT_BYTES_MAX <
                   (int)PROTO_LAUNCHER_MESSAGE_BYTES_MAX - 10 * (int)PROTO_CHAT_TEXTS_MAX,
               "a message holds the longest chat, with a head for each text");
_Static_assert(3 * (int)PROTO_PROMPT_TOKENS_MAX < (int)PROTO_LAUNCHER_MESSAGE_BYTES_MAX,
               "and the longest prompt of tokens, 3 bytes each");
_Static_assert((3 + (int)sizeof(float)) * (int)PROTO_LOGIT_BIASES_MAX <
                   (int)PROTO_LAUNCHER_MESSAGE_BYTES_MAX - (int)PROTO_PROMPT_BYTES_MAX -
                       10 * (int)PROTO_CHAT_TEXTS_MAX - 1024,
               "and the most biases beside the longest prompt");
_Static_assert((int)PROTO_GRAMMAR_STEPS_MAX *(int)sizeof(proto_grammar_step) + 12 * 1024 +
                       (int)PROTO_PROMPT_BYTES_MAX <=
                   (int)PROTO_LAUNCHER_MESSAGE_BYTES_MAX,
               "and the largest grammar");

/* Whether the text is as many roles and contents as there should be, or one text. */
static bool is_whole(const proto_request *request)
{
    const char *at = request->prompt.text;
    const char *end = at + request->text_bytes + 1;
    const uint32_t texts = request->message_count > 0 ? 2 * request->message_count : 1;
    for (uint32_t i = 0; i < texts; i++) {
        const char *nul = memchr(at, '\0', (size_t)(end - at));
        if (nul == NULL ||
            (request->message_count > 0 && i % 2 == 0 && !is_role(at) && !is_json(at))) {
            return false;
        }
        at = nul + 1;
    }
    return at == end && base_utf8_valid(request->prompt.text, request->text_bytes);
}

static base_status check_prompt(const proto_request *request, base_error *reterr)
{
    if (request->text_bytes > PROTO_PROMPT_BYTES_MAX ||
        request->token_count > PROTO_PROMPT_TOKENS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a prompt of more than %d bytes or %d tokens",
                         PROTO_PROMPT_BYTES_MAX, PROTO_PROMPT_TOKENS_MAX);
    }
    if (request->text_bytes > 0 && request->token_count > 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "a prompt as text and as tokens");
    }
    if (request->message_count > PROTO_CHAT_MESSAGES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a chat of more than %d messages",
                         PROTO_CHAT_MESSAGES_MAX);
    }
    for (uint32_t i = 0; i < request->token_count; i++) {
        if (request->prompt.tokens[i] < 0 || request->prompt.tokens[i] >= PROTO_VOCAB_MAX) {
            return base_fail(reterr, BASE_ERR_INVALID, "token %u of the prompt is %d", i,
                             request->prompt.tokens[i]);
        }
    }
    return request->token_count > 0 || is_whole(request)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "a prompt that is not UTF-8, or has a NUL or no such role");
}

static base_status add(proto_request *request, const char *role, const char *content,
                       size_t content_bytes, base_error *reterr)
{
    const size_t used = request->message_count > 0 ? request->text_bytes + 1U : 0;
    if (memchr(content, '\0', content_bytes) != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "a NUL in it");
    }
    const size_t bytes = strlen(role) + 1 + content_bytes;
    if (request->message_count == PROTO_CHAT_MESSAGES_MAX || bytes > PROTO_PROMPT_BYTES_MAX ||
        used + bytes > PROTO_PROMPT_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a chat of more than %d bytes or %d messages",
                         PROTO_PROMPT_BYTES_MAX, PROTO_CHAT_MESSAGES_MAX);
    }
    char *at = request->prompt.text + used;
    memcpy(at, role, strlen(role) + 1);
    memcpy(at + strlen(role) + 1, content, content_bytes);
    at[bytes] = '\0';
    request->text_bytes = (uint32_t)(used + bytes);
    request->token_count = 0;
    request->message_count++;
    return BASE_OK;
}

base_status proto_request_add_message(proto_request *request, const char *role, const char *content,
                                      size_t content_bytes, base_error *reterr)
{
    return is_role(role) ? add(request, role, content, content_bytes, reterr)
                         : base_fail(reterr, BASE_ERR_INVALID,
                                     "its role must be system, user, assistant or tool");
}

base_status proto_request_add_json(proto_request *request, const char *kind, const char *json,
                                   base_error *reterr)
{
    return add(request, kind, json, strlen(json), reterr);
}

_Static_assert(offsetof(proto_request, room) % sizeof(proto_grammar_step) == 0,
               "the grammar has room behind the longest prompt");

base_status proto_request_check(const proto_request *request, base_error *reterr)
{
    if (request->id == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "a request without an id");
    }
    if (request->max_new_tokens < 1 || request->max_new_tokens > PROTO_NEW_TOKENS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "max_new_tokens %d: must be 1 to %d",
                         request->max_new_tokens, PROTO_NEW_TOKENS_MAX);
    }
    if (request->stop_count < 0 || request->stop_count > PROTO_STOP_TOKENS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "%d stop tokens: 0 to %d are allowed",
                         request->stop_count, PROTO_STOP_TOKENS_MAX);
    }
    if (request->logprob_count < 0 || request->logprob_count > PROTO_LOGPROBS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%d log-probabilities of a token: 0 to %d are "
                         "allowed",
                         request->logprob_count, PROTO_LOGPROBS_MAX);
    }
    const base_status status = proto_request_check_sampling(request, reterr);
    return status == BASE_OK ? check_prompt(request, reterr) : status;
}

void proto_request_to_message(const proto_request *request, Ringfence__Control__Request *message,
                              char *texts[PROTO_CHAT_TEXTS_MAX])
{
    ringfence__control__request__init(message);
    message->id = request->id;
    message->max_new_tokens = (uint32_t)request->max_new_tokens;
    message->temperature = request->temperature;
    message->top_k = (uint32_t)request->top_k;
    message->top_p = request->top_p;
    message->min_p = request->min_p;
    message->presence_penalty = request->presence_penalty;
    message->frequency_penalty = request->frequency_penalty;
    message->repetition_penalty = request->repetition_penalty;
    message->n_logit_bias_ids = (size_t)request->bias_count;
    message->logit_bias_ids = (int32_t *)(uintptr_t)request->bias_tokens;
    message->n_logit_biases = (size_t)request->bias_count;
    message->logit_biases = (float *)(uintptr_t)request->biases;
    message->seed = request->seed;
    message->prompt_index = request->prompt_index;
    message->ignore_eos = request->ignore_eos;
    message->no_thinking = request->no_thinking;
    message->echo = request->echo;
    message->logprob_count = (uint32_t)request->logprob_count;
    message->n_stop_token_ids = (size_t)request->stop_count;
    message->stop_token_ids = (int32_t *)(uintptr_t)request->stops;
    message->grammar.len = request->grammar_count * sizeof(proto_grammar_step);
    message->grammar.data = (uint8_t *)(uintptr_t)proto_request_grammar(request);
    if (request->token_count > 0) {
        message->n_prompt_token_ids = request->token_count;
        message->prompt_token_ids = (int32_t *)(uintptr_t)request->prompt.tokens;
    } else if (request->message_count > 0) {
        char *at = (char *)(uintptr_t)request->prompt.text;
        message->n_chat = (size_t)request->message_count * 2;
        message->chat = texts;
        for (size_t i = 0; i < message->n_chat; i++) {
            texts[i] = at;
            at += strlen(at) + 1;
        }
    } else {
        message->prompt = (char *)(uintptr_t)request->prompt.text;
    }
}

static base_status copy_chat(const Ringfence__Control__Request *message, proto_request *request,
                             base_error *reterr)
{
    base_status status = message->n_chat % 2 == 0
                             ? BASE_OK
                             : base_fail(reterr, BASE_ERR_INVALID, "a role without its content");
    for (size_t i = 0; status == BASE_OK && i < message->n_chat; i += 2) {
        const char *role = message->chat[i];
        const char *content = message->chat[i + 1];
        status = is_json(role)
                     ? proto_request_add_json(request, role, content, reterr)
                     : proto_request_add_message(request, role, content, strlen(content), reterr);
    }
    return status;
}

static base_status copy_prompt(const Ringfence__Control__Request *message, proto_request *request,
                               base_error *reterr)
{
    const size_t text_bytes = strlen(message->prompt);
    if (text_bytes > PROTO_PROMPT_BYTES_MAX ||
        message->n_prompt_token_ids > PROTO_PROMPT_TOKENS_MAX ||
        message->n_stop_token_ids > PROTO_STOP_TOKENS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a request with too long a list or text");
    }
    if ((text_bytes > 0) + (message->n_prompt_token_ids > 0) + (message->n_chat > 0) > 1) {
        return base_fail(reterr, BASE_ERR_INVALID, "a prompt as two of text, tokens and a chat");
    }
    request->text_bytes = (uint32_t)text_bytes;
    request->token_count = (uint32_t)message->n_prompt_token_ids;
    if (message->n_chat > 0) {
        const base_status status = copy_chat(message, request, reterr);
        if (status != BASE_OK) {
            return status;
        }
    } else if (request->token_count > 0) {
        memcpy(request->prompt.tokens, message->prompt_token_ids,
               request->token_count * sizeof(int32_t));
    } else {
        memcpy(request->prompt.text, message->prompt, text_bytes + 1);
    }
    request->stop_count = (int32_t)message->n_stop_token_ids;
    if (request->stop_count > 0) {
        memcpy(request->stops, message->stop_token_ids,
               (size_t)request->stop_count * sizeof(int32_t));
    }
    return BASE_OK;
}

static base_status copy_biases(const Ringfence__Control__Request *message, proto_request *request,
                               base_error *reterr)
{
    if (message->n_logit_bias_ids > PROTO_LOGIT_BIASES_MAX ||
        message->n_logit_biases != message->n_logit_bias_ids) {
        return base_fail(reterr, BASE_ERR_INVALID, "%zu tokens with a bias, and %zu biases",
                         message->n_logit_bias_ids, message->n_logit_biases);
    }
    request->bias_count = (int32_t)message->n_logit_bias_ids;
    for (int32_t i = 0; i < request->bias_count; i++) {
        request->bias_tokens[i] = message->logit_bias_ids[i];
        request->biases[i] = message->logit_biases[i];
    }
    return BASE_OK;
}

static base_status copy_grammar(const Ringfence__Control__Request *message, proto_request *request,
                                base_error *reterr)
{
    const size_t each = sizeof(proto_grammar_step);
    const size_t count = message->grammar.len / each;
    if (count > PROTO_GRAMMAR_STEPS_MAX || message->grammar.len % each != 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "a grammar of %zu bytes", message->grammar.len);
    }
    if (count == 0) {
        return BASE_OK;
    }
    proto_request_set_grammar(request, (const void *)message->grammar.data, (uint32_t)count);
    return proto_grammar_check((proto_grammar_step *)(uintptr_t)proto_request_grammar(request),
                               count, reterr);
}

base_status proto_request_from_message(const Ringfence__Control__Request *message,
                                       proto_request *request, base_error *reterr)
{
    memset(request, 0, offsetof(proto_request, prompt));
    if (message->max_new_tokens > PROTO_NEW_TOKENS_MAX || message->top_k > PROTO_TOP_K_MAX ||
        message->logprob_count > PROTO_LOGPROBS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "max_new_tokens %u, top_k %u, logprob_count %u",
                         message->max_new_tokens, message->top_k, message->logprob_count);
    }
    request->id = message->id;
    request->seed = message->seed;
    request->prompt_index = message->prompt_index;
    request->temperature = message->temperature;
    request->top_p = message->top_p;
    request->min_p = message->min_p;
    request->presence_penalty = message->presence_penalty;
    request->frequency_penalty = message->frequency_penalty;
    request->repetition_penalty = message->repetition_penalty;
    request->top_k = (int32_t)message->top_k;
    request->max_new_tokens = (int32_t)message->max_new_tokens;
    request->ignore_eos = message->ignore_eos != 0;
    request->no_thinking = message->no_thinking != 0;
    request->echo = message->echo != 0;
    request->logprob_count = (int32_t)message->logprob_count;
    base_status status = copy_biases(message, request, reterr);
    if (status == BASE_OK) {
        status = copy_prompt(message, request, reterr);
    }
    if (status == BASE_OK) {
        status = copy_grammar(message, request, reterr);
    }
    return status == BASE_OK ? proto_request_check(request, reterr) : status;
}

const char *proto_finish_name(int finish_reason)
{
    static const char *const names[] = {NULL, "stop", "length", "cancelled", "error"};
    return finish_reason >= 0 && (size_t)finish_reason < sizeof names / sizeof names[0]
               ? names[finish_reason]
               : NULL;
}
