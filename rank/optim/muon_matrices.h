/* The inside of Muon: its matrices, which rank has what of each, and which rank computes it.
 * muon_matrices.c finds them, muon.c updates them. */
#ifndef RANK_OPTIM_MUON_MATRICES_H
#define RANK_OPTIM_MUON_MATRICES_H

#include "optim/muon.h"

/* Neighbouring elements of a matrix that this rank has. */
typedef struct muon_run {
    size_t offset; /* in the parameters */
    size_t place;  /* in the moments */
    size_t count;
} muon_run;

typedef struct muon_matrix {
    int index;     /* of the tensor */
    size_t offset; /* in what this rank has of the parameters, or with ZeRO in all of them */
    size_t rows;   /* of the whole matrix */
    size_t columns;
    bool parted;              /* each rank has a part of it alone */
    bool apart;               /* between the copies, not between all ranks */
    const rank_zero_cut *cut; /* of ZeRO, where it is parted; NULL: between tensor ranks */
    int owner;                /* the rank that computes it */
    int round;                /* in which it does so; -1: it is not parted */
    size_t first_run;         /* of this rank's runs of it */
    size_t run_count;
} muon_matrix;

/* Floats of what the iterations work in. */
typedef struct muon_room {
    size_t update; /* of the largest matrix, */
    size_t gram;   /* of the smaller square of one, */
    size_t packed; /* of a product's scratch, */
    size_t mine;   /* and of this rank's parts of the matrices of a round */
} muon_room;

typedef struct muon_matrices {
    rank_model_config model;
    rank_muon_options options;
    rank_zero_stretch *stretches; /* of the options; NULL: there are none */
    size_t param_count;           /* where parameters are whole, or held; with ZeRO of all */
    muon_matrix *all;
    size_t count;
    muon_run *runs;
    int rounds; /* of matrices that are parted; */
    int common; /* of these the first ones, between all ranks */
    muon_room room;
} muon_matrices;

/* Finds those of blocks that are held. Free it also after a failure. */
BASE_MUST_CHECK base_status muon_matrices_make(const rank_model_config *model,
                                               const rank_muon_options *options,
                                               const rank_held *held, muon_matrices *made,
                                               base_error *reterr);
void muon_matrices_free(muon_matrices *matrices);

/* How many ranks share out a matrix, or those of a round; and which of them this one is. */
int muon_ranks(const muon_matrices *of, bool apart);
int muon_rank(const muon_matrices *of, bool apart);

size_t muon_smaller(const muon_matrix *of);

/* Of a matrix that is parted: how much one of these ranks has. */
size_t muon_part_count(const muon_matrices *of, const muon_matrix *matrix, int rank);

/* Copies that from the whole matrix, or to it. Returns the end of the part. */
float *muon_take_part(const muon_matrices *of, const muon_matrix *matrix, int rank,
                      const float *whole, float *part);
const float *muon_put_part(const muon_matrices *of, const muon_matrix *matrix, int rank,
                           const float *part, float *whole);

#endif
