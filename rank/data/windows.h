/* Texts of any length as windows of tokens. A window has `context` inputs, the last one of a text perhaps
 * fewer, and each input's target is the token behind it, across the window's end; the last one's is the end
 * token. So every token of a text is an input once, and all but the first are targets once. Private to
 * rank/data. */
#ifndef RANK_DATA_WINDOWS_H
#define RANK_DATA_WINDOWS_H

#include "data_parts.h"

/* Reads a whole file, plain text or JSONL, and keeps the windows of this rank's slots. A plain text is one
 * text, and tokenized in blocks of RANK_DATA_BLOCK_BYTES at most. Statuses as rank_data_open. */
BASE_MUST_CHECK base_status rank_windows_read(rank_data *data, const char *path, bool plain,
                                              base_error *reterr);

enum { RANK_WINDOWS_SHOWN_IDS = 64 };

/* Keeps the text of these tokens, the beginning of the first window, which stands for it where texts are shown.
 * BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status rank_windows_show(rank_data *data, const int32_t *ids, size_t count,
                                              base_error *reterr);

#endif
