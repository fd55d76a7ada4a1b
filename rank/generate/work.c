/* Encodes a prompt, and keeps its answer. Called by generate.c and serve.c on rank 0. */
#include "generate/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "data/chat.h"
#include "proto/limits.h"
#include "proto/request.h"

static base_status make_room(const rank_generate_options *options, int new_tokens_max,
                             rank_work *work, base_error *reterr)
{
    const size_t context = (size_t)rank_generate_context(options);
    const size_t most = (size_t)new_tokens_max;
    if (work->prompt_count == 0 || work->prompt_count >= context) {
        return base_fail(
            reterr, BASE_ERR_INVALID, PROTO_LONG_PROMPT "%zu tokens, this one has %zu%s: \"%.60s\"",
            context - 1, work->prompt_count,
            work->prompt_count > 0 ? ", which exceeds the available context size" : "", work->text);
    }
    const size_t left = context - work->prompt_count;
    const size_t cached = options->cache_tokens > 0 ? (size_t)options->cache_tokens : context;
    const size_t needed = most < left ? most : 1; /* else the answer goes on as long as it can */
    if (work->prompt_count + needed > cached) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a prompt of %zu tokens and %zu new ones do not fit into the cache, which "
                         "has room for %zu (--cache-tokens): \"%.60s\"",
                         work->prompt_count, needed, cached, work->text);
    }
    const size_t room = base_min_size(most, base_min_size(left, cached - work->prompt_count));
    work->room = room;
    work->new_tokens_max = room < left ? (int)room : new_tokens_max;
    work->tokens = malloc(room * sizeof *work->tokens);
    work->drawn_ns = malloc(room * sizeof *work->drawn_ns);
    return work->tokens != NULL && work->drawn_ns != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for an answer");
}

/* Whether the text ends so, but for spaces. */
static bool ends_with(const char *text, const char *suffix)
{
    size_t bytes = strlen(text);
    const size_t suffix_bytes = strlen(suffix);
    while (bytes > 0 && text[bytes - 1] == ' ') {
        bytes--;
    }
    return bytes >= suffix_bytes && memcmp(text + bytes - suffix_bytes, suffix, suffix_bytes) == 0;
}

/* Encodes the text with the options' suffix behind it, and what the tokenizer puts before it. */
static base_status encode_text(const rank_generate_options *options, const char *text,
                               rank_ids *ids, base_error *reterr)
{
    const char *suffix = options->prompt_suffix != NULL ? options->prompt_suffix : "";
    const char *behind = ends_with(text, suffix) ? "" : suffix;
    const size_t whole_bytes = strlen(text) + strlen(behind);
    if (strlen(text) > PROTO_PROMPT_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "a prompt is longer than %d bytes: %.40s…",
                         PROTO_PROMPT_BYTES_MAX, text);
    }
    char *whole = malloc(whole_bytes + 1);
    if (whole == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a prompt");
    }
    (void)snprintf(whole, whole_bytes + 1, "%s%s", text, behind);
    size_t before = 0;
    const int32_t *prefix = rank_tokenizer_prefix(options->tokenizer, &before);
    before = before < ids->capacity ? before : ids->capacity;
    for (size_t i = 0; i < before; i++) {
        ids->at[i] = prefix[i];
    }
    rank_ids rest = {.at = ids->at + before, .capacity = ids->capacity - before};
    const base_status status =
        rank_tokenizer_encode(options->tokenizer, whole, whole_bytes, &rest, reterr);
    free(whole);
    ids->count = before + rest.count;
    return status;
}

