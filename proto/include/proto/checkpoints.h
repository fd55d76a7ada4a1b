/* The checkpoints of a training: OUT/checkpoints/step-000000500, one directory for each.
 *
 * A checkpoint has all that the training needs to go on with the same bits: the model as a directory
 * of Hugging Face's (rank/checkpoint.h), AdamW's moments (exp_avg.safetensors, exp_avg_sq.safetensors,
 * under the names of the model's tensors; of local steps those of each rank, and the outer momentum), and
 * training.json. It is written under another name and
 * renamed when it is whole and on the disk. */
#ifndef PROTO_CHECKPOINTS_H
#define PROTO_CHECKPOINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

#define PROTO_CHECKPOINTS_DIRECTORY "checkpoints" /* in OUT */
#define PROTO_CHECKPOINT_PARTIAL    "partial"     /* there: one that is being written */
#define PROTO_ADAPTER_DIRECTORY     "adapter"     /* in OUT: the adapters of a --lora-merge */

enum { PROTO_CHECKPOINTS_KEPT = 2 }; /* where --keep does not say how many */

/* The path of the checkpoint that was written after `step` steps. BASE_ERR_LIMIT: it gets too long. */
BASE_MUST_CHECK base_status proto_checkpoint_path(const char *out, uint64_t step,
                                                  char path[BASE_PATH_BYTES], base_error *reterr);

/* The step of a checkpoint's directory, from its name. False: it is no such name. */
bool proto_checkpoint_step(const char *name, uint64_t *step);

/* The newest checkpoint in OUT: that of the most steps. Without one, *found is false. BASE_ERR_IO: the
 * directory cannot be read. */
BASE_MUST_CHECK base_status proto_checkpoints_newest(const char *out, bool *found, uint64_t *step,
                                                     base_error *reterr);

/* The same of those of fewer than `end` steps. */
BASE_MUST_CHECK base_status proto_checkpoints_newest_before(const char *out, uint64_t end,
                                                            bool *found, uint64_t *step,
                                                            base_error *reterr);

/* Removes what is left of one that was being written, or removed, if anything is. */
BASE_MUST_CHECK base_status proto_checkpoint_discard_partial(const char *out, base_error *reterr);

/* Removes all but the newest `keep` checkpoints; 0: all of them, the one that is being written, and then
 * the directory. Other files there stay, and so does the directory if it has any. */
BASE_MUST_CHECK base_status proto_checkpoints_prune(const char *out, int64_t keep,
                                                    base_error *reterr);

#endif
