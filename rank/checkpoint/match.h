/* Whether a safetensors file has a model's tensors, and under which names. Called by weights.c
 * and the readers of whole models and of shards. */
#ifndef RANK_CHECKPOINT_MATCH_H
#define RANK_CHECKPOINT_MATCH_H

#include "base/safetensors.h"
#include "checkpoint/weights.h"
#include "rank/model.h"

/* Checks that the file has every tensor that the model needs, with its type and shape, and no
 * others except ignored ones. Tied tensors must have the same content, which is read from
 * `contents`; NULL: only their types and lengths are compared. */
BASE_MUST_CHECK base_status rank_tensors_check(const base_safetensors *file,
                                               const rank_model_config *config,
                                               const rank_weights *contents, base_error *reterr);

/* Finds a tensor by its name or, if the file has only that, by the name it is tied to. NULL:
 * none. */
const base_safetensor *rank_tensors_find(const base_safetensors *file, const rank_family *family,
                                         const rank_tensor *wanted);

#endif
