/* The types of floating-point numbers in checkpoints. Shared by the readers of whole models and of
 * shards, and by their writer. */
#ifndef RANK_CHECKPOINT_WIDEN_H
#define RANK_CHECKPOINT_WIDEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/safetensors.h"
#include "rank/model.h"

/* Whether the tensor's type is F32, BF16 or F16. */
bool rank_widen_knows(const base_safetensor *tensor);

/* to = `count` elements of the tensor's type as float32: each of them is exact. `from` may be in the
 * last bytes of `to`. */
void rank_widen(const base_safetensor *tensor, const void *from, size_t count, float *to);

/* to = `count` elements rounded to nearest, ties to even. NaN stays NaN. */
void rank_narrow(const float *from, size_t count, rank_bfloat16 *to);

/* Whether none of `count` values is an infinity or a NaN. */
bool rank_all_finite(const float *values, size_t count);

#endif
