/* Reports this rank's progress with its texts to the launcher: for a job of one prompt the text
 * itself, token by token; for others a count, at most five times a second. One thread. */
#ifndef RANK_GENERATE_PROGRESS_H
#define RANK_GENERATE_PROGRESS_H

#include "generate/generate.h"
#include "generate/stream_text.h"
#include "proto/client.h"

typedef struct rank_progress {
    proto_client *client;
    rank_tokenizer *tokenizer;
    uint64_t prompts;  /* of this rank */
    bool streams;      /* the job has only one prompt */
    uint64_t tokens;   /* so far */
    uint64_t answered; /* of prompts */
    int64_t due_ns;    /* when the next count is due */
    rank_stream_text text;
} rank_progress;

/* A rank_generate_options.on_token; user: the rank_progress. */
void rank_progress_token(void *user, const rank_drawn_token *token);

/* After the last token. A cancelled text can end inside a character: sends U+FFFD for it, as the
 * results have it. */
void rank_progress_end(rank_progress *progress);

#endif
