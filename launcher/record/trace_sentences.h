/* What is to be seen in one step of a trace, in a sentence or two, from its spans. Pure. */
#ifndef LAUNCH_TRACE_SENTENCES_H
#define LAUNCH_TRACE_SENTENCES_H

#include "base/buffer.h"
#include "record/trace.h"

void launch_trace_say(const proto_job *job, const launch_trace *trace, base_buffer *text);

/* A table of decoding: for how long each rank computes, exchanges and waits. Nothing of a training, or of one rank. */
void launch_trace_shares(const proto_job *job, const launch_trace *trace, base_buffer *text);

#endif
