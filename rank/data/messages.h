/* The messages of a line that is a chat, in the fields of OpenAI's format for fine-tuning: "messages" with "role",
 * "content" and "weight"; or in those of ShareGPT: "conversations" with "from" and "value". Private to rank/data. */
#ifndef RANK_DATA_MESSAGES_H
#define RANK_DATA_MESSAGES_H

#include <jansson.h>

#include "record.h"

/* The list of messages in a line's object. NULL: it is no chat. */
const json_t *rank_messages_find(const json_t *root);

/* Keeps a copy of that list in the record. BASE_ERR_INVALID: a field says what is not known here, or nothing. */
BASE_MUST_CHECK base_status rank_messages_read(const json_t *root, rank_record *record,
                                               base_error *reterr);

#endif
