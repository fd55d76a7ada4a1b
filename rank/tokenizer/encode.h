/* What tokenizer-encode does: files of text to a file of tokens (data/token_file.h). Texts are read in order, in parts,
 * and some threads encode the parts. Memory does not depend on the files' sizes. */
#ifndef RANK_TOKENIZER_ENCODE_H
#define RANK_TOKENIZER_ENCODE_H

#include "base/status.h"
#include "token_writer.h"

enum { RANK_ENCODE_THREADS_MAX = 256 };

typedef struct rank_encode_options {
    const char *tokenizer_path;
    const char *out_path;
    char *const *text_paths; /* (text_count) */
    int text_count;
    int threads; /* 1 … RANK_ENCODE_THREADS_MAX */
    void (*opened)(
        void); /* called when OUT.tmp is there, which becomes OUT at the end; NULL: none */
} rank_encode_options;

/* Writes the file, whose directory is made where it is missing. Every text ends with the end token. Logs what long runs
 * are at. BASE_ERR_INVALID: out_path has another ending than .safetensors, the tokenizer has no end token, a text cannot
 * be read as one, or there is none. */
BASE_MUST_CHECK base_status rank_encode_run(const rank_encode_options *options,
                                            rank_token_summary *summary, base_error *reterr);

#endif
