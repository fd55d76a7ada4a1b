/* Templates of models that think: an answer begins with <think>, thoughts, </think>. Such a template takes the
 * thoughts out of earlier answers, and writes those behind the last question of a user. It does so as Qwen3's
 * does it, or it is not known: the statements that decide it are compared one by one. Pure. */
#ifndef RANK_DATA_CHAT_THINKING_H
#define RANK_DATA_CHAT_THINKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What of a template has been read. Zeros to begin with. */
typedef struct rank_chat_thinking {
    bool thinks;        /* the template has <think>; set by the caller */
    unsigned seen;      /* statements, as bits */
    unsigned before;    /* the tag before: one of these bits, or 0 */
    bool other_content; /* the variable `content` is something else than a message's content, too */
} rank_chat_thinking;

typedef enum rank_chat_statement {
    RANK_CHAT_OTHER,   /* it says nothing of thinking */
    RANK_CHAT_KNOWN,   /* it is one of those, in its place */
    RANK_CHAT_UNKNOWN, /* it says something else of thinking */
} rank_chat_statement;

/* Reads a tag of the template, {{ … }} or {% … %}. end: behind it, of a known one. */
rank_chat_statement rank_chat_thinking_read(rank_chat_thinking *read, const char *tag,
                                            const char **end);

/* To be called behind a tag that begins the answer: the switch may follow. */
void rank_chat_thinking_answer_begins(rank_chat_thinking *read);

/* Whether the template has the switch enable_thinking: an answer can begin behind thoughts that are empty. */
bool rank_chat_thinking_has_switch(const rank_chat_thinking *read);

/* Whether the variable `content` is the message's content. */
bool rank_chat_thinking_has_content(const rank_chat_thinking *read);

/* After the last tag: whether the template does all of it, or nothing. */
bool rank_chat_thinking_is_whole(const rank_chat_thinking *read);

/* An answer: what was thought, without line ends around it, and what was said. Without </think> all was said. */
typedef struct rank_chat_thought {
    const char *thought;
    size_t thought_bytes;
    const char *said; /* up to the content's NUL */
} rank_chat_thought;

rank_chat_thought rank_chat_thought_of(const char *content);

/* The index of the last question: a user's message that is no answer of a tool. Without one, of the last
 * message. texts: as rank_chat_encode takes them. */
uint32_t rank_chat_last_question(const char *texts, uint32_t message_count);

#endif
