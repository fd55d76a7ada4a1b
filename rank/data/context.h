/* Which sentences a context holds. Private to rank/data. */
#ifndef RANK_DATA_CONTEXT_H
#define RANK_DATA_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "rank/tokenizer.h"

/* Whether the text has more than `context` tokens, with those that the tokenizer puts before it. */
BASE_MUST_CHECK base_status rank_context_exceeded(rank_tokenizer *tokenizer, const char *text,
                                                  size_t text_bytes, size_t context, bool *exceeded,
                                                  base_error *reterr);

#endif
