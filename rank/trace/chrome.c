/* Writes traces in the Chrome Trace Event Format. Called by gather.c on rank 0. */
#include "trace/chrome.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "trace/meetings.h"

enum {
    FLUSH_BYTES = 1 << 16,
    NESTED_MAX = 16, /* step, pass, layer, operation; more are not named in arguments */
    THREAD = 1,      /* of the rank itself; lanes follow */
};

/* How a kind is named on the rank's thread, and as an exchange under way; with a number where there is one. */
typedef struct kind_row {
    const char *category; /* report.html has a colour for each */
    const char *thread;
    const char *exchange;
    const char *argument;   /* the index's name; NULL: it has none */
    const char *between;    /* name and index; NULL: nothing but a blank */
    const char *detail;     /* its name, if it is no exchange; NULL: it has none */
    const char *part;       /* of the step: what lies in it is named by that */
    const char *operations; /* the name of those that lie in it; NULL: each has its own */
} kind_row;

static const kind_row kinds[RANK_TRACE_KINDS] = {
    [RANK_TRACE_STEP] = {"step", "step", NULL, "step"},
    [RANK_TRACE_BATCH] = {"other", "next batch", NULL, "micro_batch"},
    [RANK_TRACE_FORWARD] = {"forward", "forward", NULL, "micro_batch", ", micro-batch", "chunk"},
    [RANK_TRACE_BACKWARD] = {"backward", "backward", NULL, "micro_batch", ", micro-batch", "chunk"},
    [RANK_TRACE_WEIGHTS] = {"weights", "weight gradients", NULL, "micro_batch", ", micro-batch",
                            "chunk"},
    [RANK_TRACE_DECODE] = {"forward", "forward", NULL, "tokens", ", tokens:", "drafted"},
    [RANK_TRACE_LAYER] = {"layer", "layer", NULL, "layer"},
    [RANK_TRACE_EMBEDDING] = {"embedding", "embedding", .part = "embedding"},
    [RANK_TRACE_ATTENTION] = {"attention", "attention", .part = "attention"},
    [RANK_TRACE_MLP] = {"mlp", "MLP", .part = "MLP"},
    [RANK_TRACE_OUTPUT] = {"output", "logits", .part = "logits"},
    [RANK_TRACE_DRAFT] = {"draft", "drafting", .part = "drafting"},
    [RANK_TRACE_OPERATION] = {"operation", NULL, NULL, NULL},
    [RANK_TRACE_CALLS] = {"overlapped", "exchanges started and moved on", NULL, NULL},
    [RANK_TRACE_MERGE] = {"other", "gradients added up", NULL, NULL},
    [RANK_TRACE_OPTIMIZER] = {"optimizer", "optimizer", NULL, NULL},
    [RANK_TRACE_NEWTON_SCHULZ] = {"newton_schulz", "Newton-Schulz", NULL, "matrix", ", matrix",
                                  .operations = "Newton-Schulz"},
    [RANK_TRACE_DRAW] = {"draw", "tokens drawn", NULL, "drawn", ":", "accepted"},
    [RANK_TRACE_OUTER] = {"optimizer", "outer step", NULL, NULL},
    [RANK_TRACE_REDUCE] = {"exchange", "waiting for bucket", "all-reduce of bucket", "bucket"},
    [RANK_TRACE_SCATTER] = {"exchange", "waiting for bucket", "reduce-scatter of bucket", "bucket"},
    [RANK_TRACE_GATHER] = {"exchange", "waiting for parameters", "all-gather of parameters",
                           "unit"},
    [RANK_TRACE_BARRIER] = {"exchange", "waiting for all ranks", "barrier", NULL},
    [RANK_TRACE_SUMS] = {"exchange", "waiting for losses and counts", "sum of losses and counts",
                         NULL},
    [RANK_TRACE_NORM] = {"exchange", "waiting for the norm", "norm of the gradient", NULL},
    [RANK_TRACE_HEADS] = {"exchange", "waiting for heads", "all-to-all of heads", NULL},
    [RANK_TRACE_EXPERTS] = {"exchange", "waiting for rows of experts", "rows to experts and back",
                            NULL},
    [RANK_TRACE_PARTS] = {"exchange", "waiting for parts of a layer", "all-reduce of parts", NULL},
    [RANK_TRACE_CANDIDATES] = {"exchange", "waiting for candidates", "all-gather of candidates",
                               NULL},
    [RANK_TRACE_LOGITS] = {"exchange", "waiting for logits", "all-gather of logits", NULL},
    [RANK_TRACE_RECORD] = {"exchange", "waiting for rank 0's record", "rank 0's record", NULL},
    [RANK_TRACE_RECEIVE] = {"waiting", "waiting for stage", NULL, "stage"},
    [RANK_TRACE_SEND] = {"exchange", "sending to stage", "message to stage", "stage"},
    [RANK_TRACE_SENT] = {"waiting", "waiting until messages are taken", NULL, NULL},
    [RANK_TRACE_TIED] = {"exchange", "waiting for the tied gradient", "tied gradient", NULL},
    [RANK_TRACE_MATRICES] = {"exchange", "waiting for parts of matrices",
                             "all-to-all of parts of matrices", NULL},
};

