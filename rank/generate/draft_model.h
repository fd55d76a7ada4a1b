/* The model that drafts, as a job names it. */
#ifndef RANK_GENERATE_DRAFT_MODEL_H
#define RANK_GENERATE_DRAFT_MODEL_H

#include "base/limits.h"
#include "generate/drafter.h"
#include "proto/job.h"
#include "rank/tokenizer.h"

/* The model, and the path of its file. */
typedef struct rank_job_draft {
    rank_draft_model model;
    char weights[BASE_PATH_BYTES]; /* model.weights points here: it is not copied */
} rank_job_draft;

/* Reads what the job's draft checkpoint says of itself, and checks that it has the tokenizer's tokens. The
 * type is float32. */
BASE_MUST_CHECK base_status rank_mode_read_draft(const proto_job *job,
                                                 const rank_tokenizer *tokenizer,
                                                 rank_job_draft *draft, base_error *reterr);

#endif
