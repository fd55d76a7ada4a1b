/* A request that comes while a job runs, as a checked struct, and its messages of control.proto.
 *
 * The launcher makes it from a line of its input, and rank 0 from the message. Both check the same
 * limits here. Whether the prompt fits into the model is for rank 0 to say. Pure; thread safe. */
#ifndef PROTO_REQUEST_H
#define PROTO_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/grammar.h"
#include "proto/limits.h"

struct Ringfence__Control__Request;

/* Keys in JSON with which a rank's refusal of what they say begins. */
#define PROTO_STOPS_KEY "stop_token_ids"
#define PROTO_BIAS_KEY  "logit_bias"

#define PROTO_FORMAT_KEY                                                                           \
    "response_format" /* of which, or of a tool_choice, the launcher makes the grammar */

#define PROTO_CHAT_MESSAGE "message"
#define PROTO_CHAT_TOOLS   "tools"

/* And with which one begins of a prompt that has no room in the context. */
#define PROTO_LONG_PROMPT "a prompt must have 1 to "

/* Either text_bytes or token_count is above 0, or both are 0: an empty prompt.
 *
 * A chat's text is the role and the content of each message in turn, each with a NUL behind it. A role
 * is "system", "user" or "assistant"; a content may be empty. What has more to say is in JSON: a whole message behind
 * PROTO_CHAT_MESSAGE, and, before all messages, the list of tools behind PROTO_CHAT_TOOLS. */
typedef struct proto_request {
    uint64_t id; /* from 1 on, and rising */
    uint64_t seed;
    uint64_t prompt_index;     /* what is drawn is keyed by it, beside the seed */
    double temperature;        /* 0: greedy; else PROTO_TEMPERATURE_MIN … MAX (proto/job.h) */
    double top_p;              /* above 0, at most 1 */
    double min_p;              /* 0 … 1 */
    double presence_penalty;   /* -PROTO_PENALTY_MAX … PROTO_PENALTY_MAX (proto/job.h), */
    double frequency_penalty;  /* and so is this one */
    double repetition_penalty; /* PROTO_REPETITION_MIN … MAX; 1: none */
    int32_t top_k;             /* 0 … PROTO_TOP_K_MAX */
    int32_t max_new_tokens;    /* 1 … PROTO_NEW_TOKENS_MAX */
    int32_t logprob_count;     /* of each token: 0 … PROTO_LOGPROBS_MAX; 0: none; n: its own, and
                             * those of the n - 1 best */
    bool ignore_eos;
    bool no_thinking;   /* the answer to a chat begins behind empty thoughts */
    bool echo;          /* the prompt's tokens come before those of the answer */
    int32_t stop_count; /* 0 … PROTO_STOP_TOKENS_MAX */
    int32_t stops[PROTO_STOP_TOKENS_MAX];
    int32_t bias_count;                          /* 0 … PROTO_LOGIT_BIASES_MAX */
    int32_t bias_tokens[PROTO_LOGIT_BIASES_MAX]; /* no two are the same */
    float biases[PROTO_LOGIT_BIASES_MAX]; /* -PROTO_LOGIT_BIAS_MAX … PROTO_LOGIT_BIAS_MAX */
    uint32_t text_bytes;    /* of the prompt, without its last NUL: 0 … PROTO_PROMPT_BYTES_MAX */
    uint32_t token_count;   /* 0 … PROTO_PROMPT_TOKENS_MAX */
    uint32_t message_count; /* of a chat: 1 … PROTO_CHAT_MESSAGES_MAX; 0: it is none */
    uint32_t grammar_count; /* steps: 0 … PROTO_GRAMMAR_STEPS_MAX; 0: the answer may be any */
    _Alignas(uint64_t) union {
        char text[PROTO_PROMPT_BYTES_MAX + 1]; /* UTF-8 */
        int32_t tokens[PROTO_PROMPT_TOKENS_MAX];
    } prompt;
    /* The grammar stands right behind what is used of the prompt. */
    _Alignas(uint64_t) proto_grammar_step room[PROTO_GRAMMAR_STEPS_MAX];
} proto_request;

/* The grammar's steps (grammar_count), and how they are set, when the prompt has been. steps: not in the request. */
const proto_grammar_step *proto_request_grammar(const proto_request *request);
void proto_request_set_grammar(proto_request *request, const proto_grammar_step *steps,
                               uint32_t count);

/* The bytes from the beginning of the struct that are in use. The others need not be copied. */
size_t proto_request_bytes(const proto_request *request);

/* BASE_ERR_INVALID or BASE_ERR_LIMIT says what is out of range. */
BASE_MUST_CHECK base_status proto_request_check(const proto_request *request, base_error *reterr);

/* The same of temperature, top_k, top_p, min_p, the penalties and the biases alone. */
BASE_MUST_CHECK base_status proto_request_check_sampling(const proto_request *request,
                                                         base_error *reterr);

/* Adds a message to the chat. BASE_ERR_INVALID: there is no such role, or a NUL in the content;
 * BASE_ERR_LIMIT: too many messages, or too much text. */
BASE_MUST_CHECK base_status proto_request_add_message(proto_request *request, const char *role,
                                                      const char *content, size_t content_bytes,
                                                      base_error *reterr);

/* The same of a text in JSON. kind: PROTO_CHAT_MESSAGE or PROTO_CHAT_TOOLS. */
BASE_MUST_CHECK base_status proto_request_add_json(proto_request *request, const char *kind,
                                                   const char *json, base_error *reterr);

/* Fills in a message that points into the request and into texts, which must outlive it. */
void proto_request_to_message(const proto_request *request,
                              struct Ringfence__Control__Request *message,
                              char *texts[PROTO_CHAT_TEXTS_MAX]);

/* Copies a message that has come, and checks it. */
BASE_MUST_CHECK base_status proto_request_from_message(
    const struct Ringfence__Control__Request *message, proto_request *request, base_error *reterr);

/* "stop", "length", "cancelled", "error": a FinishReason of control.proto; NULL: none of them. */
const char *proto_finish_name(int finish_reason);

#endif
