/* report.html: one page that shows where a run's time went. It needs no other file. */
#ifndef LAUNCH_REPORT_H
#define LAUNCH_REPORT_H

#include "record/run.h"
#include "record/text.h"

/* The page. `manifest` is manifest.json's text; its rows become the page's last table. */
BASE_MUST_CHECK base_status launch_report_write(const launch_run *run, const char *manifest,
                                                launch_text *text, base_error *reterr);

/* The parts of it. */
void launch_report_ranks(const launch_run *run, launch_text *text);
void launch_report_terms(launch_text *text);
BASE_MUST_CHECK base_status launch_report_manifest(const char *manifest, launch_text *text,
                                                   base_error *reterr);
extern const char LAUNCH_REPORT_STYLE[];

#endif
