/* Prompts with completions, and chats, as tokens to learn from. Private to rank/data. */
#ifndef RANK_DATA_ENCODE_H
#define RANK_DATA_ENCODE_H

#include "data_parts.h"
#include "record.h"

/* Encodes a record that is a prompt or a chat. ids: as rank_tokenizer_encode fills them. They are the inputs, and
 * behind these the last target. A token that is no target is ~id, if it could be one. Of the options it reads the
 * tokenizer, the chat and loss_on_correction; without the latter all are targets. BASE_ERR_UNSUPPORTED and
 * BASE_ERR_INVALID: as rank_chat_encode_lesson. */
BASE_MUST_CHECK base_status rank_data_encode(const rank_data_options *options,
                                             const rank_record *record, rank_ids *ids,
                                             base_error *reterr);

/* The same behind the data's ids, as one more sentence. */
BASE_MUST_CHECK base_status rank_data_keep_encoded(rank_data *data, const rank_record *record,
                                                   base_error *reterr);

#endif
