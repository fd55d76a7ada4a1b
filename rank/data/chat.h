/* Chats as the tokens that a model was trained on. A checkpoint says in a template how it writes them, a program in
 * Jinja, which is run (jinja/jinja.h).
 *
 * What the template writes may be special tokens, its marks. What is within a message is text, as in any other
 * prompt: nobody can type a mark. A chat is constant after init, and may be used by any number of threads. */
#ifndef RANK_DATA_CHAT_H
#define RANK_DATA_CHAT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/status.h"
#include "jinja/jinja.h"
#include "rank/tokenizer.h"

enum { RANK_CHAT_TOKEN_BYTES = 64 };

typedef struct rank_chat {
    rank_jinja *program; /* NULL: there is none, and `why` says it */
    base_error why;
    char begin_token[RANK_CHAT_TOKEN_BYTES]; /* bos_token; "": not defined */
    char end_token[RANK_CHAT_TOKEN_BYTES];   /* eos_token */
    char *answer; /* what the template writes before an answer; NULL: nothing beside the messages */
    char *lead; /* and between that and the answer's own bytes in a chat; NULL: that is not known */
    int32_t close_id; /* what it writes behind one, which ends it; -1: no token */
    bool has_switch;  /* an answer may begin without thoughts (enable_thinking) */
    bool asks_date;   /* it reads strftime_now */
    bool dated;       /* and gets: */
    struct tm now;
} rank_chat;

/* What a checkpoint says. */
typedef struct rank_chat_source {
    const char *text;        /* NULL: it has no template */
    const char *begin_token; /* the name of its bos_token; "": none */
    const char *end_token;   /* … of its eos_token */
    const struct tm *now;    /* what its strftime_now says; NULL: that is not defined */
} rank_chat_source;

/* Parses a template, and asks it a question to learn its marks, which become special in the tokenizer. What is wrong
 * stands in chat->why. */
void rank_chat_init(const rank_chat_source *source, rank_tokenizer *tokenizer, rank_chat *chat);
void rank_chat_fini(rank_chat *chat);

/* Whether a message may have this role. */
bool rank_chat_is_role(const char *role);

typedef struct rank_chat_messages {
    const char *texts; /* the role and the content of each in turn, as in a proto_request */
    uint32_t count;
    /* The template is told so (enable_thinking is false), if it has a switch for it. */
    bool no_thinking;
    /* (count) 1: not learned from, also what the assistant says; NULL: all that it says is. */
    const uint8_t *passed_over;
} rank_chat_messages;

/* Encodes messages, and the beginning of the assistant's answer. ids: as rank_tokenizer_encode fills
 * them. BASE_ERR_UNSUPPORTED: there is no program; BASE_ERR_INVALID: it refuses such messages, in its own words. */
BASE_MUST_CHECK base_status rank_chat_encode(const rank_chat *chat, rank_tokenizer *tokenizer,
                                             const rank_chat_messages *messages, rank_ids *ids,
                                             base_error *reterr);

/* Encodes a whole chat to learn from, up to the token that ends its last answer. A token that is not learned is
 * ~id: all but what the assistant says, with the token behind it, in messages that are not passed over. Each answer
 * begins where rank_chat_encode ends, so that its tokens are those that are drawn. ids: as above. BASE_ERR_INVALID:
 * there is no answer, or the program refuses the messages. BASE_ERR_UNSUPPORTED: there is no program, no token
 * ends an answer, or the tokenizer's added tokens take the spaces beside them. */
BASE_MUST_CHECK base_status rank_chat_encode_lesson(const rank_chat *chat,
                                                    rank_tokenizer *tokenizer,
                                                    const rank_chat_messages *messages,
                                                    rank_ids *ids, base_error *reterr);

#endif
