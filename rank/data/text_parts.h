/* Reads the texts of a file part by part: a plain text in blocks, or lines of JSON, each of which is a text of one
 * part. Training, tokenizer-learn and tokenizer-encode read with this, so that all cut a plain text at the same places: where
 * rank_text_cut says, or where RANK_DATA_BLOCK_BYTES have no such place, before a character. Memory does not depend
 * on the file's size. */
#ifndef RANK_DATA_TEXT_PARTS_H
#define RANK_DATA_TEXT_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct rank_text_part {
    const char *at; /* until the call that gets it returns */
    size_t bytes;
    bool begins;   /* its text, */
    bool ends;     /* or is the last part of it */
    bool is_pair;  /* a wrong and a right sentence */
    bool is_asked; /* a prompt with its completion, or the contents of a chat's messages */
} rank_text_part;

/* What gets the parts, in order, until one is refused. */
typedef base_status (*rank_text_take)(void *user, const rank_text_part *part, base_error *reterr);

/* A plain text from a file that is open, which may be a pipe. It may have any bytes but NUL; a mark of UTF-8 at its
 * begin is left out. An empty one has no part. BASE_ERR_INVALID: a NUL; BASE_ERR_IO, BASE_ERR_MEMORY, and what
 * `take` says. */
BASE_MUST_CHECK base_status rank_text_parts_plain(const char *path, int fd, rank_text_take take,
                                                  void *user, base_error *reterr);

/* The texts of a regular file of JSON lines (record.h). Errors of a line, `take`'s too, begin with "FILE:LINE: ".
 * BASE_ERR_NOTFOUND, BASE_ERR_IO, BASE_ERR_INVALID, BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status rank_text_parts_lines(const char *path, rank_text_take take, void *user,
                                                  base_error *reterr);

#endif
