/* What a training with --optimizer muon exchanges. Private to rank/train; muon.c makes it. */
#ifndef RANK_TRAIN_MUON_H
#define RANK_TRAIN_MUON_H

#include "coll/coll.h"
#include "rank/zero.h"

typedef struct trainer_round_ops {
    coll_op *there; /* parts of matrices, to the ranks that compute them */
    coll_op *back;
} trainer_round_ops;

/* With Muon; else empty. */
typedef struct trainer_muon {
    coll_op *gather;           /* of what each rank has updated; NULL: matrices are in parts, or
                                   * nobody shares any */
    trainer_round_ops *rounds; /* of matrices in parts */
    int round_count;
    rank_zero_stretch *stretches; /* with --zero: how parameters are cut; else NULL */
    size_t stretch_count;
} trainer_muon;

#endif
