/* The tensors of a checkpoint, open to be read: one safetensors file, or the several that an index
 * names. Shared by the readers of whole models and of shards.
 *
 * Several files count as one: `all` has the tensors of each, and their offsets go on from file to
 * file. A tensor is in one file.
 *
 * One thread at a time uses it. */
#ifndef RANK_CHECKPOINT_WEIGHTS_H
#define RANK_CHECKPOINT_WEIGHTS_H

#include <stdbool.h>

#include "base/safetensors.h"
#include "rank/model.h"

typedef struct rank_weights_file rank_weights_file;

typedef struct rank_weights {
    base_safetensors all; /* owner and data are NULL */
    rank_weights_file *files;
    int file_count;
    char *part_names; /* of tensors that are parts of a file's (fused.h) */
    bool takes_any;   /* rank_weights_read takes infinities and NaNs, too */
} rank_weights;

/* How much of tied tensors, which must hold the same, is compared. */
typedef enum rank_tied {
    RANK_TIED_LENGTHS, /* nothing but headers is read */
    RANK_TIED_CONTENTS,
} rank_tied;

/* Opens the file at path; or, if there is PATH.index.json, the files that it names, which are beside
 * it. Checks that they have every tensor that the model needs, with its type and shape, and no
 * others except ignored ones. BASE_ERR_NOTFOUND, BASE_ERR_INVALID, BASE_ERR_LIMIT and
 * BASE_ERR_UNSUPPORTED name the file and the flaw. */
BASE_MUST_CHECK base_status rank_weights_open(rank_weights *weights, const char *path,
                                              const rank_model_config *config, rank_tied tied,
                                              base_error *reterr);

/* to = `count` elements of the tensor from the one at `first` on, as float32. `tensor` is one of
 * `all`. An infinity or a NaN among them is BASE_ERR_INVALID, which names the tensor. Blocks as long as
 * reading takes. */
BASE_MUST_CHECK base_status rank_weights_read(const rank_weights *weights,
                                              const base_safetensor *tensor, size_t first,
                                              size_t count, float *to, base_error *reterr);

/* Whether two tensors of the same length have the same bytes. */
BASE_MUST_CHECK base_status rank_weights_same(const rank_weights *weights, const base_safetensor *a,
                                              const base_safetensor *b, bool *same,
                                              base_error *reterr);

void rank_weights_close(rank_weights *weights); /* zeros are fine */

#endif
