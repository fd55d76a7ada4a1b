/* Matrices that a checkpoint has as one: Phi-3's queries, keys and values. Called by weights.c and safetensors.c. */
#ifndef RANK_CHECKPOINT_FUSED_H
#define RANK_CHECKPOINT_FUSED_H

#include "base/safetensors.h"
#include "rank/model.h"

/* Puts in place of each such matrix its parts, under their own names: rows of the same bytes. So everybody finds the
 * model's own tensors. *names: of the parts, which the caller frees when it releases the file, also after a failure.
 * file: with by_name, which is made anew. BASE_ERR_INVALID names a matrix of another shape. */
BASE_MUST_CHECK base_status rank_fused_split(base_safetensors *file,
                                             const rank_model_config *config, char **names,
                                             base_error *reterr);

/* What files have in place of the model's tensor `index`: that one, or the matrix of which it is the first part.
 * Returns the index of the tensor behind it. */
int rank_fused_next(const rank_model_config *config, int index, rank_tensor *tensor);

#endif
