/* Learns byte-pair merges (Sennrich, Haddow and Birch 2016) from texts cut into pieces.
 *
 * Each step joins the pair of neighbouring ids that occurs most often; of equally frequent ones,
 * the one with the smaller left id, then the smaller right one. The same texts in any order give
 * the same merges. */
#ifndef CORPUS_BPE_TRAIN_H
#define CORPUS_BPE_TRAIN_H

#include <stddef.h>

#include "../data/bpe.h"
#include "base/status.h"

typedef struct corpus_bpe_trainer corpus_bpe_trainer;

BASE_MUST_CHECK base_status corpus_bpe_trainer_create(corpus_bpe_trainer **trainer,
                                                      base_error *reterr);
void corpus_bpe_trainer_destroy(corpus_bpe_trainer *trainer);

/* Counts the pieces of a text. */
BASE_MUST_CHECK base_status corpus_bpe_trainer_add(corpus_bpe_trainer *trainer, const char *text,
                                                   base_error *reterr);

/* Writes exactly merge_count merges. BASE_ERR_INVALID if the texts give fewer. */
BASE_MUST_CHECK base_status corpus_bpe_trainer_run(corpus_bpe_trainer *trainer, int merge_count,
                                                   rank_bpe_pair *merges, base_error *reterr);

#endif
