/* The section of report.html that draws one step of the trace: for each rank a lane of what its thread did, and below
 * it what was exchanged meanwhile. Pure. */
#ifndef LAUNCH_TRACE_TIMELINE_H
#define LAUNCH_TRACE_TIMELINE_H

#include "base/buffer.h"
#include "record/run.h"

/* Nothing if the run has no trace. */
void launch_trace_timeline(const launch_run *run, base_buffer *text);

#endif
