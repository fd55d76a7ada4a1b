/* Whether a checkpoint's chat template is of a form that is known here. The template is a program, which is not run.
 * It is of the form if each place where it writes a mark is as the form has it, so that another program with the
 * same marks (other names of roles, other words around a content) is not taken for it. Pure. */
#ifndef RANK_DATA_CHAT_FORM_H
#define RANK_DATA_CHAT_FORM_H

#include <stdbool.h>

enum { RANK_CHAT_SYSTEM_BYTES = 1024, RANK_CHAT_STATEMENT_BYTES = 256 };

typedef struct rank_chat_form {
    const char *name;
    const char *open;  /* tokens: before the role, */
    const char *named; /* behind it ("": none), */
    const char *close; /* and behind the content */
    const char *gap;   /* texts: between role and content, */
    const char *tail;  /* and behind the message */
    bool dated;        /* a system message may begin with dates */
} rank_chat_form;

/* What the template says beside. */
typedef struct rank_chat_habits {
    bool trims;                          /* contents lose the spaces at both ends */
    bool thinks;                         /* earlier answers lose their thoughts (chat_thinking.h) */
    bool has_switch;                     /* … and an answer may begin behind empty ones */
    bool begins;                         /* bos_token comes first */
    bool ends_answered;                  /* no answer is begun behind a last message that is one */
    bool adds_system;                    /* where the first message is not the system's: */
    char system[RANK_CHAT_SYSTEM_BYTES]; /* this is its content, */
    char
        preamble[RANK_CHAT_SYSTEM_BYTES]; /* behind this, which begins every first system message */
    char
        unknown[RANK_CHAT_STATEMENT_BYTES]; /* of a form that is not known: a statement that decides
                                              * whether an answer is begun, cut; "": that is not why */
} rank_chat_habits;

/* NULL: the template is of no form that is known. */
const rank_chat_form *rank_chat_form_find(const char *template, rank_chat_habits *habits);

#endif
