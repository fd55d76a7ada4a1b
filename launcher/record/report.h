/* report.html: one page that shows where a run's time went. It needs no other file. */
#ifndef LAUNCH_REPORT_H
#define LAUNCH_REPORT_H

#include "base/buffer.h"
#include "record/run.h"

/* Writes the page, report.html in the directory. `manifest` is manifest.json's text; its rows become the page's last
 * table. */
BASE_MUST_CHECK base_status launch_report_save(const launch_run *run, const char *manifest,
                                               const char *directory, base_error *reterr);

/* The parts of it. */
void launch_report_ranks(const launch_run *run, base_buffer *text);
void launch_report_training_terms(base_buffer *text, const proto_job *job);
BASE_MUST_CHECK base_status launch_report_manifest(const char *manifest, base_buffer *text,
                                                   base_error *reterr);
extern const char LAUNCH_REPORT_STYLE[];

/* ---- what pages of all kinds of runs have in common (report_page.c) ---- */

typedef struct launch_term {
    const char *word;
    const char *meaning; /* ours: not escaped */
} launch_term;

/* A run's name: the last component of its directory. */
const char *launch_report_name(const char *out);

/* The page up to the run's name, and how it ended. */
void launch_report_begin(base_buffer *text, const char *out, int exit_status);

/* Ends the sentence and the paragraph that say what ran: where, and when. */
void launch_report_machine(base_buffer *text, const launch_run_info *info, const char *started_at);
void launch_report_message(base_buffer *text, const char *message);   /* NULL or empty: nothing */
void launch_report_flights(base_buffer *text, const char *directory); /* if it has flight.html */
void launch_report_command(base_buffer *text, const launch_run *run);
void launch_report_card_begin(base_buffer *text, const char *name);
void launch_report_card_end(base_buffer *text, const char *more);
/* On one line; or a dash. From 100 ms on with less decimals, so that it fits a card. */
void launch_report_ms(base_buffer *text, double ms, int decimals);
void launch_report_lesson(base_buffer *text, const char *lesson_notes);
void launch_report_terms(base_buffer *text, const launch_term *terms, size_t count);
void launch_report_end(base_buffer *text, const launch_run_info *info);

#endif
