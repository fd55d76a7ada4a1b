/* On which condition a chat template begins an answer. Here one is begun behind the last message of every chat:
 * add_generation_prompt is defined, and true. A condition beside it is one of those that are known, or the
 * template is not. Pure. */
#ifndef RANK_DATA_CHAT_ANSWER_H
#define RANK_DATA_CHAT_ANSWER_H

#include "chat_form.h"

/* Reads a tag of the template, {{ … }} or {% … %}. if_defined: the tag before asks whether something is
 * defined. False: the tag has another condition, which habits->unknown then is. */
bool rank_chat_answer_read(const char *tag, bool if_defined, rank_chat_habits *habits);

#endif
