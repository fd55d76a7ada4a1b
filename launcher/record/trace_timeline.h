/* The section of report.html that draws one step of the trace: for each rank a lane of what its thread did, and below
 * it what was exchanged meanwhile. Of trainings and of inference. Pure. */
#ifndef LAUNCH_TRACE_TIMELINE_H
#define LAUNCH_TRACE_TIMELINE_H

#include "base/buffer.h"
#include "proto/job.h"
#include "record/trace.h"

/* Nothing if the job has no trace (NULL). */
void launch_trace_timeline(const proto_job *job, const launch_trace *trace, base_buffer *text);

#endif