/* Encodes messages, or where there are none (count 0) their text. */
static base_status encode(const rank_generate_options *options, const rank_chat_messages *messages,
                          int new_tokens_max, rank_work *work, base_error *reterr)
{
    const size_t context = (size_t)rank_generate_context(options);
    rank_ids ids = {.at = malloc(context * sizeof *ids.at), .capacity = context};
    work->prompt = ids.at;
    if (work->prompt == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a prompt");
    }
    const base_status status =
        messages->count > 0
            ? rank_chat_encode(options->chat, options->tokenizer, messages, &ids, reterr)
            : encode_text(options, messages->texts, &ids, reterr);
    work->prompt_count = ids.count;
    if (status != BASE_OK) {
        return status;
    }
    if (work->prompt_count > 0 && work->prompt_count < context) {
        int32_t *fitted = realloc(work->prompt, work->prompt_count * sizeof *fitted);
        work->prompt = fitted != NULL ? fitted : work->prompt;
    }
    return make_room(options, new_tokens_max, work, reterr);
}

base_status rank_work_encode(const rank_generate_options *options, const char *text,
                             bool no_thinking, int new_tokens_max, rank_work *work,
                             base_error *reterr)
{
    static const char role[] = "user";
    *work = (rank_work){.text = text, .end_id = -1, .holders = 1};
    if (!options->prompts_are_messages) {
        return encode(options, &(rank_chat_messages){.texts = text}, new_tokens_max, work, reterr);
    }
    if (strlen(text) > PROTO_PROMPT_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "a prompt is longer than %d bytes: %.40s…",
                         PROTO_PROMPT_BYTES_MAX, text);
    }
    char *chat = malloc(sizeof role + strlen(text) + 1);
    if (chat == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a prompt");
    }
    memcpy(chat, role, sizeof role);
    memcpy(chat + sizeof role, text, strlen(text) + 1);
    work->end_id = options->chat->close_id;
    const base_status status = encode(
        options, &(rank_chat_messages){.texts = chat, .count = 1, .no_thinking = no_thinking},
        new_tokens_max, work, reterr);
    free(chat);
    return status;
}

/* The same of a chat: the text is that of the last message. */
static base_status encode_chat(const rank_generate_options *options,
                               const rank_chat_messages *messages, int new_tokens_max,
                               rank_work *work, base_error *reterr)
{
    const char *last = messages->texts; /* a content */
    for (uint32_t i = 1; i < 2 * messages->count; i++) {
        last += strlen(last) + 1;
    }
    *work = (rank_work){.text = last, .end_id = options->chat->close_id, .holders = 1};
    return encode(options, messages, new_tokens_max, work, reterr);
}

/* The same of a prompt that is given as tokens: the text is theirs. */
static base_status copy_tokens(const rank_generate_options *options, const int32_t *tokens,
                               size_t token_count, int new_tokens_max, rank_work *work,
                               base_error *reterr)
{
    const size_t vocab_size = (size_t)rank_tokenizer_vocab_size(options->tokenizer);
    *work = (rank_work){.text = "", .prompt_count = token_count, .end_id = -1, .holders = 1};
    for (size_t i = 0; i < token_count; i++) {
        if (tokens[i] < 0 || (size_t)tokens[i] >= vocab_size) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "token %zu of the prompt is %d, the tokenizer has %zu", i, tokens[i],
                             vocab_size);
        }
    }
    const size_t text_bytes =
        rank_tokenizer_decode(options->tokenizer, tokens, token_count, NULL, 0) + 1;
    work->prompt = malloc((token_count + 1) * sizeof *work->prompt);
    work->own_text = malloc(text_bytes);
    if (work->prompt == NULL || work->own_text == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a prompt");
    }
    memcpy(work->prompt, tokens, token_count * sizeof *tokens);
    (void)rank_tokenizer_decode(options->tokenizer, tokens, token_count, work->own_text,
                                text_bytes);
    work->text = work->own_text;
    return make_room(options, new_tokens_max, work, reterr);
}

base_status rank_work_want_logprobs(rank_work *work, int logprob_count, base_error *reterr)
{
    work->logprob_count = logprob_count;
    if (logprob_count == 0) {
        return BASE_OK;
    }
    work->logprobs = malloc(work->room * (size_t)logprob_count * sizeof *work->logprobs);
    return work->logprobs != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for log-probabilities");
}

