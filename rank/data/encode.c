/* Encodes the lines of a data file. Called by data.c when a file is read, and by context.c. */
#include "encode.h"

#include <stdlib.h>

#include "chat.h"

/* Adds the tokens of a text to ids. */
static base_status add_text(rank_tokenizer *tokenizer, rank_tokenizer_place place, const char *text,
                            size_t text_bytes, rank_ids *ids, base_error *reterr)
{
    const size_t room = ids->count < ids->capacity ? ids->capacity - ids->count : 0;
    rank_ids more = {.at = room > 0 ? ids->at + ids->count : NULL, .capacity = room};
    const base_status status = rank_tokenizer_encode_text(
        tokenizer, &(rank_tokenizer_text){.at = text, .bytes = text_bytes, .place = place}, &more,
        reterr);
    ids->count += more.count;
    return status;
}

static void add_id(rank_ids *ids, int32_t id)
{
    if (ids->count < ids->capacity) {
        ids->at[ids->count] = id;
    }
    ids->count++;
}

static size_t count_written(const rank_ids *ids)
{
    return ids->count < ids->capacity ? ids->count : ids->capacity;
}

static base_status no_token(base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_INVALID, "the tokenizer has no token for it");
}

/* Encodes a text of which the first bytes are asked. What is asked and what is answered are encoded each by
 * itself, as they are when a model is asked. What the tokenizer puts before a text is no target. */
static base_status encode_text(const rank_data_options *options, const char *text,
                               size_t text_bytes, size_t asked_bytes, rank_ids *ids,
                               base_error *reterr)
{
    rank_tokenizer *tokenizer = options->tokenizer;
    size_t prefix_count = 0;
    const int32_t *prefix = rank_tokenizer_prefix(tokenizer, &prefix_count);
    const size_t asked = options->loss_on_correction ? asked_bytes : 0;
    ids->count = 0;
    for (size_t i = 0; i < prefix_count; i++) {
        add_id(ids, ~prefix[i]);
    }
    const size_t begin = count_written(ids);
    base_status status = add_text(tokenizer, RANK_TOKENIZER_BEGINS, text, asked, ids, reterr);
    const size_t end = count_written(ids);
    for (size_t i = begin; i < end; i++) {
        ids->at[i] = ~ids->at[i];
    }
    if (status == BASE_OK) {
        status = add_text(tokenizer, asked > 0 ? RANK_TOKENIZER_GOES_ON : RANK_TOKENIZER_BEGINS,
                          text + asked, text_bytes - asked, ids, reterr);
    }
    if (status == BASE_OK && ids->count == prefix_count) {
        return no_token(reterr);
    }
    add_id(ids, rank_tokenizer_end_id(tokenizer));
    return status;
}

static base_status encode_chat(const rank_data_options *options, const rank_record *record,
                               rank_ids *ids, base_error *reterr)
{
    const rank_chat_messages messages = {.texts = record->messages.data,
                                         .count = record->message_count,
                                         .passed_over = record->passed_over};
    ids->count = 0;
    base_status status =
        options->chat != NULL
            ? rank_chat_encode_lesson(options->chat, options->tokenizer, &messages, ids, reterr)
            : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                        "a chat needs a --checkpoint with a chat template");
    if (status == BASE_OK && ids->count < 2) { /* the last one is no input */
        status = no_token(reterr);
    }
    const size_t written = options->loss_on_correction ? 0 : count_written(ids);
    for (size_t i = 0; i < written; i++) {
        ids->at[i] = ids->at[i] < 0 ? ~ids->at[i] : ids->at[i];
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "\"messages\"");
}

base_status rank_data_encode(const rank_data_options *options, const rank_record *record,
                             rank_ids *ids, base_error *reterr)
{
    if (rank_record_kind_of(record) == RANK_RECORD_CHAT) {
        return encode_chat(options, record, ids, reterr);
    }
    const size_t bytes = rank_record_text_bytes(record);
    char *text = malloc(bytes + 1);
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a sentence");
    }
    rank_record_text(record, text);
    const base_status status =
        encode_text(options, text, bytes, rank_record_asked_bytes(record), ids, reterr);
    free(text);
    return status;
}
