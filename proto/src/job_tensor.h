/* Which numbers of ranks can share a model. rank/parallel/tensor cuts it. Pure. */
#ifndef PROTO_JOB_TENSOR_H
#define PROTO_JOB_TENSOR_H

#include "proto/job.h"

/* Checks that the ranks of a stage can share its layers: that their number is a power of two, and divides
 * heads and columns of the MLP, and that each rank has an id of the vocabulary. BASE_ERR_INVALID: the message
 * has the numbers that can. */
BASE_MUST_CHECK base_status proto_job_check_tensor(const proto_job *job, base_error *reterr);

#endif
