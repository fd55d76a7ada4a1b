/* Writes flight.html and each rank's flight-rank-N.json from the ranks' flight records. Called by
 * run_job.c when a job has failed or SIGUSR1 asked for them. */
#include "record/flight_page.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/limits.h"
#include "chart/style.h"
#include "record/flight_timeline.h"
#include "record/report.h"

enum { ROWS_MAX = 48, COMMS_MAX = 16, KEY_BYTES = 20 };

static const double US_PER_MS = 1000;

/* All ranks' records, parsed; ranks[i] is NULL where there is none. */
typedef struct flight_page {
    int attempt;
    int count;
    json_t *ranks[BASE_RANKS_MAX];
    int comm_count;
    char comms[COMMS_MAX][KEY_BYTES]; /* in the order in which they are found */
} flight_page;

static const char *text_of(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

static int64_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void note_comms(flight_page *page, const json_t *entries)
{
    size_t index = 0;
    json_t *entry = NULL;
    json_array_foreach((json_t *)(uintptr_t)entries, index, entry)
    {
        const char *comm = text_of(entry, "comm");
        int known = 0;
        while (known < page->comm_count && strcmp(page->comms[known], comm) != 0) {
            known++;
        }
        if (known == page->comm_count && known < COMMS_MAX && strlen(comm) < KEY_BYTES) {
            (void)snprintf(page->comms[page->comm_count++], KEY_BYTES, "%s", comm);
        }
    }
}

static void load(flight_page *page, const char *const *records, int ranks)
{
    page->count = ranks < BASE_RANKS_MAX ? ranks : BASE_RANKS_MAX;
    for (int rank = 0; rank < page->count; rank++) {
        if (records[rank] == NULL) {
            continue;
        }
        json_t *json = json_loads(records[rank], JSON_REJECT_DUPLICATES, NULL);
        if (json_is_object(json) && json_is_array(json_object_get(json, "pending")) &&
            json_is_array(json_object_get(json, "completed"))) {
            page->ranks[rank] = json;
            note_comms(page, json_object_get(json, "completed"));
            note_comms(page, json_object_get(json, "pending"));
        } else {
            json_decref(json);
        }
    }
}

static void put_call(const json_t *entry, base_buffer *text)
{
    base_buffer_html(text, text_of(entry, "operation"));
    if (strcmp(text_of(entry, "operation"), "barrier") == 0) {
        return;
    }
    base_buffer_put(text, " ");
    base_buffer_html(text, text_of(entry, "type"));
    if (strcmp(text_of(entry, "counts"), "pairwise") == 0) {
        base_buffer_put(text, " with counts");
    } else if (text_of(entry, "counts")[0] != '\0') {
        base_buffer_printf(text, ", %" PRId64 " bytes in parts ", number_of(entry, "bytes"));
        base_buffer_html(text, text_of(entry, "counts"));
    } else {
        base_buffer_printf(text, " × %" PRId64, number_of(entry, "count"));
    }
}

/* What the rank waited for; else what it had begun and not ended. */
static void put_doing(const json_t *own, base_buffer *text)
{
    const json_t *pending = json_object_get(own, "pending");
    const size_t count = json_array_size(pending);
    const char *doing = text_of(own, "doing");
    if (doing[0] != '\0' || count == 0) {
        base_buffer_html(text, doing[0] != '\0' ? doing : "nothing");
        return;
    }
    const json_t *oldest = json_array_get(pending, 0);
    for (size_t i = 1; i < count; i++) {
        const json_t *other = json_array_get(pending, i);
        oldest =
            number_of(other, "began_unix_us") < number_of(oldest, "began_unix_us") ? other : oldest;
    }
    base_buffer_printf(text, "pending: #%" PRId64 " ", number_of(oldest, "sequence"));
    put_call(oldest, text);
    if (count > 1) {
        base_buffer_printf(text, ", and %zu more", count - 1);
    }
}

static void put_ranks(const flight_page *page, base_buffer *text)
{
    base_buffer_put(text, "<section><h2>The ranks</h2><table><tr><th>rank</th><th>host, pid</th>"
                          "<th>over</th><th>operations</th><th>in the middle of</th></tr>\n");
    for (int rank = 0; rank < page->count; rank++) {
        const json_t *own = page->ranks[rank];
        base_buffer_printf(text, "<tr><td>%d</td>", rank);
        if (own == NULL) {
            base_buffer_put(text,
                            "<td colspan=\"4\" class=\"bad\">no record: it was killed, or had "
                            "no collectives yet</td></tr>\n");
            continue;
        }
        base_buffer_put(text, "<td>");
        base_buffer_html(text, text_of(own, "host"));
        base_buffer_printf(text, ", %" PRId64 "</td><td>", number_of(own, "pid"));
        base_buffer_html(text, text_of(own, "transport"));
        base_buffer_printf(text, "</td><td>%" PRId64 "</td><td>",
                           number_of(own, "operations_started"));
        put_doing(own, text);
        base_buffer_put(text, "</td></tr>\n");
    }
    base_buffer_put(text, "</table></section>\n");
}

/* The entry of a communicator's operation in one rank's record. *pending says whether it is in the
 * list of pending ones. */
static const json_t *find_entry(const json_t *own, const char *comm, int64_t sequence,
                                bool *pending)
{
    static const char *const lists[] = {"completed", "pending"};
    for (int list = 0; own != NULL && list < 2; list++) {
        size_t index = 0;
        json_t *entry = NULL;
        json_array_foreach(json_object_get(own, lists[list]), index, entry)
        {
            const char *kind = text_of(entry, "operation");
            if (number_of(entry, "sequence") == sequence &&
                strcmp(text_of(entry, "comm"), comm) == 0 && strcmp(kind, "send") != 0 &&
                strcmp(kind, "receive") != 0) {
                *pending = list == 1;
                return entry;
            }
        }
    }
    return NULL;
}

/* Whether a rank's record has any operation of a communicator, as that of a member has. */
static bool has_comm(const json_t *own, const char *comm)
{
    static const char *const lists[] = {"completed", "pending"};
    for (int list = 0; list < 2; list++) {
        size_t index = 0;
        json_t *entry = NULL;
        json_array_foreach(json_object_get(own, lists[list]), index, entry)
        {
            if (strcmp(text_of(entry, "comm"), comm) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* The newest operation of a communicator that any rank has begun. */
static int64_t newest(const flight_page *page, const char *comm)
{
    static const char *const lists[] = {"completed", "pending"};
    int64_t found = 0;
    for (int rank = 0; rank < page->count; rank++) {
        for (int list = 0; page->ranks[rank] != NULL && list < 2; list++) {
            size_t index = 0;
            json_t *entry = NULL;
            json_array_foreach(json_object_get(page->ranks[rank], lists[list]), index, entry)
            {
                const int64_t sequence = number_of(entry, "sequence");
                if (strcmp(text_of(entry, "comm"), comm) == 0 && sequence > found) {
                    found = sequence;
                }
            }
        }
    }
    return found;
}

/* Of an operation with counts, `count` is the rank's own part: the ranks have to agree on `counts`,
 * the digest of all of them. Where each pair of ranks has its own, they all say just that. */
static bool same_counts(const json_t *a, const json_t *b)
{
    const char *counts = text_of(a, "counts");
    return strcmp(counts, text_of(b, "counts")) == 0 &&
           (counts[0] != '\0' || number_of(a, "count") == number_of(b, "count"));
}

static bool same_call(const json_t *a, const json_t *b)
{
    return strcmp(text_of(a, "operation"), text_of(b, "operation")) == 0 &&
           strcmp(text_of(a, "type"), text_of(b, "type")) == 0 &&
           strcmp(text_of(a, "reduce"), text_of(b, "reduce")) == 0 && same_counts(a, b) &&
           number_of(a, "root") == number_of(b, "root");
}

/* "4.5 µs", "52.1 ms"; of a difference with its sign. */
static void put_time(double us, bool difference, base_buffer *text)
{
    const bool in_ms = fabs(us) >= US_PER_MS;
    base_buffer_printf(text, difference ? "%+.*f %s" : "%.*f %s", difference && !in_ms ? 0 : 1,
                       in_ms ? us / US_PER_MS : us, in_ms ? "ms" : "µs");
}

static void put_cell(const json_t *entry, bool pending, const json_t *first, base_buffer *text)
{
    const bool agrees = same_call(entry, first);
    base_buffer_printf(text, "<td%s>", pending || !agrees ? " class=\"bad\"" : "");
    if (!agrees) {
        base_buffer_put(text, "calls ");
        put_call(entry, text);
        base_buffer_put(text, "; ");
    }
    if (pending) {
        base_buffer_put(text, "pending");
    } else {
        put_time(json_number_value(json_object_get(entry, "took_us")), false, text);
    }
    const int64_t later_us = number_of(entry, "began_unix_us") - number_of(first, "began_unix_us");
    if (later_us != 0) {
        base_buffer_put(text, " <span class=\"none\">(began ");
        put_time((double)later_us, true, text);
        base_buffer_put(text, ")</span>");
    }
    base_buffer_put(text, "</td>");
}

static void put_row(const flight_page *page, const char *comm, int64_t sequence, base_buffer *text)
{
    const json_t *entries[BASE_RANKS_MAX] = {NULL};
    bool pending[BASE_RANKS_MAX] = {false};
    const json_t *first = NULL;
    for (int rank = 0; rank < page->count; rank++) {
        entries[rank] = find_entry(page->ranks[rank], comm, sequence, &pending[rank]);
        first = first == NULL ? entries[rank] : first;
    }
    if (first == NULL) {
        return;
    }
    base_buffer_printf(text, "<tr><td>#%" PRId64 "</td><td>", sequence);
    put_call(first, text);
    base_buffer_put(text, "</td>");
    for (int rank = 0; rank < page->count; rank++) {
        if (page->ranks[rank] == NULL) {
            base_buffer_put(text, "<td class=\"none\">no record</td>");
        } else if (entries[rank] != NULL) {
            put_cell(entries[rank], pending[rank], first, text);
        } else if (has_comm(page->ranks[rank], comm)) {
            base_buffer_put(text, "<td class=\"none\">not begun, or long ago</td>");
        } else {
            base_buffer_put(text, "<td class=\"none\">–</td>");
        }
    }
    base_buffer_put(text, "</tr>\n");
}

static void put_comm(const flight_page *page, const char *comm, base_buffer *text)
{
    const int64_t last = newest(page, comm);
    base_buffer_put(text, "<section><h2>Communicator ");
    base_buffer_html(text, comm);
    base_buffer_printf(
        text, "</h2><p class=\"hintline\">The newest operations, newest first; times of "
              "each rank, and how much later than the first column's it began. A dash: the "
              "rank's record has nothing of this communicator, so it may be no member.</p>"
              "<table><tr><th></th><th>operation</th>");
    for (int rank = 0; rank < page->count; rank++) {
        base_buffer_printf(text, "<th>rank %d</th>", rank);
    }
    base_buffer_put(text, "</tr>\n");
    for (int64_t sequence = last; sequence > 0 && sequence > last - ROWS_MAX; sequence--) {
        put_row(page, comm, sequence, text);
    }
    base_buffer_put(text, "</table></section>\n");
}

static base_status write_page(const flight_page *page, const char *directory, const char *cause,
                              base_error *reterr)
{
    base_buffer text = {0};
    base_buffer_put(&text, "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\">"
                           "<meta name=\"viewport\" content=\"width=device-width\">"
                           "<title>Flight records of ");
    base_buffer_html(&text, launch_report_name(directory));
    base_buffer_put(&text, " – Ringfence</title><style>");
    base_buffer_put(&text, CHART_STYLE);
    base_buffer_put(&text, LAUNCH_REPORT_STYLE);
    base_buffer_put(&text, "section{margin-top:16px;overflow-x:auto}td,th{text-align:left}"
                           "</style><main><h1>Flight records of ");
    base_buffer_html(&text, launch_report_name(directory));
    base_buffer_put(&text, "</h1>");
    if (page->attempt > 0) {
        base_buffer_printf(&text, "<p>Attempt %d of the job</p>", page->attempt);
    }
    if (cause[0] != '\0') {
        base_buffer_put(&text, "<p class=\"message\">");
        base_buffer_html(&text, cause);
        base_buffer_put(&text, "</p>");
    }
    put_ranks(page, &text);
    launch_flight_timeline(page->ranks, page->count, &text);
    for (int i = 0; i < page->comm_count; i++) {
        put_comm(page, page->comms[i], &text);
    }
    base_buffer_put(&text, "</main></html>\n");
    const base_status status = base_buffer_save(&text, directory, "flight.html", reterr);
    base_buffer_fini(&text);
    return status;
}

base_status launch_flight_write(const char *directory, const char *const *records, int ranks,
                                int attempt, const char *cause, base_error *reterr)
{
    char path[BASE_PATH_BYTES + 40];
    base_status status = BASE_OK;
    flight_page *page = calloc(1, sizeof *page);
    if (page == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the flight records");
    }
    page->attempt = attempt;
    load(page, records, ranks);
    for (int rank = 0; rank < page->count && status == BASE_OK; rank++) {
        (void)snprintf(path, sizeof path, "%s/flight-rank-%d.json", directory, rank);
        if (page->ranks[rank] == NULL) {
            (void)unlink(path);
        } else {
            status = base_file_write(path, records[rank], strlen(records[rank]), reterr);
        }
    }
    if (status == BASE_OK) {
        status = write_page(page, directory, cause, reterr);
    }
    for (int rank = 0; rank < page->count; rank++) {
        json_decref(page->ranks[rank]);
    }
    free(page);
    return status;
}
