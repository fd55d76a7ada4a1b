/* What kind of model a job trains, in words for its record. */
#ifndef LAUNCH_ARCHITECTURE_H
#define LAUNCH_ARCHITECTURE_H

#include <stdbool.h>

#include "proto/job.h"

typedef struct launch_architecture {
    char text[160]; /* "GPT-2, pre-norm, tied embedding"; empty: not known */
    bool untied;    /* the output has a matrix of its own, so no two stages hold the same one */
} launch_architecture;

/* Of the checkpoint's config.json, or without a checkpoint of what is then trained: a GPT-2, or a Mixtral. */
void launch_architecture_find(const proto_job_model *model, launch_architecture *found);

/* Whether several ranks would hold the same parameters, which can be compared: all ranks all of them, the
 * equal stages of several pipelines theirs, the first and the last stage of a pipeline the tied matrix, or
 * the ranks that share a stage what is not cut between them. Shards of parameters have no copy. */
bool launch_architecture_copies(const launch_architecture *of, const proto_job *job);

#endif
