/* Which sentences a context holds. Private to rank/data. */
#ifndef RANK_DATA_CONTEXT_H
#define RANK_DATA_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "rank/data.h"

/* Whether a batch of the options has more than `context` tokens for the text, with those that the
 * tokenizer puts before it. Of the options it reads the tokenizer, the context and
 * loss_on_correction. */
BASE_MUST_CHECK base_status rank_context_exceeded(const rank_data_options *options,
                                                  const char *text, size_t text_bytes,
                                                  bool *exceeded, base_error *reterr);

#endif
