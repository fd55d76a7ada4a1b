/* Windows of a file of tokens. Called by data.c, and by train/ and generate/ before a job. */
#include "token_windows.h"

#include "base/bytes.h"
#include "limits.h"
#include "slot.h"
#include "token_file.h"
#include "windows.h"

/* The last token is no input: it has no target. */
static uint64_t inputs_of(const rank_data *data)
{
    const uint64_t tokens = rank_token_file_count(data->tokens);
    return tokens > 0 ? tokens - 1 : 0;
}

static base_status show_first(rank_data *data, base_error *reterr)
{
    int32_t ids[RANK_WINDOWS_SHOWN_IDS];
    if ((uint64_t)rank_data_slot_number(&data->options, 0) >= data->sentences_total) {
        return BASE_OK;
    }
    const sentence first = rank_token_window(data, 0, 0);
    const size_t count = base_min_size(first.count, RANK_WINDOWS_SHOWN_IDS);
    const base_status status =
        rank_token_file_read(data->tokens, first.offset, count,
                             rank_tokenizer_vocab_size(data->options.tokenizer), ids, reterr);
    return status == BASE_OK ? rank_windows_show(data, ids, count, reterr) : status;
}

base_status rank_token_windows_open(rank_data *data, const char *path, base_error *reterr)
{
    const rank_data_options *options = &data->options;
    const base_status status =
        rank_token_file_open(path, options->tokenizer_sha256, &data->tokens, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const uint64_t context = (uint64_t)options->context;
    const uint64_t inputs = inputs_of(data);
    data->sentences_total = inputs / context + (inputs % context > 0);
    if (data->sentences_total > RANK_DATA_SENTENCES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "%s has more than %d windows", path,
                         (int)RANK_DATA_SENTENCES_MAX);
    }
    data->records = 1;
    for (int i = 0; i < options->slots_here; i++) {
        data->sentence_count += rank_slot_size(data->sentences_total, options->slot_count,
                                               (int)rank_data_slot_number(options, i));
    }
    return show_first(data, reterr);
}

base_status rank_data_check_tokens(const rank_data_options *options, base_error *reterr)
{
    rank_token_file *file = NULL;
    const base_status status =
        rank_token_file_open(options->path, options->tokenizer_sha256, &file, reterr);
    rank_token_file_close(file);
    return status;
}

sentence rank_token_window(const rank_data *data, int slot_index, uint64_t number)
{
    const rank_data_options *options = &data->options;
    const uint64_t context = (uint64_t)options->context;
    const uint64_t window = (uint64_t)rank_data_slot_number(options, slot_index) +
                            number * (uint64_t)options->slot_count;
    const uint64_t first = window * context;
    const uint64_t left = inputs_of(data) - first;
    return (sentence){.offset = first, .count = (uint32_t)(left < context ? left : context)};
}
