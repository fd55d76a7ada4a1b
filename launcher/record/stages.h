/* Where the time of a pipeline's step went, stage by stage, and its bubble: measured, and as the
 * schedule has it. Means over the last half of the steps, as all figures of a record. */
#ifndef LAUNCH_STAGES_H
#define LAUNCH_STAGES_H

#include <jansson.h>

#include "record/run.h"

/* The manifest's object; null if the run had no stages. NULL: no memory. */
json_t *launch_stages_json(const launch_run *run);

/* The report's section, and what the run shows in words. Nothing if it had no stages. */
void launch_stages_report(const launch_run *run, base_buffer *text);
void launch_stages_lesson(const launch_run *run, base_buffer *text);

#endif
