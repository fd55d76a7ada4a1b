/* Whether a context holds any sentence of a file. Called before a training, by the check that needs no rank. */
#include <inttypes.h>
#include <stdbool.h>

#include "encode.h"
#include "lines.h"

static base_status check_line(const rank_data_options *options, const rank_lines *lines, bool *fits,
                              base_error *reterr)
{
    rank_record record;
    rank_ids ids = {.capacity = 0};
    base_status status = rank_record_read(lines->line, lines->line_bytes, &record, reterr);
    if (status == BASE_OK) {
        status = rank_data_encode(options, &record, &ids, reterr);
    }
    *fits = status == BASE_OK && ids.count <= (size_t)options->context + 1;
    rank_record_clear(&record);
    return status == BASE_OK
               ? BASE_OK
               : base_error_prepend(reterr, status, "%s:%" PRIu64, lines->path, lines->number);
}

base_status rank_data_any_fits(const rank_data_options *options, bool *fits, uint64_t *count,
                               base_error *reterr)
{
    rank_lines lines;
    *fits = false;
    *count = 0;
    base_status status = rank_lines_open(&lines, options->path, reterr);
    while (status == BASE_OK && !*fits && rank_lines_next(&lines, &status, reterr)) {
        ++*count;
        status = check_line(options, &lines, fits, reterr);
    }
    rank_lines_close(&lines);
    return status;
}
