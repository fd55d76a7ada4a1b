/* One view of everything that is known of a run, for the files that write it. Borrowed pointers. */
#ifndef LAUNCH_RUN_H
#define LAUNCH_RUN_H

#include "base/buffer.h"
#include "base/clock.h"
#include "record/architecture.h"
#include "record/record.h"
#include "record/run_info.h"
#include "record/steps.h"
#include "record/summary.h"

struct launch_sheet;
struct launch_trace;

enum { LAUNCH_CHART_RANKS_MAX = 32 /* that have bars in a chart */ };

typedef struct launch_run {
    const char *out; /* as the user named it, no slash at its end */
    const proto_job *job;
    int argc;
    char **argv;
    const char *engine; /* what has started the launcher; NULL or empty: the user */
    char started_at[BASE_TIMESTAMP_BYTES];
    char ended_at[BASE_TIMESTAMP_BYTES];
    double wall_seconds; /* ended_at - started_at */
    const launch_steps *steps;
    int attempts; /* with --max-restarts there may be several */
    uint64_t
        first_step; /* of the checkpoint from which the training went on; 0: from the beginning */
    const launch_summary *summary;
    launch_architecture architecture;
    const launch_run_info *info;
    const launch_record_end *end;
    const char *lesson_notes;
    const char *backend;
    const struct launch_trace *trace; /* one step of it; NULL: there is none */
} launch_run;

/* The command line, quoted for a shell. */
void launch_run_command(const launch_run *run, base_buffer *text);

/* What did the work: "ringfence-shm-direct". */
void launch_run_backend(const launch_record_end *end, base_buffer *text);

/* A paragraph from this run's own figures: why that number of processes is faster or slower than
 * one. */
void launch_lesson_write(const launch_run *run, base_buffer *text);

/* manifest_experts.c: the member "experts" of manifest.json; null: the model has none. */
void launch_manifest_experts(struct launch_sheet *page, const launch_run *run);

/* manifest.json as text. */
BASE_MUST_CHECK base_status launch_manifest_write(const launch_run *run, base_buffer *text,
                                                  base_error *reterr);

#endif
