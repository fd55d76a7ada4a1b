/* Whether a safetensors file holds a model's tensors, and under which names. Shared by the readers
 * of whole models and of shards. */
#ifndef RANK_CHECKPOINT_MATCH_H
#define RANK_CHECKPOINT_MATCH_H

#include "base/safetensors.h"
#include "rank/model.h"

/* How a reader compares what two tensors of the file hold. */
typedef struct rank_same_bytes {
    base_status (*compare)(void *user, const base_safetensor *a, const base_safetensor *b,
                           bool *same, base_error *reterr);
    void *user;
} rank_same_bytes;

/* Everything the model wants is there, with the type and shape that it wants, and nothing else that
 * means something; tensors that the family ties hold the same. */
BASE_MUST_CHECK base_status rank_tensors_check(const base_safetensors *file,
                                               const rank_model_config *config,
                                               const rank_same_bytes *same, base_error *reterr);

/* A tensor by its name or, where the file has it only so, by the one it is tied to; NULL. */
const base_safetensor *rank_tensors_find(const base_safetensors *file, const rank_family *family,
                                         const rank_tensor *wanted);

#endif
