/* What is to be seen in one step of a trace, in a sentence or two, from its spans. Pure. */
#ifndef LAUNCH_TRACE_SENTENCES_H
#define LAUNCH_TRACE_SENTENCES_H

#include "base/buffer.h"
#include "record/trace.h"

void launch_trace_say(const proto_job *job, const launch_trace *trace, base_buffer *text);

#endif
