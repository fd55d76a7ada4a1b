/* The config.json of a checkpoint, as far as a job and a plan need it. */
#ifndef LAUNCH_CHECKPOINT_SHAPE_H
#define LAUNCH_CHECKPOINT_SHAPE_H

#include "proto/job.h"

/* Reads the model's shape from config.json in model->checkpoint. */
BASE_MUST_CHECK base_status launch_checkpoint_shape(proto_job_model *model, base_error *reterr);

/* Reads config.json of a checkpoint. *config is the caller's: json_decref. */
struct json_t;
BASE_MUST_CHECK base_status launch_checkpoint_config(const char *checkpoint, struct json_t **config,
                                                     base_error *reterr);

#endif
