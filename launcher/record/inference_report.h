/* report.html and the scaling curve of an inference run. */
#ifndef LAUNCH_INFERENCE_REPORT_H
#define LAUNCH_INFERENCE_REPORT_H

#include "chart/figure.h"
#include "record/inference.h"
#include "record/inference_figures.h"
#include "record/run_info.h"
#include "record/trace.h"

typedef struct launch_inference_view {
    const launch_inference *run;
    const launch_inference_figures *figures;
    const json_t *results;
    const launch_run_info *info;
    const char *suspect; /* why the speed-up is not credible; NULL: it is */
    const char *lesson_notes;
    const char *manifest;      /* manifest.json's text */
    const launch_trace *trace; /* one step of it; NULL: there is none */
} launch_inference_view;

/* The page. */
BASE_MUST_CHECK base_status launch_inference_report(const launch_inference_view *view,
                                                    base_buffer *text, base_error *reterr);

/* The scaling curve as a chart, which the caller frees with free(); NULL: no memory. Pure. */
chart_figure *launch_curve_figure(const launch_curve *curve);

#endif
