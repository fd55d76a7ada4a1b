/* What tokenizer-learn does: files of text to a tokenizer.json. */
#ifndef RANK_TOKENIZER_PROGRAM_H
#define RANK_TOKENIZER_PROGRAM_H

#include <stdint.h>

#include "../data/bpe.h"
#include "base/status.h"

enum {
    RANK_LEARN_VOCAB_MIN = RANK_BPE_BYTES + 1, /* the bytes and the end token */
    RANK_LEARN_VOCAB_MAX = RANK_LEARN_VOCAB_MIN + RANK_BPE_MERGES_MAX,
};

typedef struct rank_learn_options {
    int vocab_size; /* RANK_LEARN_VOCAB_MIN … RANK_LEARN_VOCAB_MAX */
    const char *out_path;
    char *const *text_paths; /* (text_count) */
    int text_count;
} rank_learn_options;

/* What was learned from. */
typedef struct rank_learn_summary {
    uint64_t text_bytes;
    uint64_t id_count; /* of the texts, with the new tokenizer */
} rank_learn_summary;

/* Writes the file, whose directory is made where it is missing. Logs what long runs are at.
 * BASE_ERR_INVALID: the texts have too few merges; the message has the largest vocabulary. */
BASE_MUST_CHECK base_status rank_learn_run(const rank_learn_options *options,
                                           rank_learn_summary *summary, base_error *reterr);

#endif
