/* One rank's part of adapters (rank/adapters.h) that stand beside a model's matrices. shards.c keeps them. */
#ifndef RANK_CHECKPOINT_SHARDS_BESIDE_H
#define RANK_CHECKPOINT_SHARDS_BESIDE_H

#include "checkpoint/shards.h"

typedef struct rank_shards_beside {
    rank_shards *adapters; /* NULL: there are none */
    rank_beside *rows;     /* (layers, count) */
    int count;
} rank_shards_beside;

/* Whether the options have adapters that do not go into the matrices: these have another type. */
bool rank_shards_are_beside(const rank_shards_options *options);

/* Makes them beside the model's own shards, of which `model` are the hooks. Statuses: as rank_shards_create. */
BASE_MUST_CHECK base_status rank_shards_beside_make(const rank_shards_options *options,
                                                    const rank_hooks *model,
                                                    rank_shards_beside *made, base_error *reterr);
void rank_shards_beside_free(rank_shards_beside *made);

/* The bytes that they will take; 0: there are none. */
size_t rank_shards_beside_plan(const rank_shards_options *options);

#endif
