/* How an answer ends. */
#ifndef RANK_GENERATE_FINISH_H
#define RANK_GENERATE_FINISH_H

typedef enum rank_finish {
    RANK_FINISH_NOT = 0,
    RANK_FINISH_STOP,      /* the token is one of the stop tokens */
    RANK_FINISH_LENGTH,    /* it is the last of max_new_tokens */
    RANK_FINISH_CONTEXT,   /* it is the last that the context has room for */
    RANK_FINISH_CANCELLED, /* no token */
} rank_finish;

#endif
