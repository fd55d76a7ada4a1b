/* Which sentences a context holds. Called by data.c, and by the check before a training. */
#include "context.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>

#include "encode.h"
#include "lines.h"
#include "record.h"

/* Counts the tokens of a part of a text. */
static base_status count_tokens(rank_tokenizer *tokenizer, const char *text, size_t text_bytes,
                                size_t *count, base_error *reterr)
{
    rank_ids ids = {.capacity = 0};
    const base_status status = rank_tokenizer_encode(tokenizer, text, text_bytes, &ids, reterr);
    *count += ids.count;
    return status;
}

/* Tokenizes what a batch tokenizes at once, as batch.c does. */
static base_status halves_exceed(const rank_data_options *options, const char *text,
                                 size_t text_bytes, size_t context, bool *exceeded,
                                 base_error *reterr)
{
    const size_t split = options->loss_on_correction ? rank_record_arrow_end(text, text_bytes) : 0;
    size_t tokens = 0;
    base_status status = count_tokens(options->tokenizer, text, split, &tokens, reterr);
    if (status == BASE_OK) {
        status =
            count_tokens(options->tokenizer, text + split, text_bytes - split, &tokens, reterr);
    }
    *exceeded = tokens > context;
    return status;
}

/* For most texts a quick bound decides. */
base_status rank_context_exceeded(const rank_data_options *options, const char *text,
                                  size_t text_bytes, bool *exceeded, base_error *reterr)
{
    rank_tokenizer *tokenizer = options->tokenizer;
    size_t context = (size_t)options->context;
    size_t before = 0;
    (void)rank_tokenizer_prefix(tokenizer, &before);
    *exceeded = before >= context;
    if (*exceeded) {
        return BASE_OK;
    }
    context -= before;
    return rank_tokenizer_count_bound(tokenizer, text, text_bytes) <= context
               ? BASE_OK
               : halves_exceed(options, text, text_bytes, context, exceeded, reterr);
}

static base_status check_text(const rank_data_options *options, const rank_record *record,
                              bool *exceeded, base_error *reterr)
{
    const size_t bytes = rank_record_text_bytes(record);
    char *text = malloc(bytes + 1);
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a sentence");
    }
    rank_record_text(record, text);
    const base_status status = rank_context_exceeded(options, text, bytes, exceeded, reterr);
    free(text);
    return status;
}

static base_status check_record(const rank_data_options *options, const rank_record *record,
                                bool *exceeded, base_error *reterr)
{
    rank_ids ids = {.capacity = 0};
    if (rank_record_kind_of(record) == RANK_RECORD_TEXT) {
        return check_text(options, record, exceeded, reterr);
    }
    const base_status status = rank_data_encode(options, record, &ids, reterr);
    *exceeded = ids.count > (size_t)options->context + 1;
    return status;
}

static base_status check_line(const rank_data_options *options, const char *line, size_t line_bytes,
                              bool *exceeded, base_error *reterr)
{
    rank_record record;
    base_status status = rank_record_read(line, line_bytes, &record, reterr);
    if (status == BASE_OK) {
        status = check_record(options, &record, exceeded, reterr);
    }
    rank_record_clear(&record);
    return status;
}

base_status rank_data_any_fits(const rank_data_options *options, bool *fits, uint64_t *count,
                               base_error *reterr)
{
    rank_lines lines;
    bool exceeded = true;
    *count = 0;
    base_status status = rank_lines_open(&lines, options->path, reterr);
    while (status == BASE_OK && exceeded && rank_lines_next(&lines, &status, reterr)) {
        ++*count;
        status = check_line(options, lines.line, lines.line_bytes, &exceeded, reterr);
        if (status != BASE_OK) {
            status = base_error_prepend(reterr, status, "%s:%" PRIu64, options->path, lines.number);
        }
    }
    *fits = !exceeded;
    rank_lines_close(&lines);
    return status;
}
