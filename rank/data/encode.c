/* Encodes prompts with completions, and chats, when a file is read. Called by data.c and context.c. Other texts are
 * encoded batch by batch. */
#include "encode.h"

#include "chat.h"

/* Adds the tokens of a text to ids. */
static base_status add_text(rank_tokenizer *tokenizer, const rank_record_string *text,
                            rank_ids *ids, base_error *reterr)
{
    const size_t room = ids->count < ids->capacity ? ids->capacity - ids->count : 0;
    rank_ids more = {.at = room > 0 ? ids->at + ids->count : NULL, .capacity = room};
    const base_status status =
        rank_tokenizer_encode(tokenizer, text->data, text->bytes, &more, reterr);
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

/* Both halves are encoded by themselves, as a prompt is that is asked. */
static base_status encode_prompt(const rank_data_options *options, const rank_record *record,
                                 rank_ids *ids, base_error *reterr)
{
    rank_tokenizer *tokenizer = options->tokenizer;
    size_t prefix_count = 0;
    const int32_t *prefix = rank_tokenizer_prefix(tokenizer, &prefix_count);
    ids->count = 0;
    for (size_t i = 0; i < prefix_count; i++) {
        add_id(ids, ~prefix[i]);
    }
    const size_t begin = count_written(ids);
    base_status status = add_text(tokenizer, &record->prompt, ids, reterr);
    const size_t end = options->loss_on_correction ? count_written(ids) : begin;
    for (size_t i = begin; i < end; i++) {
        ids->at[i] = ~ids->at[i];
    }
    if (status == BASE_OK) {
        status = add_text(tokenizer, &record->completion, ids, reterr);
    }
    add_id(ids, rank_tokenizer_end_id(tokenizer));
    return status;
}

static base_status encode_chat(const rank_data_options *options, const rank_record *record,
                               rank_ids *ids, base_error *reterr)
{
    const rank_chat_messages messages = {.texts = record->messages.data,
                                         .count = record->message_count};
    ids->count = 0;
    const base_status status =
        options->chat != NULL
            ? rank_chat_encode_lesson(options->chat, options->tokenizer, &messages, ids, reterr)
            : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                        "a chat needs a --checkpoint with a chat template");
    const size_t written = options->loss_on_correction ? 0 : count_written(ids);
    for (size_t i = 0; i < written; i++) {
        ids->at[i] = ids->at[i] < 0 ? ~ids->at[i] : ids->at[i];
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "\"messages\"");
}

base_status rank_data_encode(const rank_data_options *options, const rank_record *record,
                             rank_ids *ids, base_error *reterr)
{
    return rank_record_kind_of(record) == RANK_RECORD_CHAT
               ? encode_chat(options, record, ids, reterr)
               : encode_prompt(options, record, ids, reterr);
}

base_status rank_data_keep_encoded(rank_data *data, const rank_record *record, base_error *reterr)
{
    rank_ids ids = {.capacity = 0};
    base_status status = rank_data_encode(&data->options, record, &ids, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (!rank_data_make_room(data, ids.count)) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a sentence");
    }
    ids = (rank_ids){.at = data->ids + data->id_count, .capacity = ids.count};
    status = rank_data_encode(&data->options, record, &ids, reterr);
    data->sentences[data->sentence_count++] =
        (sentence){.offset = data->id_count, .count = (uint32_t)ids.count - 1, .encoded = true};
    data->id_count += ids.count;
    return status;
}
