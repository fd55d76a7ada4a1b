/* Greedy generation and exact-match evaluation, many prompts at a time.
 *
 * The prompts' tokens are packed into batches as in training; in every round each unfinished
 * sequence gets its most probable next token (the lowest id of equals), until the end token,
 * new_tokens_max, or a full context. The same prompt gives the same text whatever stands beside it,
 * up to the matrix library's dependence on the number of rows. One thread. */
#ifndef RANK_GENERATE_H
#define RANK_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rank/data.h"
#include "rank/model.h"
#include "rank/tokenizer.h"

enum { RANK_GENERATE_TEXT_BYTES = 4096 }; /* of one answer, with its NUL; a longer one is cut */

typedef struct rank_generate_options {
    rank_model *model; /* scratch; made for at least one context of tokens */
    const rank_model_config *config;
    const float *params;
    rank_tokenizer *tokenizer;
    int token_count_max; /* the model's */
    int new_tokens_max;
    bool correction;                 /* put " →" behind each prompt, as the corpus has it */
    bool (*should_stop)(void *user); /* asked before every round; NULL: to the end */
    void *stop_user;
} rank_generate_options;

/* One answer, in the order of the prompts; text is valid during the call only. */
typedef void (*rank_on_answer)(void *user, size_t index, const char *prompt, const char *text);

/* BASE_ERR_INVALID names a prompt that does not fit into the context. Where should_stop says so it
 * ends early, BASE_OK, with the answers that are whole by then. */
BASE_MUST_CHECK base_status rank_generate(const rank_generate_options *options,
                                          const char *const *prompts, size_t prompt_count,
                                          rank_on_answer on_answer, void *user, base_error *reterr);

/* Corrects every wrong sentence and counts the answers that equal the right one byte for byte.
 * Ended early, it has judged nothing: both are 0. */
BASE_MUST_CHECK base_status rank_evaluate(const rank_generate_options *options,
                                          const rank_pairs *pairs, uint64_t *total,
                                          uint64_t *correct, base_error *reterr);

#endif
