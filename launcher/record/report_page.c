/* The beginning, the cards and the end that the pages of all kinds of runs share. Called by
 * report.c and inference_report.c. */
#include "record/report.h"

#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "chart/style.h"

enum { SENTENCES_SHOWN = 4 }; /* of what a run shows; the others are folded */

const char *launch_report_name(const char *out)
{
    const char *slash = strrchr(out, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : out;
}

void launch_report_begin(base_buffer *text, const char *out, int exit_status)
{
    base_buffer_put(text, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                          "<title>");
    base_buffer_html(text, launch_report_name(out));
    base_buffer_put(text, " – Ringfence</title><style>");
    base_buffer_put(text, CHART_STYLE);
    base_buffer_put(text, LAUNCH_REPORT_STYLE);
    base_buffer_put(text, "</style></head>\n<body><main>\n<div class=\"head\"><h1>");
    base_buffer_html(text, launch_report_name(out));
    base_buffer_printf(text, "</h1><span class=\"pill %s\">", exit_status == 0 ? "good" : "bad");
    if (exit_status == 0) {
        base_buffer_put(text, "finished");
    } else {
        base_buffer_printf(text, "ended with status %d", exit_status);
    }
    base_buffer_put(text, "</span></div>");
}

void launch_report_machine(base_buffer *text, const launch_run_info *info, const char *started_at)
{
    base_buffer_html(text, info->host[0] != '\0' ? info->host : "this machine");
    if (info->cpu[0] != '\0') {
        base_buffer_put(text, " (");
        base_buffer_html(text, info->cpu);
        base_buffer_printf(text, ", %d cores)", info->cpus_allowed);
    }
    base_buffer_printf(text, ". Started %.10s at %.8s UTC.</p>\n", started_at, started_at + 11);
}

void launch_report_message(base_buffer *text, const char *message)
{
    if (message != NULL && message[0] != '\0') {
        base_buffer_put(text, "<p class=\"message\">");
        base_buffer_html(text, message);
        base_buffer_put(text, "</p>\n");
    }
}

void launch_report_flights(base_buffer *text, const char *directory)
{
    char path[BASE_PATH_BYTES];
    if (base_path_join(directory, "flight.html", path, NULL) == BASE_OK &&
        access(path, F_OK) == 0) {
        base_buffer_put(text, "<p class=\"sub\"><a href=\"flight.html\">What each rank was doing"
                              "</a> is on a page of its own.</p>\n");
    }
}

void launch_report_command(base_buffer *text, const launch_run *run)
{
    base_buffer command = {0};
    launch_run_command(run, &command);
    base_buffer_put(text, "<pre>");
    base_buffer_html(text, command.data != NULL ? command.data : "");
    base_buffer_put(text, "</pre>\n");
    text->failed = text->failed || command.failed;
    base_buffer_fini(&command);
}

void launch_report_card_begin(base_buffer *text, const char *name)
{
    base_buffer_printf(text, "<div class=\"card\"><span class=\"name\">%s</span><b>", name);
}

void launch_report_card_end(base_buffer *text, const char *more)
{
    base_buffer_printf(text, "</b><span class=\"more\">%s</span></div>\n", more);
}

void launch_report_ms(base_buffer *text, double ms, int decimals)
{
    base_buffer_number(text, ms, ms < 100 ? decimals : ms < 1000 ? 1 : 0);
    base_buffer_put(text, isfinite(ms) ? "\xc2\xa0ms" : "");
}

/* A text's first sentence, with its end mark: so many bytes. */
static size_t sentence_length(const char *text)
{
    size_t length = strcspn(text, ".?");
    while (text[length] != '\0' && text[length + 1] != ' ' && text[length + 1] != '\0') {
        length += 1 + strcspn(text + length + 1, ".?");
    }
    return text[length] == '\0' ? length : length + 1;
}

/* Puts so many sentences of a text into a list, and returns the rest. */
static const char *put_sentences(base_buffer *text, const char *at, int count)
{
    base_buffer_put(text, "<ul>\n");
    for (int i = 0; i < count && *at != '\0'; i++) {
        const size_t length = sentence_length(at);
        base_buffer_printf(text, "<li>%.*s</li>\n", (int)length, at);
        at += length;
        at += strspn(at, " ");
    }
    base_buffer_put(text, "</ul>");
    return at;
}

void launch_report_lesson(base_buffer *text, const char *lesson_notes)
{
    base_buffer escaped = {0};
    base_buffer_html(&escaped, lesson_notes);
    base_buffer_put(text, "<section class=\"lesson\"><h2>What this run shows</h2>");
    const char *rest =
        put_sentences(text, escaped.data != NULL ? escaped.data : "", SENTENCES_SHOWN);
    if (*rest != '\0') {
        base_buffer_put(text, "<details><summary>In more detail</summary>");
        (void)put_sentences(text, rest, INT_MAX);
        base_buffer_put(text, "</details>");
    }
    base_buffer_put(text, "</section>\n");
    text->failed = text->failed || escaped.failed;
    base_buffer_fini(&escaped);
}

void launch_report_terms(base_buffer *text, const launch_term *terms, size_t count)
{
    base_buffer_put(text, "<section><h2>Terms</h2><dl>");
    for (size_t i = 0; i < count; i++) {
        base_buffer_printf(text, "<dt>%s</dt><dd>%s</dd>", terms[i].word, terms[i].meaning);
    }
    base_buffer_put(text, "</dl></section>\n");
}

void launch_report_end(base_buffer *text, const launch_run_info *info)
{
    base_buffer_printf(text, "<footer>Written by the ringfence launcher %s, commit ",
                       info->version);
    base_buffer_html(text, info->git_commit);
    base_buffer_put(text, ". This page holds all it needs.</footer>\n</main></body></html>\n");
}
