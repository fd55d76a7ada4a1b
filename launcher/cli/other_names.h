/* What mpirun, torchrun, accelerate, transformers and vLLM call our options, and launcher plan those of trainings. */
#ifndef LAUNCH_OTHER_NAMES_H
#define LAUNCH_OTHER_NAMES_H

#include "base/options.h"

enum { LAUNCH_OTHER_NAMES = 51, LAUNCH_PLAN_OTHER_NAMES = 3 };

extern const base_other_name launch_other_names[LAUNCH_OTHER_NAMES];
extern const base_other_name launch_plan_other_names[LAUNCH_PLAN_OTHER_NAMES];

#endif
