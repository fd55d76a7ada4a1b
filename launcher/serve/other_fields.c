/* Reads the fields of a body that decide nothing. Called by completion_body.c for each that it does not know. */
#include "serve/other_fields.h"

#include <jansson.h>
#include <string.h>

/* What a field may be. */
typedef enum neutral {
    NEUTRAL_ZERO,
    NEUTRAL_ONE,
    NEUTRAL_TRUE,
    NEUTRAL_FALSE,
    NEUTRAL_BOOLEAN,  /* either */
    NEUTRAL_EMPTY,    /* a text, a list, or an object */
    NEUTRAL_NO_TOOL,  /* "none" or "auto" */
    NEUTRAL_TEXT,     /* "text" or ["text"] */
    NEUTRAL_MEDIUM,   /* "medium" */
    NEUTRAL_ANY_TEXT, /* any text */
    NEUTRAL_ANY
} neutral;

typedef enum paths { BOTH, CHATS, COMPLETIONS } paths;

static const struct {
    const char *key;
    neutral value;
    paths paths;
    const char *says; /* where it is something else */
} fields[] = {
    /* OpenAI's */
    {"user", NEUTRAL_ANY, BOTH, ""},
    {"metadata", NEUTRAL_ANY, BOTH, ""},
    {"safety_identifier", NEUTRAL_ANY, BOTH, ""},
    {"prompt_cache_key", NEUTRAL_ANY, BOTH, ""},
    {"prompt_cache_retention", NEUTRAL_ANY, BOTH, ""},
    {"prediction", NEUTRAL_ANY, CHATS, ""}, /* it would make an answer faster, and no other */
    {"store", NEUTRAL_BOOLEAN, BOTH, "must be true or false, and nothing is kept in any case"},
    {"service_tier", NEUTRAL_ANY_TEXT, BOTH, "must be a text"},
    {"parallel_tool_calls", NEUTRAL_BOOLEAN, BOTH, "must be true or false"},
    {"tools", NEUTRAL_EMPTY, COMPLETIONS, "a chat may have them: leave it out"},
    {"functions", NEUTRAL_EMPTY, CHATS, "the older form of tools: send tools"},
    {"tool_choice", NEUTRAL_NO_TOOL, COMPLETIONS, "must be none or auto: a chat may have tools"},
    {"function_call", NEUTRAL_NO_TOOL, CHATS, "the older form of tool_choice: send tool_choice"},
    {"modalities", NEUTRAL_TEXT, CHATS, "must be [\"text\"]"},
    {"audio", NEUTRAL_EMPTY, CHATS, "answers are texts: leave it out"},
    {"verbosity", NEUTRAL_MEDIUM, CHATS, "must be medium: no chat template here has another"},
    {"web_search_options", NEUTRAL_EMPTY, CHATS, "nothing can be searched: leave it out"},
    {"suffix", NEUTRAL_EMPTY, COMPLETIONS, "texts have no given end: leave it out"},
    {"top_logprobs", NEUTRAL_ZERO, COMPLETIONS, "goes with chats: logprobs says how many"},
    /* vLLM's */
    {"min_tokens", NEUTRAL_ZERO, BOTH, "must be 0: see ignore_eos"},
    {"length_penalty", NEUTRAL_ONE, BOTH, "must be 1: there is no beam search"},
    {"use_beam_search", NEUTRAL_FALSE, BOTH, "must be false: there is no beam search"},
    {"skip_special_tokens", NEUTRAL_TRUE, BOTH, "must be true: special tokens print nothing"},
    {"spaces_between_special_tokens", NEUTRAL_BOOLEAN, BOTH, "must be true or false"},
    {"include_stop_str_in_output", NEUTRAL_FALSE, BOTH, "must be false: a text ends before it"},
    {"add_generation_prompt", NEUTRAL_TRUE, CHATS, "must be true: the assistant's turn begins"},
    {"continue_final_message", NEUTRAL_FALSE, CHATS, "must be false: the assistant's turn begins"},
};

static bool is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static bool is_empty(const json_t *value)
{
    return (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static bool is_neutral(neutral kind, const json_t *value)
{
    switch (kind) {
    case NEUTRAL_ZERO:
        return json_is_number(value) && json_number_value(value) == 0;
    case NEUTRAL_ONE:
        return json_is_number(value) && json_number_value(value) == 1;
    case NEUTRAL_TRUE:
        return json_is_true(value);
    case NEUTRAL_FALSE:
        return json_is_false(value);
    case NEUTRAL_BOOLEAN:
        return json_is_boolean(value);
    case NEUTRAL_EMPTY:
        return is_empty(value);
    case NEUTRAL_NO_TOOL:
        return is_text(value, "none") || is_text(value, "auto");
    case NEUTRAL_TEXT:
        return is_text(value, "text") ||
               (json_array_size(value) == 1 && is_text(json_array_get(value, 0), "text"));
    case NEUTRAL_MEDIUM:
        return is_text(value, "medium");
    case NEUTRAL_ANY_TEXT:
        return json_is_string(value);
    case NEUTRAL_ANY:
        break;
    }
    return true;
}

base_status launch_other_field(const char *key, const json_t *value, bool chat, base_error *reterr)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(key, fields[i].key) == 0 && fields[i].paths != (chat ? COMPLETIONS : CHATS)) {
            return is_neutral(fields[i].value, value)
                       ? BASE_OK
                       : base_fail(reterr, BASE_ERR_INVALID, "%s: %s", key, fields[i].says);
        }
    }
    return base_fail(reterr, BASE_ERR_INVALID, "%.48s: a %s has no such field", key,
                     chat ? "chat" : "completion");
}