/* Lets the answer begin with the prompt. */
static base_status echo(rank_work *work, base_error *reterr)
{
    const size_t room = work->room + work->prompt_count;
    const size_t each = (size_t)work->logprob_count;
    int32_t *tokens = realloc(work->tokens, room * sizeof *tokens);
    work->tokens = tokens != NULL ? tokens : work->tokens;
    int64_t *drawn_ns = realloc(work->drawn_ns, room * sizeof *drawn_ns);
    work->drawn_ns = drawn_ns != NULL ? drawn_ns : work->drawn_ns;
    rank_logprob *logprobs =
        each > 0 ? realloc(work->logprobs, room * each * sizeof *logprobs) : NULL;
    work->logprobs = logprobs != NULL ? logprobs : work->logprobs;
    if (tokens == NULL || drawn_ns == NULL || (each > 0 && logprobs == NULL)) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for an answer with its prompt");
    }
    work->room = room;
    work->echoed = work->prompt_count;
    work->drawn = each > 0 ? 1 : work->prompt_count;
    memcpy(tokens, work->prompt, work->drawn * sizeof *tokens);
    memset(drawn_ns, 0, work->drawn * sizeof *drawn_ns);
    for (size_t i = 0; i < each; i++) {
        logprobs[i] = (rank_logprob){.token = i == 0 ? tokens[0] : -1};
    }
    return BASE_OK;
}

/* Encodes the request's prompt, whichever kind it is. */
static base_status encode_request(const rank_generate_options *options,
                                  const proto_request *request, rank_work *work, base_error *reterr)
{
    if (request->token_count > 0) {
        return copy_tokens(options, request->prompt.tokens, request->token_count,
                           request->max_new_tokens, work, reterr);
    }
    char *text = malloc(request->text_bytes + 1);
    if (text == NULL) {
        *work = (rank_work){.text = NULL};
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a prompt");
    }
    memcpy(text, request->prompt.text, request->text_bytes + 1);
    const base_status status =
        request->message_count > 0
            ? encode_chat(options,
                          &(rank_chat_messages){.texts = text,
                                                .count = request->message_count,
                                                .no_thinking = request->no_thinking},
                          request->max_new_tokens, work, reterr)
            : rank_work_encode(options, text, request->no_thinking, request->max_new_tokens, work,
                               reterr);
    work->own_text = text;
    return status;
}

base_status rank_work_make(const rank_generate_options *options, const proto_request *request,
                           rank_work *work, base_error *reterr)
{
    base_status status = encode_request(options, request, work, reterr);
    if (status == BASE_OK) {
        status = rank_work_want_logprobs(work, request->logprob_count, reterr);
    }
    return status == BASE_OK && request->echo ? echo(work, reterr) : status;
}

void rank_work_fini(rank_work *work)
{
    free(work->own_text);
    free(work->prompt);
    free(work->tokens);
    free(work->drawn_ns);
    free(work->logprobs);
    work->own_text = NULL;
    work->prompt = NULL;
    work->tokens = NULL;
    work->drawn_ns = NULL;
    work->logprobs = NULL;
}

void rank_work_take(rank_work *work, const rank_schedule_event *event, int64_t now_ns)
{
    if (event->token >= 0) {
        work->tokens[work->drawn] = event->token;
        work->drawn_ns[work->drawn] = now_ns;
        if (work->logprob_count > 0) {
            const size_t each = (size_t)work->logprob_count;
            BASE_ASSERT(event->logprob_count == work->logprob_count);
            memcpy(work->logprobs + work->drawn * each, event->logprobs,
                   each * sizeof *work->logprobs);
        }
        work->drawn++;
        work->drafted += (size_t)event->drafted;
        work->accepted += (size_t)event->accepted;
    }
    work->preempted += (size_t)event->preempted;
    work->finish = event->finish;
}

size_t rank_work_count(const rank_work *work)
{
    return work->drawn - (work->finish == RANK_FINISH_STOP ? 1 : 0);
}

void rank_work_release(rank_work *work)
{
    BASE_ASSERT(work->holders > 0);
    if (--work->holders == 0) {
        rank_work_fini(work);
    }
}