static const int64_t TIME_NS_MAX = INT64_MAX / 4; /* differences of differences are numbers, too */

bool rank_trace_is_span(const rank_trace_span *span, const char *(*operation_name)(int part))
{
    const unsigned known = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE | RANK_TRACE_ALL_RANKS;
    const bool in_order = span->begin_ns >= 0 && span->begin_ns <= span->end_ns;
    if (span->kind >= RANK_TRACE_KINDS || (span->of & ~known) != 0 || !in_order ||
        span->end_ns > TIME_NS_MAX) {
        return false;
    }
    if ((span->of & RANK_TRACE_EXCHANGE) != 0) {
        return kinds[span->kind].exchange != NULL;
    }
    return span->kind != RANK_TRACE_OPERATION || operation_name(span->index) != NULL;
}

typedef struct writer {
    const rank_trace_all *all;
    base_file_writer *file;
    base_buffer text;             /* not written yet */
    int64_t begin_ns;             /* of the first span, by rank 0's clock */
    bool some;                    /* an event stands before the next one */
    size_t left_out;              /* exchanges that no lane was free for */
    rank_trace_meeting *meetings; /* the last one first */
    size_t meeting_count;
    /* of the rank whose spans are written */
    int rank;
    size_t meetings_left;                    /* of its spans that are not written yet */
    const rank_trace_span *open[NESTED_MAX]; /* spans around the current one */
    int open_count;
} writer;

static base_status flush(writer *self, size_t least_bytes, base_error *reterr)
{
    if (self->text.failed) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the text of a trace");
    }
    if (self->text.length_bytes < least_bytes) {
        return BASE_OK;
    }
    const base_status status =
        base_file_writer_put(self->file, self->text.data, self->text.length_bytes, reterr);
    self->text.length_bytes = 0;
    return status;
}

static const rank_trace_clock *clock_of(const rank_trace_all *all, int rank)
{
    return &all->clocks[all->ranks[rank].clock];
}

