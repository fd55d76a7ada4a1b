/* Cuts the texts of files into pieces, as a tokenizer with GPT-2's splits does, and counts them.
 *
 * A file of JSON lines (base_path_has_json_lines) has a text in each, as a data file of a training has ("text", or
 * "wrong" and "right"). Any other is one plain text, of any bytes, which is read in blocks (data/text_parts.h). */
#ifndef RANK_TOKENIZER_TEXTS_H
#define RANK_TOKENIZER_TEXTS_H

#include "base/status.h"
#include "piece_table.h"

struct rank_tokenizer;

/* Adds a file's pieces to the table. The cutter has GPT-2's splits. A plain text may be a pipe. Errors name
 * the file, and the line of a text's object. */
BASE_MUST_CHECK base_status rank_texts_count(const char *path, struct rank_tokenizer *cutter,
                                             rank_piece_table *table, base_error *reterr);

#endif
