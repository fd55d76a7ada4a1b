/* A small model that drafts: what a sequence may draw next, beside the model that decides.
 *
 * Every rank has the whole of it, with a key-value cache of its own, and drafts by itself. Its bits do
 * not depend on the number of ranks or on what runs beside, so all ranks draft the same tokens, and
 * nothing is exchanged. rank_engine_step compares a digest of them.
 *
 * Its cache has as many blocks as the engine's, and a sequence has the blocks of the same numbers in
 * both. Before a step the model computes the tokens that it has not seen yet, at most so many that a
 * step stays short: of texts that may draft, then of prompts. The beginning of a prompt that is cached for
 * the engine is cached here, too, if this model has computed it, as a digest of its tokens says: one that
 * were wrong could only make drafts wrong. Then it drafts token by token, for all
 * these texts together. A token is drawn as the request asks for it, with the same noise (sample.h):
 * it is the one that would be drawn if this model decided.
 *
 * The two vocabularies may differ in length, by padding behind the tokenizer's tokens. Ids that one of them
 * does not have are not drafted.
 *
 * One thread. No allocation per step. */
#ifndef RANK_GENERATE_DRAFTER_H
#define RANK_GENERATE_DRAFTER_H

#include "generate/alone.h"
#include "generate/schedule.h"
#include "model/family.h"

struct rank_tensor_source;

/* A model that drafts. */
typedef struct rank_draft_model {
    rank_model_config config;
    const char *weights;                     /* path of model.safetensors; NULL: source */
    const struct rank_tensor_source *source; /* checkpoint/shards.h */
    rank_type type;                          /* of matrices */
} rank_draft_model;

typedef struct rank_drafter_options {
    const rank_draft_model *model; /* borrowed; of the schedule's tokens */
    const rank_device *device;     /* borrowed; one that captures nothing */
    rank_schedule *schedule;       /* borrowed: whose texts it drafts, */
    size_t table_width;            /* and the blocks of a whole context there */
    rank_alone *alone;             /* as in rank_engine_options */
} rank_drafter_options;

typedef struct rank_drafter rank_drafter;

BASE_MUST_CHECK base_status rank_drafter_create(const rank_drafter_options *options,
                                                rank_drafter **drafter, base_error *reterr);
void rank_drafter_destroy(rank_drafter *drafter); /* NULL is fine */

/* Drafts for the schedule's next step. */
BASE_MUST_CHECK base_status rank_drafter_run(rank_drafter *drafter, base_error *reterr);

/* Its memory, for reports; zeros of NULL. */
rank_memory_use rank_drafter_planned(const rank_drafter *drafter);

#endif
