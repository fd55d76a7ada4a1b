/* Tokens that a grammar allows (proto/grammar.h): the mask of a row's logits before a token is drawn.
 *
 * Every rank follows the text of each sequence that has a grammar, token by token, and forbids the same tokens. So the
 * bits do not depend on how many ranks there are, and drafts change nothing: a forbidden token is not drawn, whoever
 * has drafted it. A token is allowed if the grammar takes all of its bytes. One that ends the text is
 * allowed where the grammar may end and, if it has bytes, nowhere else but where no other token is left. Tokens without bytes, and those of more than TOKEN_BYTES_MAX, are not.
 *
 * Some token is always allowed: a byte is taken only if an end can follow (proto_grammar_check), and the vocabulary must
 * have a token of each single byte that the grammar needs (rank_grammars_check). The time of a row is bounded: where a
 * schema has so many alternatives that it takes too long to look at all tokens, later ones of several bytes are forbidden.
 *
 * One thread. No allocation after create. */
#ifndef RANK_GENERATE_GRAMMAR_H
#define RANK_GENERATE_GRAMMAR_H

#include "generate/adjust.h"
#include "generate/schedule.h"

struct rank_tokenizer;

typedef struct rank_grammars rank_grammars;

/* tokenizer: used during the call only. vocab_size: the model's. */
BASE_MUST_CHECK base_status rank_grammars_create(const struct rank_tokenizer *tokenizer,
                                                 int32_t vocab_size, int32_t sequences,
                                                 rank_grammars **grammars, base_error *reterr);
void rank_grammars_destroy(rank_grammars *grammars); /* NULL is fine */

/* BASE_ERR_INVALID: the request cannot have this grammar with the vocabulary, or none of its tokens ends a text. NULL: no
 * request can have one. */
BASE_MUST_CHECK base_status rank_grammars_check(const rank_grammars *grammars,
                                                const rank_request *request, base_error *reterr);

/* What stands before the row's token. */
typedef struct rank_grammar_text {
    int32_t sequence; /* its index in the schedule */
    const rank_request *request;
    const proto_grammar_step *steps; /* of its grammar, checked */
    const rank_adjust_text *text;
    int32_t known; /* tokens of the text that stay; those behind are drafted */
} rank_grammar_text;

/* Sets logits of the row to -infinity. Where a draft has left the grammar the row means nothing, and stays as it is. */
void rank_grammars_mask(rank_grammars *grammars, const rank_grammar_text *where,
                        const rank_adjust_row *row);

#endif
