/* Lines of a data file as tokens to learn from. Private to rank/data. */
#ifndef RANK_DATA_ENCODE_H
#define RANK_DATA_ENCODE_H

#include "rank/data.h"
#include "record.h"

/* Encodes a record. ids: as rank_tokenizer_encode fills them. They are the inputs, and behind these the last target.
 * A token that is no target is ~id. Of the options it reads the tokenizer, the chat and loss_on_correction.
 * BASE_ERR_INVALID: the tokenizer has no token for it; BASE_ERR_UNSUPPORTED, BASE_ERR_INVALID: of a chat, as
 * rank_chat_encode_lesson; BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status rank_data_encode(const rank_data_options *options,
                                             const rank_record *record, rank_ids *ids,
                                             base_error *reterr);

#endif
