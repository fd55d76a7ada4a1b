/* Chats as the tokens that a model was trained on. A checkpoint says in a template how it writes them, a
 * program in a language of its own (Jinja). Two forms are known here, ChatML's and Llama 3's
 * (chat_form.h). Sources: the templates of Qwen2.5, Qwen3, SmolLM2, Llama 3 and 3.1.
 *
 * A mark is always its token. What is within a message is text, as in any other prompt. Pure. */
#ifndef RANK_DATA_CHAT_H
#define RANK_DATA_CHAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "chat_form.h"
#include "rank/tokenizer.h"

typedef struct rank_chat {
    const rank_chat_form *form; /* NULL: there is none, and `why` says it */
    base_error why;
    int32_t begin_id; /* before all; -1: none */
    int32_t open_id;
    int32_t named_id; /* behind the role; -1: none */
    int32_t close_id; /* behind the content: it ends an answer */
    rank_chat_habits habits;
} rank_chat;

/* Finds the form of a template, and its tokens, which become special in the tokenizer. What is wrong stands in
 * chat->why. text: NULL if the checkpoint has no template. begin_token: the name of its bos_token; "": none. */
void rank_chat_init(const char *text, const char *begin_token, rank_tokenizer *tokenizer,
                    rank_chat *chat);

/* Whether a message may have this role. */
bool rank_chat_is_role(const char *role);

typedef struct rank_chat_messages {
    const char *texts; /* the role and the content of each in turn, each with a NUL behind it */
    uint32_t count;
    /* The answer begins behind empty thoughts, if the template has a switch for it. */
    bool no_thinking;
    /* (count) 1: not learned from, also what the assistant says; NULL: all that it says is. */
    const uint8_t *passed_over;
} rank_chat_messages;

/* Encodes messages, and the beginning of the assistant's answer. ids: as rank_tokenizer_encode fills
 * them. BASE_ERR_UNSUPPORTED: the chat has no form. */
BASE_MUST_CHECK base_status rank_chat_encode(const rank_chat *chat, rank_tokenizer *tokenizer,
                                             const rank_chat_messages *messages, rank_ids *ids,
                                             base_error *reterr);

/* Encodes a whole chat to learn from, up to the mark that ends its last answer. A token that is not learned is
 * ~id: all but what the assistant says, with the mark behind it, in messages that are not passed over. Each answer begins where
 * rank_chat_encode ends, so that its tokens are those that are drawn. ids: as above. BASE_ERR_INVALID: there is no
 * answer. BASE_ERR_UNSUPPORTED: the chat has no form. */
BASE_MUST_CHECK base_status rank_chat_encode_lesson(const rank_chat *chat,
                                                    rank_tokenizer *tokenizer,
                                                    const rank_chat_messages *messages,
                                                    rank_ids *ids, base_error *reterr);

#endif
