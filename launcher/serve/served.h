/* The names of what the server answers with: a model, or a model with adapters on top of it. Both of the
 * latter are listed, and both are answered by the model with its adapters, since the ranks hold no other. */
#ifndef LAUNCH_SERVED_H
#define LAUNCH_SERVED_H

#include <stdbool.h>

#include "proto/job.h"
#include "serve/limits.h"

typedef struct launch_served {
    char name
        [LAUNCH_SERVE_MODEL_BYTES]; /* what answers: the last part of the path of the adapters, or
                                          * without any that of the checkpoint */
    char base
        [LAUNCH_SERVE_MODEL_BYTES]; /* the adapters' model: the checkpoint; "": there are none */
} launch_served;

void launch_served_name(const proto_job *job, launch_served *served);

/* Whether a request may ask for it. */
bool launch_served_has(const launch_served *served, const char *name);

#endif
