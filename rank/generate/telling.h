/* Tells the launcher how far this rank has come with its texts: of a job of one prompt the text
 * itself, token by token; of others a count, at most five times a second. One thread. */
#ifndef RANK_GENERATE_TELLING_H
#define RANK_GENERATE_TELLING_H

#include "generate/generate.h"
#include "generate/stream_text.h"
#include "proto/client.h"

typedef struct rank_telling {
    proto_client *client;
    rank_tokenizer *tokenizer;
    uint64_t prompts;  /* of this rank */
    bool streams;      /* it is the job's only one */
    bool has_begun;    /* its first byte has come: a space there is left out */
    uint64_t tokens;   /* so far */
    uint64_t answered; /* of prompts */
    int64_t due_ns;    /* for the next count */
    rank_stream_text text;
} rank_telling;

/* A rank_generate_options.on_token; user: the rank_telling. */
void rank_telling_token(void *user, const rank_drawn_token *token);

#endif
