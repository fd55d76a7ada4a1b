/* What completes a command line from files, beside launch_options_complete. */
#ifndef LAUNCH_COMPLETE_H
#define LAUNCH_COMPLETE_H

#include "proto/job.h"

/* Reads the model's shape from config.json in model->checkpoint. */
BASE_MUST_CHECK base_status launch_checkpoint_shape(proto_job_model *model, base_error *reterr);

/* Checks that the model in that directory is a GPT-2. Others are refused with `why`.
 * BASE_ERR_UNSUPPORTED. */
BASE_MUST_CHECK base_status launch_checkpoint_is_gpt2(const char *checkpoint, const char *why,
                                                      base_error *reterr);

#endif
