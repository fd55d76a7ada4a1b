/* The progress line: step, loss, tokens per second, all-reduce, time left. On a terminal job_run.c
 * redraws it as time goes by. Elsewhere messages.c prints a line as steps come. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "job/session.h"
#include "record/stats.h"

enum { PLAIN_LINES = 10, TEXT_BYTES = 256, RECENT_STEPS = 32 };

static const double MS_PER_NS = 1e-6;

/* Of the last few steps, so that it is cheap however long the job is. NaN where nothing is known yet. */
typedef struct recent_figures {
    int64_t steps; /* that all ranks have reported, with those before the checkpoint */
    double loss;
    double tokens_per_second;
    double step_ms_p50;
    double allreduce_ms_p50;
} recent_figures;

static recent_figures look_back(const launch_session *session)
{
    double step_ms[RECENT_STEPS];
    double allreduce_ms[RECENT_STEPS];
    recent_figures figures = {
        .loss = NAN, .tokens_per_second = NAN, .step_ms_p50 = NAN, .allreduce_ms_p50 = NAN};
    if (!session->result->ready) {
        return figures;
    }
    const launch_steps *steps = session->steps;
    const size_t done = launch_steps_count(steps);
    const size_t own = done - launch_session_first_index(session);
    const size_t wanted = own - own / 2;
    const size_t count = wanted < RECENT_STEPS ? wanted : RECENT_STEPS;
    figures.steps = (int64_t)(steps->first + done);
    if (own == 0) {
        return figures;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t step = done - count + i;
        step_ms[i] = (double)launch_steps_slowest_ns(steps, step) * MS_PER_NS;
        allreduce_ms[i] = 0;
        for (int rank = 0; rank < steps->world_size; rank++) {
            allreduce_ms[i] += (double)steps->ranks[rank].times[step].allreduce_ns * MS_PER_NS;
        }
        allreduce_ms[i] /= steps->world_size;
    }
    figures.loss = steps->losses[done - 1];
    figures.tokens_per_second = launch_steps_tokens_per_second(steps, done - count, count);
    figures.step_ms_p50 = launch_spread_of(step_ms, count).p50;
    figures.allreduce_ms_p50 = launch_spread_of(allreduce_ms, count).p50;
    return figures;
}

/* "12.3k", "940"; "-" when not known. */
static void format_count(double value, char *text, size_t size_bytes)
{
    if (!isfinite(value)) {
        (void)snprintf(text, size_bytes, "-");
    } else if (value >= 1e6) {
        (void)snprintf(text, size_bytes, "%.2fM", value / 1e6);
    } else if (value >= 1e4) {
        (void)snprintf(text, size_bytes, "%.1fk", value / 1e3);
    } else {
        (void)snprintf(text, size_bytes, "%.0f", value);
    }
}

/* "1:02:03", "2:03", "7 s". */
static void format_left(double seconds, char *text, size_t size_bytes)
{
    if (!isfinite(seconds)) {
        (void)snprintf(text, size_bytes, "-");
        return;
    }
    const int64_t whole = (int64_t)ceil(seconds);
    if (whole >= 3600) {
        (void)snprintf(text, size_bytes, "%" PRId64 ":%02d:%02d", whole / 3600,
                       (int)(whole / 60 % 60), (int)(whole % 60));
    } else if (whole >= 60) {
        (void)snprintf(text, size_bytes, "%" PRId64 ":%02d", whole / 60, (int)(whole % 60));
    } else {
        (void)snprintf(text, size_bytes, "%" PRId64 " s", whole);
    }
}

