/* Reads the texts of files, and cuts them into pieces, as a tokenizer with GPT-2's splits does, and counts them.
 *
 * A file of JSON lines (base_path_has_json_lines) has a text in each, as a data file of a training has ("text", or
 * "wrong" and "right"). Any other is one plain text, of any bytes, which is read in blocks (data/text_parts.h). */
#ifndef RANK_TOKENIZER_TEXTS_H
#define RANK_TOKENIZER_TEXTS_H

#include "base/status.h"
#include "data/text_parts.h"
#include "piece_table.h"

struct rank_tokenizer;

/* Calls take for each part of a file's texts. A plain text may be a pipe. BASE_ERR_INVALID: it is a file of tokens by its
 * name. Else fails as data/text_parts.h. */
BASE_MUST_CHECK base_status rank_texts_read(const char *path, rank_text_take take, void *user,
                                            base_error *reterr);

/* Adds a file's pieces to the table. The cutter has GPT-2's splits. A plain text may be a pipe. Errors name
 * the file, and the line of a text's object. */
BASE_MUST_CHECK base_status rank_texts_count(const char *path, struct rank_tokenizer *cutter,
                                             rank_piece_table *table, base_error *reterr);

#endif
