/* Learns byte-pair merges (Sennrich, Haddow and Birch 2016) from counted pieces.
 *
 * Each merge joins the pair of neighbouring ids that occurs most often; of equally frequent ones, the one
 * with the smaller left id, then the smaller right one. The same texts in any order give the same merges.
 * No merge makes a token above RANK_BPE_TOKEN_BYTES_MAX, and none a token that exists: a token's bytes
 * become the same parts wherever no part crosses their bounds.
 *
 * What a merge costs is where its pair occurs, not the whole text: the positions of each pair are a list,
 * and the counts of the pairs beside it follow. Memory is 28 bytes for each byte of the different pieces,
 * and 40 for each pair that has ever stood side by side, twice as much while they grow. One thread at a
 * time. */
#ifndef RANK_TOKENIZER_LEARN_H
#define RANK_TOKENIZER_LEARN_H

#include <stdbool.h>
#include <stdint.h>

#include "../data/bpe.h"
#include "base/status.h"
#include "piece_table.h"

typedef struct rank_learner rank_learner;

/* The table stays the caller's, and as it is while the learner lives. */
BASE_MUST_CHECK base_status rank_learner_create(const rank_piece_table *table,
                                                rank_learner **learner, base_error *reterr);
void rank_learner_destroy(rank_learner *learner); /* NULL is fine */

/* Makes the next merge. *found is false if no pair occurs twice any more. BASE_ERR_LIMIT: there are
 * RANK_BPE_MERGES_MAX already. After a failure the learner can only be destroyed. */
BASE_MUST_CHECK base_status rank_learner_next(rank_learner *learner, rank_bpe_pair *merge,
                                              bool *found, base_error *reterr);

/* How many ids all texts have with the merges made so far. */
uint64_t rank_learner_id_count(const rank_learner *learner);

#endif
