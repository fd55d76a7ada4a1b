/* Checks what the ranks of a job hold of a model. Pure. */
#ifndef PROTO_JOB_LAYOUT_H
#define PROTO_JOB_LAYOUT_H

#include "proto/job.h"

/* Checks replicas, stages, tensor ranks and ZeRO's stage. BASE_ERR_INVALID names the setting. */
BASE_MUST_CHECK base_status proto_job_check_layout(const proto_job *job, base_error *reterr);

/* Checks what the files job_experts.c, job_local.c and job_lora.c are about. */
BASE_MUST_CHECK base_status proto_job_check_experts(const proto_job *job, base_error *reterr);
BASE_MUST_CHECK base_status proto_job_check_lora(const proto_job *job, base_error *reterr);
BASE_MUST_CHECK base_status proto_job_check_local(const proto_job *job, base_error *reterr);

/* The model's shape, a batch, the schedule, and what else job_training.c is about. Of a checkpoint's model its
 * family says how wide heads are. */
BASE_MUST_CHECK base_status proto_job_check_training(const proto_job *job, base_error *reterr);

#endif
