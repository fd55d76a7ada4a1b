/* Checks the tokenizer of a model that drafts. */
#ifndef LAUNCH_COMPLETE_DRAFT_H
#define LAUNCH_COMPLETE_DRAFT_H

#include "proto/job.h"

/* Of a job with --draft whose tokenizer is known. BASE_ERR_INVALID names both tokenizers where an id
 * means another token in one than in the other. */
BASE_MUST_CHECK base_status launch_draft_check(const proto_job *job, base_error *reterr);

#endif
