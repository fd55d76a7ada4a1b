/* The beginning, the cards and the end that the pages of all kinds of runs share. Called by
 * report.c and inference_report.c. */
#include "record/report.h"

#include <math.h>
#include <string.h>

/* The last component of a path, which names the run. */
static const char *name_of(const char *out)
{
    const char *slash = strrchr(out, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : out;
}

void launch_report_begin(launch_text *text, const char *out, int exit_status)
{
    launch_text_put(text, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                          "<title>");
    launch_text_html(text, name_of(out));
    launch_text_put(text, " – Ringfence</title><style>");
    launch_text_put(text, LAUNCH_REPORT_STYLE);
    launch_text_put(text, "</style></head>\n<body><main>\n<div class=\"head\"><h1>");
    launch_text_html(text, name_of(out));
    launch_text_printf(text, "</h1><span class=\"pill %s\">", exit_status == 0 ? "good" : "bad");
    if (exit_status == 0) {
        launch_text_put(text, "finished");
    } else {
        launch_text_printf(text, "ended with status %d", exit_status);
    }
    launch_text_put(text, "</span></div>");
}

void launch_report_machine(launch_text *text, const launch_run_info *info, const char *started_at)
{
    launch_text_html(text, info->host[0] != '\0' ? info->host : "this machine");
    if (info->cpu[0] != '\0') {
        launch_text_put(text, " (");
        launch_text_html(text, info->cpu);
        launch_text_printf(text, ", %d cores)", info->cpus_allowed);
    }
    launch_text_printf(text, ". Started %.10s at %.8s UTC.</p>\n", started_at, started_at + 11);
}

void launch_report_message(launch_text *text, const char *message)
{
    if (message != NULL && message[0] != '\0') {
        launch_text_put(text, "<p class=\"message\">");
        launch_text_html(text, message);
        launch_text_put(text, "</p>\n");
    }
}

void launch_report_command(launch_text *text, const launch_run *run)
{
    launch_text command = {0};
    launch_run_command(run, &command);
    launch_text_put(text, "<pre>");
    launch_text_html(text, command.data != NULL ? command.data : "");
    launch_text_put(text, "</pre>\n");
    text->failed = text->failed || command.failed;
    launch_text_fini(&command);
}

void launch_report_card_begin(launch_text *text, const char *name)
{
    launch_text_printf(text, "<div class=\"card\"><span class=\"name\">%s</span><b>", name);
}

void launch_report_card_end(launch_text *text, const char *more)
{
    launch_text_printf(text, "</b><span class=\"more\">%s</span></div>\n", more);
}

void launch_report_ms(launch_text *text, double ms, int decimals)
{
    launch_text_number(text, ms, ms < 100 ? decimals : ms < 1000 ? 1 : 0);
    launch_text_put(text, isfinite(ms) ? "\xc2\xa0ms" : "");
}

void launch_report_lesson(launch_text *text, const char *lesson_notes)
{
    launch_text_put(text, "<section class=\"lesson\"><h2>What this run shows</h2><p>");
    launch_text_html(text, lesson_notes);
    launch_text_put(text, "</p></section>\n");
}

void launch_report_terms(launch_text *text, const launch_term *terms, size_t count)
{
    launch_text_put(text, "<section><h2>Terms</h2><dl>");
    for (size_t i = 0; i < count; i++) {
        launch_text_printf(text, "<dt>%s</dt><dd>%s</dd>", terms[i].word, terms[i].meaning);
    }
    launch_text_put(text, "</dl></section>\n");
}

void launch_report_end(launch_text *text, const launch_run_info *info)
{
    launch_text_printf(text, "<footer>Written by the ringfence launcher %s, commit ",
                       info->version);
    launch_text_html(text, info->git_commit);
    launch_text_put(text, ". This page holds all it needs.</footer>\n</main></body></html>\n");
}
