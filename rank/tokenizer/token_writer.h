/* Writes a file of tokens (data/token_file.h), as they come. Its header stands before them, and says how many there are:
 * room is left for it, and it is written last. Until commit there is only PATH.tmp. One thread at a time. */
#ifndef RANK_TOKENIZER_TOKEN_WRITER_H
#define RANK_TOKENIZER_TOKEN_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct rank_token_writer rank_token_writer;

typedef struct rank_token_writer_options {
    int vocab_size; /* every token is below it */
    /* These two until commit: */
    const char *tokenizer_sha256;
    char *const *sources; /* (source_count), the names of the texts, in UTF-8 */
    int source_count;
} rank_token_writer_options;

/* What the metadata says of the texts. */
typedef struct rank_token_summary {
    uint64_t documents;
    uint64_t text_bytes;
    uint64_t token_count; /* that were put */
} rank_token_summary;

/* BASE_ERR_INVALID: the path is a device or a pipe, or a source's name is not UTF-8; BASE_ERR_LIMIT: the names are too
 * long; BASE_ERR_IO, BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status rank_token_writer_open(const char *path,
                                                   const rank_token_writer_options *options,
                                                   rank_token_writer **writer, base_error *reterr);
BASE_MUST_CHECK base_status rank_token_writer_put(rank_token_writer *writer, const int32_t *ids,
                                                  size_t count, base_error *reterr);

/* Writes the header, synchronizes the file to the disk, and renames it. Frees the writer in every case. */
BASE_MUST_CHECK base_status rank_token_writer_commit(rank_token_writer *writer,
                                                     const rank_token_summary *summary,
                                                     base_error *reterr);
/* Leaves nothing. NULL is fine. */
void rank_token_writer_abandon(rank_token_writer *writer);

#endif