static void put_us(base_buffer *text, int64_t ns)
{
    base_buffer_printf(text, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
}

static void begin_event(writer *self)
{
    base_buffer_put(&self->text, self->some ? ",\n" : "\n");
    self->some = true;
}

/* A name, or a place among others, of the process or of a thread. */
static void put_about(writer *self, const char *what, int thread, const char *argument)
{
    begin_event(self);
    base_buffer_printf(&self->text,
                       "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{%s}}", what,
                       self->rank + 1, thread, argument);
}

/* Earlier first, and of those that begin together the longer one, which is around the other. */
static int by_begin(const void *left, const void *right)
{
    const rank_trace_span *a = left;
    const rank_trace_span *b = right;
    if (a->begin_ns != b->begin_ns) {
        return a->begin_ns < b->begin_ns ? -1 : 1;
    }
    if (a->end_ns != b->end_ns) {
        return a->end_ns > b->end_ns ? -1 : 1;
    }
    return (a->kind > b->kind) - (a->kind < b->kind);
}

/* What the spans around it say of this one: step, micro-batch, layer. */
static void put_arguments(writer *self, const rank_trace_span *span, const char *between)
{
    base_buffer *text = &self->text;
    const char *own = span->index >= 0 ? kinds[span->kind].argument : NULL;
    for (int i = 0; i < self->open_count; i++) {
        const rank_trace_span *around = self->open[i];
        const char *name = kinds[around->kind].argument;
        const bool known = (around->of & RANK_TRACE_EXCHANGE) == 0 && around->index >= 0;
        if (around != span && known && name != NULL && (own == NULL || strcmp(own, name) != 0)) {
            base_buffer_printf(text, "%s\"%s\":%d", between, name, (int)around->index);
            between = ",";
        }
    }
    if (own != NULL) {
        base_buffer_printf(text, "%s\"%s\":%d", between, own, (int)span->index);
        between = ",";
    }
    if (span->detail > 0 && (span->of & RANK_TRACE_EXCHANGE) != 0) {
        base_buffer_printf(text, "%s\"algorithm\":\"%s\"", between,
                           self->all->algorithm_name(span->detail - 1));
        between = ",";
    } else if (span->detail > 0 && kinds[span->kind].detail != NULL) {
        base_buffer_printf(text, "%s\"%s\":%d", between, kinds[span->kind].detail, span->detail);
        between = ",";
    }
    if (span->bytes > 0) {
        base_buffer_printf(text, "%s\"bytes\":%" PRIu64, between, span->bytes);
    }
}

/* The part of the step that is around; NULL: none. */
static const char *part_around(const writer *self)
{
    const char *part = NULL;
    for (int i = 0; i < self->open_count; i++) {
        const char *own = kinds[self->open[i]->kind].part;
        part = own != NULL ? own : part;
    }
    return part;
}

/* What an operation is called. */
static const char *operation_name(const writer *self, const rank_trace_span *span)
{
    const char *name = self->all->operation_name(span->index);
    for (int i = 0; i < self->open_count; i++) {
        const char *own = kinds[self->open[i]->kind].operations;
        name = own != NULL ? own : name;
    }
    return name;
}

/* Of an exchange, or of what the thread does. */
static void put_name(writer *self, const rank_trace_span *span, bool exchange)
{
    const kind_row *row = &kinds[span->kind];
    const char *part = part_around(self);
    base_buffer *text = &self->text;
    if (span->kind == RANK_TRACE_OPERATION) {
        base_buffer_put(text, operation_name(self, span));
        return;
    }
    if (span->kind == RANK_TRACE_PARTS && exchange && part != NULL) {
        base_buffer_printf(text, "all-reduce of %s", part);
        return;
    }
    base_buffer_put(text, exchange ? row->exchange : row->thread);
    if (row->argument != NULL && span->index >= 0) {
        base_buffer_printf(text, "%s %d", row->between != NULL ? row->between : "",
                           (int)span->index);
    }
}

/* What is written of a span, on one thread. */
typedef struct event {
    const rank_trace_span *span;
    int thread;
    int64_t begin_ns; /* all of the span, or a part of it */
    int64_t end_ns;
    bool waits;
    int waits_for; /* that rank; -1: nobody knows for which */
} event;

static void put_event(writer *self, const event *of)
{
    base_buffer *text = &self->text;
    begin_event(self);
    base_buffer_put(text, "{\"ph\":\"X\",\"name\":\"");
    if (of->waits_for >= 0) {
        base_buffer_printf(text, "waiting for rank %d: ", of->waits_for);
    }
    put_name(self, of->span,
             (of->span->of & RANK_TRACE_EXCHANGE) != 0 && (!of->waits || of->waits_for >= 0));
    base_buffer_printf(text, "\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":",
                       of->waits ? "waiting" : kinds[of->span->kind].category, self->rank + 1,
                       of->thread);
    put_us(text, of->begin_ns - clock_of(self->all, self->rank)->offset_ns - self->begin_ns);
    base_buffer_put(text, ",\"dur\":");
    put_us(text, of->end_ns - of->begin_ns);
    base_buffer_put(text, ",\"args\":{");
    put_arguments(self, of->span, "");
    base_buffer_put(text, "}}");
}

/* The meeting that the rank's next span of one is of. NULL: not known. */
static const rank_trace_meeting *next_meeting(writer *self)
{
    const size_t index = --self->meetings_left; /* from the end */
    return index < self->meeting_count ? &self->meetings[index] : NULL;
}

/* What the rank's thread did. In a meeting it waits until all are there. */
static void put_on_thread(writer *self, const rank_trace_span *span)
{
    const rank_trace_meeting *meeting = rank_trace_meets(span) ? next_meeting(self) : NULL;
    event of = {.span = span,
                .thread = THREAD,
                .begin_ns = span->begin_ns,
                .end_ns = span->end_ns,
                .waits = kinds[span->kind].exchange != NULL,
                .waits_for = -1};
    if (meeting == NULL) {
        put_event(self, &of);
        return;
    }
    const int64_t all_there_ns = meeting->all_there_ns + clock_of(self->all, self->rank)->offset_ns;
    if (all_there_ns > span->begin_ns) {
        of.end_ns = all_there_ns < span->end_ns ? all_there_ns : span->end_ns;
        of.waits_for = meeting->last;
        put_event(self, &of);
    }
    if (all_there_ns < span->end_ns) {
        put_event(self, &(event){.span = span,
                                 .thread = THREAD,
                                 .begin_ns = of.waits_for >= 0 ? all_there_ns : span->begin_ns,
                                 .end_ns = span->end_ns,
                                 .waits_for = -1});
    }
}

/* Drops those that ended before this span begins, and adds it. */
static void nest(writer *self, const rank_trace_span *span)
{
    while (self->open_count > 0 && self->open[self->open_count - 1]->end_ns <= span->begin_ns) {
        self->open_count--;
    }
    if ((span->of & RANK_TRACE_THREAD) != 0 && self->open_count < NESTED_MAX) {
        self->open[self->open_count++] = span;
    }
}

/* The lane that is free when the span begins. -1: none is. */
static int lane_of(int64_t busy_until_ns[RANK_TRACE_LANES_MAX], const rank_trace_span *span)
{
    for (int lane = 0; lane < RANK_TRACE_LANES_MAX; lane++) {
        if (busy_until_ns[lane] <= span->begin_ns) {
            busy_until_ns[lane] = span->end_ns;
            return lane;
        }
    }
    return -1;
}

static void put_lane_name(writer *self, int lane, int *named)
{
    for (; *named <= lane; ++*named) {
        char place[64];
        const int thread = THREAD + 1 + *named;
        put_about(self, "thread_name", thread, "\"name\":\"exchanges under way\"");
        (void)snprintf(place, sizeof place, "\"sort_index\":%d", thread);
        put_about(self, "thread_sort_index", thread, place);
    }
}

static base_status put_rank(writer *self, int rank, base_error *reterr)
{
    const rank_trace_of_rank *of = &self->all->ranks[rank];
    int64_t busy_until_ns[RANK_TRACE_LANES_MAX];
    char name[RANK_TRACE_HOST_BYTES + 64];
    int named = 0;
    base_status status = BASE_OK;
    for (int lane = 0; lane < RANK_TRACE_LANES_MAX; lane++) {
        busy_until_ns[lane] = INT64_MIN;
    }
    self->rank = rank;
    self->open_count = 0;
    self->meetings_left = rank_trace_meeting_count(of);
    (void)snprintf(name, sizeof name, "\"name\":\"rank %d (%s)\"", rank, of->host);
    put_about(self, "process_name", THREAD, name);
    (void)snprintf(name, sizeof name, "\"sort_index\":%d", rank);
    put_about(self, "process_sort_index", THREAD, name);
    put_about(self, "thread_name", THREAD, "\"name\":\"the rank's thread\"");
    put_about(self, "thread_sort_index", THREAD, "\"sort_index\":1");
    qsort(of->spans, of->count, sizeof *of->spans, by_begin);
    for (size_t i = 0; status == BASE_OK && i < of->count; i++) {
        const rank_trace_span *span = &of->spans[i];
        nest(self, span);
        if ((span->of & RANK_TRACE_THREAD) != 0) {
            put_on_thread(self, span);
        }
        if ((span->of & RANK_TRACE_EXCHANGE) != 0) {
            const int lane = lane_of(busy_until_ns, span);
            self->left_out += lane < 0 ? 1 : 0;
            if (lane >= 0) {
                put_lane_name(self, lane, &named);
                put_event(self, &(event){.span = span,
                                         .thread = THREAD + 1 + lane,
                                         .begin_ns = span->begin_ns,
                                         .end_ns = span->end_ns,
                                         .waits_for = -1});
            }
        }
        status = flush(self, FLUSH_BYTES, reterr);
    }
    return status;
}

/* The hosts' clocks against that of rank 0's host, in the order of ranks. */
static void put_clocks(writer *self)
{
    const rank_trace_all *all = self->all;
    const char *between = "";
    base_buffer_put(&self->text, "\"clocks\":[");
    for (int rank = 0; rank < all->rank_count; rank++) {
        const rank_trace_clock *clock = &all->clocks[rank];
        if (all->ranks[rank].clock != rank) {
            continue;
        }
        base_buffer_printf(&self->text, "%s{\"host\":\"%s\",\"first_rank\":%d,\"known\":%s",
                           between, all->ranks[rank].host, rank, clock->known ? "true" : "false");
        if (clock->known) {
            base_buffer_printf(&self->text, ",\"offset_us\":%.3f,\"uncertainty_us\":%.3f",
                               (double)clock->offset_ns / 1e3, (double)clock->uncertainty_ns / 1e3);
        }
        base_buffer_put(&self->text, "}");
        between = ",";
    }
    base_buffer_put(&self->text, "]");
}

static void put_end(writer *self)
{
    const rank_trace_all *all = self->all;
    base_buffer_printf(
        &self->text,
        "\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"format\":1,\"ranks\":%d,"
        "\"whole_steps\":%d,\"steps_with_operations\":%d,\"exchanges_left_out\":%zu,",
        all->rank_count, all->steps, all->operation_steps, self->left_out);
    put_clocks(self);
    base_buffer_put(&self->text, "}}\n");
}

/* When the first span of a known clock began. */
static int64_t first_ns(const rank_trace_all *all)
{
    int64_t first = INT64_MAX;
    for (int rank = 0; rank < all->rank_count; rank++) {
        const rank_trace_clock *clock = clock_of(all, rank);
        for (size_t i = 0; clock->known && i < all->ranks[rank].count; i++) {
            const int64_t begin_ns = all->ranks[rank].spans[i].begin_ns - clock->offset_ns;
            first = begin_ns < first ? begin_ns : first;
        }
    }
    return first;
}

base_status rank_trace_write(const rank_trace_all *all, const char *path, base_error *reterr)
{
    writer self = {.all = all, .begin_ns = first_ns(all)};
    self.meetings = calloc(rank_trace_meeting_count(&all->ranks[0]) + 1, sizeof *self.meetings);
    base_status status = self.meetings != NULL
                             ? base_file_writer_open(path, &self.file, reterr)
                             : base_fail(reterr, BASE_ERR_MEMORY, "no memory for a trace");
    if (status != BASE_OK) {
        free(self.meetings);
        return status;
    }
    self.meeting_count = rank_trace_meet(all, self.meetings);
    base_buffer_put(&self.text, "{\"traceEvents\":[");
    for (int rank = 0; status == BASE_OK && rank < all->rank_count; rank++) {
        if (clock_of(all, rank)->known) {
            status = put_rank(&self, rank, reterr);
        }
    }
    put_end(&self);
    if (status == BASE_OK) {
        status = flush(&self, 0, reterr);
    }
    base_buffer_fini(&self.text);
    free(self.meetings);
    if (status != BASE_OK) {
        base_file_writer_abandon(self.file);
        return status;
    }
    return base_file_writer_commit(self.file, reterr);
}
