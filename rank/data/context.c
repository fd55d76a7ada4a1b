/* Which sentences a context holds. Called by data.c, and by the check before a training. */
#include "context.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>

#include "bpe.h"
#include "lines.h"
#include "rank/data.h"
#include "record.h"

/* For most texts the quick bound decides. A token has at least one byte. So tokenizing goes on,
 * piece by piece, only until the rest fits in any case. */
base_status rank_context_exceeded(rank_tokenizer *tokenizer, const char *text, size_t text_bytes,
                                  size_t context, bool *exceeded, base_error *reterr)
{
    size_t left_bytes = text_bytes;
    size_t tokens = 0;
    size_t before = 0;
    (void)rank_tokenizer_prefix(tokenizer, &before);
    *exceeded = before >= context;
    if (*exceeded) {
        return BASE_OK;
    }
    context -= before;
    if (left_bytes <= context ||
        rank_tokenizer_count_bound(tokenizer, text, left_bytes) <= context) {
        return BASE_OK;
    }
    while (tokens + left_bytes > context && left_bytes > 0) {
        rank_ids counted = {.capacity = 0};
        const size_t piece_bytes = rank_bpe_piece_bytes(text, left_bytes);
        const base_status status =
            rank_tokenizer_encode(tokenizer, text, piece_bytes, &counted, reterr);
        if (status != BASE_OK) {
            return status;
        }
        tokens += counted.count;
        text += piece_bytes;
        left_bytes -= piece_bytes;
    }
    *exceeded = tokens + left_bytes > context;
    return BASE_OK;
}

static base_status check_line(rank_tokenizer *tokenizer, const char *line, size_t line_bytes,
                              size_t context, bool *exceeded, base_error *reterr)
{
    rank_record record;
    base_status status = rank_record_read(line, line_bytes, &record, reterr);
    char *text = status == BASE_OK ? malloc(rank_record_text_bytes(&record) + 1) : NULL;
    if (text != NULL) {
        rank_record_text(&record, text);
        status = rank_context_exceeded(tokenizer, text, rank_record_text_bytes(&record), context,
                                       exceeded, reterr);
    } else if (status == BASE_OK) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for a sentence");
    }
    free(text);
    rank_record_clear(&record);
    return status;
}

base_status rank_data_any_fits(const char *path, rank_tokenizer *tokenizer, int context, bool *fits,
                               uint64_t *count, base_error *reterr)
{
    rank_lines lines;
    const char *line = NULL;
    size_t line_bytes = 0;
    bool exceeded = true;
    base_status status = rank_lines_open(&lines, path, reterr);
    while (status == BASE_OK && exceeded) {
        status = rank_lines_next(&lines, &line, &line_bytes, reterr);
        if (status != BASE_OK || line == NULL) {
            break;
        }
        status = check_line(tokenizer, line, line_bytes, (size_t)context, &exceeded, reterr);
        if (status != BASE_OK) {
            status = base_error_prepend(reterr, status, "%s:%" PRIu64, path, lines.number);
        }
    }
    *fits = !exceeded;
    *count = lines.number;
    rank_lines_close(&lines);
    return status;
}