static void format_line(const launch_session *session, const recent_figures *figures, char *text)
{
    char tokens[32];
    char left[32];
    char reduce[48] = "all-reduce p50 -  ";
    const double steps_left = (double)(session->job->train.steps - figures->steps);
    format_count(figures->tokens_per_second, tokens, sizeof tokens);
    format_left(steps_left * figures->step_ms_p50 / 1000, left, sizeof left);
    if (proto_mode_get(session->job->job.mode)->pipelined) {
        reduce[0] = '\0'; /* stages have none worth a look */
    } else if (isfinite(figures->allreduce_ms_p50)) {
        (void)snprintf(reduce, sizeof reduce, "all-reduce p50 %.2f ms  ",
                       figures->allreduce_ms_p50);
    }
    const char *label = session->options->label != NULL ? session->options->label : "";
    const int length = snprintf(
        text, TEXT_BYTES, "%sstep %" PRId64 "/%" PRId64 "  loss %.4f  %s tokens/s  %s%s left",
        label, figures->steps, session->job->train.steps, figures->loss, tokens, reduce, left);
    if (session->screen.terminal && (size_t)length >= launch_screen_width()) {
        (void)snprintf(text, TEXT_BYTES, "%" PRId64 "/%" PRId64 " loss %.3f %s tok/s %s left",
                       figures->steps, session->job->train.steps, figures->loss, tokens, left);
    }
}

/* How many texts all ranks have answered, and how many tokens they have drawn. */
static void format_answering(const launch_session *session, int64_t now_ns, char *text)
{
    launch_answering all = {0};
    char speed[32];
    for (int rank = 0; rank < session->world_size; rank++) {
        const launch_answering *one = &session->ranks[rank].answering;
        all.tokens += one->tokens;
        all.answered += one->answered;
        all.prompts += one->prompts;
    }
    const double seconds = (double)(now_ns - session->answering_since_ns) / BASE_NS_PER_S;
    format_count(seconds > 0 ? (double)all.tokens / seconds : NAN, speed, sizeof speed);
    (void)snprintf(text, TEXT_BYTES, "%" PRIu64 " of %" PRIu64 " texts  %" PRIu64 " tokens  %s/s",
                   all.answered, all.prompts, all.tokens, speed);
}

void launch_progress_step(launch_session *session)
{
    char text[TEXT_BYTES];
    const int64_t steps = session->job->train.steps;
    const int64_t every = (steps + PLAIN_LINES - 1) / PLAIN_LINES;
    const int64_t done = (int64_t)(session->steps->first + launch_steps_count(session->steps));
    if (session->screen.terminal || session->screen.quiet || session->options->label != NULL ||
        done < session->progress_step) {
        return;
    }
    const int64_t next = (done / every + 1) * every;
    session->progress_step = next < steps || done >= steps ? next : steps;
    const recent_figures figures = look_back(session);
    format_line(session, &figures, text);
    launch_screen_progress(&session->screen, text);
}

void launch_progress_heldout(launch_session *session, const launch_step *step)
{
    char exact[64] = "";
    const uint64_t done = session->steps->first + launch_steps_count(session->steps);
    if (!step->evaluated || done != step->step + 1 || session->screen.quiet ||
        session->options->label != NULL) {
        return;
    }
    if (step->heldout_sentences > 0) {
        (void)snprintf(exact, sizeof exact, "  exact match %" PRIu64 "/%" PRIu64,
                       step->heldout_correct, step->heldout_sentences);
    }
    launch_screen_note(&session->screen, "step %" PRIu64 "/%" PRId64 "  held-out loss %.4f%s",
                       step->step + 1, session->job->train.steps, step->heldout_loss, exact);
}

void launch_progress_update(launch_session *session, int64_t now_ns, bool last)
{
    char text[TEXT_BYTES];
    if (!session->screen.terminal || session->screen.quiet ||
        (now_ns < session->progress_due_ns && !last)) {
        return;
    }
    session->progress_due_ns = now_ns + LAUNCH_PROGRESS_MS * BASE_NS_PER_MS;
    const recent_figures figures = look_back(session);
    if (last || session->streaming) {
        launch_screen_clear(&session->screen);
    } else if (session->answering_since_ns != 0) {
        format_answering(session, now_ns, text);
        launch_screen_progress(&session->screen, text);
    } else if (figures.steps > 0) {
        format_line(session, &figures, text);
        launch_screen_progress(&session->screen, text);
    } else if (session->joined_count < session->world_size) {
        (void)snprintf(text, sizeof text, "%s%d of %d ranks have joined",
                       session->options->label != NULL ? session->options->label : "",
                       session->joined_count, session->world_size);
        launch_screen_progress(&session->screen, text);
    }
}
