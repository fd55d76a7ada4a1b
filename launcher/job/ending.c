/* Keeps the first cause of failure, and ends all ranks. Called by every file of job/ that sees a
 * failure, and by job_run.c for its deadlines and the user's signals. */
#include <control.pb-c.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/text.h"
#include "job/head.h"
#include "job/session.h"

enum { STOPS_BYTES = 512 };

/* Says on which of several hosts the rank ran. */
static void add_host(const launch_session *session, int rank, base_error *error)
{
    if (session->head != NULL && rank >= 0) {
        const int node = session->ranks[rank].node;
        base_text_append(error->message, sizeof error->message, " [host %s, node %d]",
                         launch_head_hostname(session->head, node), node);
    }
}

bool launch_blame(launch_session *session, launch_blame_class blame, int rank, int exit_status,
                  const char *format, ...)
{
    launch_cause *cause = &session->cause;
    const bool first = cause->blame == 0 || blame < cause->blame;
    if (first) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(cause->error.message, sizeof cause->error.message, format, args);
        va_end(args);
        add_host(session, rank, &cause->error);
        cause->blame = blame;
        cause->rank = rank;
        cause->exit_status = exit_status;
        cause->fails_again = false;
        cause->node = 0;
        cause->waited = false;
    }
    /* a failure that is not a cause by itself may have one that shows in a moment */
    const int64_t wait_ms = cause->blame <= LAUNCH_BLAME_CAUSE    ? 0
                            : cause->blame == LAUNCH_BLAME_WAITED ? LAUNCH_STAGES_WAIT_MS
                            : session->head != NULL               ? LAUNCH_HOSTS_CAUSE_WAIT_MS
                                                                  : LAUNCH_CAUSE_WAIT_MS;
    const int64_t due_ns = base_now_ns() + wait_ms * BASE_NS_PER_MS;
    if (due_ns < session->abort_due_ns) {
        session->abort_due_ns = due_ns;
    }
    return first;
}

void launch_rank_signal(launch_session *session, int index, int signal_number)
{
    const launch_rank *rank = &session->ranks[index];
    if (rank->node == 0) {
        launch_process_signal(&rank->process, signal_number);
    } else {
        session->sent = true;
        launch_head_signal(session->head, rank->node, index, signal_number);
    }
}

static void signal_rank(launch_session *session, int index, int signal_number)
{
    launch_rank *rank = &session->ranks[index];
    if (rank->started && !rank->exited) {
        if (rank->exit_due_ns == 0) {
            /* if it has ended, the signal only reaches what it started */
            rank->ended_with = signal_number;
        }
        launch_rank_signal(session, index, signal_number);
    }
}

/* Sends Abort to the ranks. A rank that has not joined, or that the message does not reach, gets a
 * signal at once. */
static void send_abort(launch_session *session)
{
    Ringfence__Control__Abort message = RINGFENCE__CONTROL__ABORT__INIT;
    message.reason = session->cause.error.message;
    message.first_rank = session->cause.rank;
    session->sent = true;
    for (int i = 0; i < session->world_size; i++) {
        base_error ignored;
        launch_rank *rank = &session->ranks[i];
        if (rank->reported_exit_code >= 0) {
            continue; /* it has failed by itself, so it is ending and knows why */
        }
        const bool notified = rank->joined && !rank->exited &&
                              proto_bus_send(session->bus, i, &message.base, &ignored) == BASE_OK;
        rank->unreachable = rank->joined && !notified;
        if (rank->stopped) {
            signal_rank(session, i, SIGKILL); /* a stopped process reacts to no other signal */
        } else if (!notified) {
            signal_rank(session, i, SIGTERM);
        }
    }
}

/* In a pipeline all stages wait for one that hangs, directly or by way of others, and all of them say so.
 * The one that hangs says nothing. */
static void name_silent(launch_session *session)
{
    base_error *error = &session->cause.error;
    const char *between = "; not heard of: ";
    if (session->cause.blame != LAUNCH_BLAME_WAITED) {
        return;
    }
    for (int i = 0; i < session->world_size; i++) {
        const launch_rank *rank = &session->ranks[i];
        if (rank->reported_exit_code < 0 && !launch_rank_has_ended(rank)) {
            base_text_append(error->message, sizeof error->message, "%srank %d (pid %d)", between,
                             i, launch_rank_pid(rank));
            between = ", ";
        }
    }
}

static void signal_ranks(launch_session *session, int signal_number)
{
    for (int rank = 0; rank < session->world_size; rank++) {
        signal_rank(session, rank, signal_number);
    }
}

void launch_kill_ranks(launch_session *session, int64_t now_ns)
{
    session->abort_sent_ns = now_ns;
    session->killed = true;
    signal_ranks(session, SIGKILL);
}

int64_t launch_end_ranks(launch_session *session, int64_t now_ns)
{
    if (session->abort_due_ns == BASE_NO_DEADLINE || session->killed) {
        return BASE_NO_DEADLINE;
    }
    if (session->abort_sent_ns == 0) {
        if (now_ns < session->abort_due_ns) {
            return session->abort_due_ns;
        }
        session->abort_sent_ns = now_ns;
        name_silent(session);
        send_abort(session);
    }
    const int64_t term_ns = session->abort_sent_ns + LAUNCH_TERM_AFTER_MS * BASE_NS_PER_MS;
    const int64_t kill_ns = session->abort_sent_ns + LAUNCH_KILL_AFTER_MS * BASE_NS_PER_MS;
    if (now_ns >= kill_ns) {
        session->killed = true;
        signal_ranks(session, SIGKILL);
        return BASE_NO_DEADLINE;
    }
    if (now_ns >= term_ns) {
        if (!session->termed) {
            session->termed = true;
            signal_ranks(session, SIGTERM);
        }
        return kill_ns;
    }
    return term_ns;
}

/* A rank that is done, or whose connection or process has ended, has nothing to stop. */
static bool may_be_asked(const launch_rank *rank)
{
    return !rank->finished && !rank->link_ended && !launch_rank_has_ended(rank);
}

/* A rank that has gone shows otherwise. Only one that is there and takes no message would never end. */
static void send_stop(launch_session *session, const char *reason)
{
    char text[64];
    Ringfence__Control__Stop message = RINGFENCE__CONTROL__STOP__INIT;
    (void)snprintf(text, sizeof text, "%s", reason);
    message.reason = text;
    for (int rank = 0; rank < session->world_size; rank++) {
        base_error error;
        if (may_be_asked(&session->ranks[rank]) &&
            proto_bus_send(session->bus, rank, &message.base, &error) == BASE_ERR_BUSY) {
            launch_blame(session, LAUNCH_BLAME_UNCLEAR, rank, BASE_EXIT_ERROR,
                         "rank %d cannot be asked to stop: %s", rank, error.message);
        }
    }
}

/* What the user may have to know of a job that is asked to end: what holds it up. */
static void describe_waits(launch_session *session, char text[STOPS_BYTES])
{
    launch_watch_describe_stops(session, text, STOPS_BYTES);
    session->explained = launch_watch_unread_ns(base_now_ns()) > 0;
}

/* A user's program gets the signal itself. A program that has joined gets a Stop message as
 * well. */
static void pass_on(launch_session *session, int signal_number, const char *name)
{
    char stops[STOPS_BYTES];
    session->stop_signal = signal_number;
    describe_waits(session, stops);
    launch_screen_say(&session->screen, "%s: passed on to the ranks; %s again ends them at once%s",
                      name, name, stops);
    if (session->joined_count == session->world_size) {
        send_stop(session, name);
    }
    for (int rank = 0; rank < session->world_size; rank++) {
        if (session->ranks[rank].started && !session->ranks[rank].exited) {
            launch_rank_signal(session, rank, signal_number);
        }
    }
}

void launch_stop_explain(launch_session *session, int64_t now_ns)
{
    const bool waits = session->stop_signal != 0 && !session->explained &&
                       session->abort_due_ns == BASE_NO_DEADLINE;
    const int64_t stuck_ns = waits ? launch_watch_unread_ns(now_ns) : 0;
    if (stuck_ns > 0) {
        session->explained = true;
        launch_screen_say(&session->screen,
                          "nobody has read standard output for %.0f s: ranks that print wait, and "
                          "end only then",
                          (double)stuck_ns / BASE_NS_PER_S);
    }
}

/* --serve-drain has passed, and the feed has not ended. */
static void cancel_what_runs(launch_session *session)
{
    if (launch_feed_end(session)) {
        launch_screen_say(&session->screen,
                          "--serve-drain has passed: clients that have not read their answers get "
                          "no more");
        return;
    }
    session->stop_signal = session->feeding.drain_signal;
    launch_screen_say(&session->screen, "--serve-drain has passed: what still runs is cancelled");
    send_stop(session, "the drain");
}

int64_t launch_stop_drain_due(launch_session *session, int64_t now_ns)
{
    launch_feeding *feeding = &session->feeding;
    if (feeding->drain_signal == 0 || session->abort_due_ns != BASE_NO_DEADLINE) {
        return BASE_NO_DEADLINE;
    }
    if (now_ns >= feeding->drain_due_ns && feeding->drained) {
        char stops[STOPS_BYTES];
        describe_waits(session, stops);
        session->stop_signal = feeding->drain_signal;
        launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK,
                     BASE_EXIT_SIGNAL_BASE + feeding->drain_signal,
                     "ranks have not ended %d s after --serve-drain, and are killed%s",
                     LAUNCH_DRAINED_MS / 1000, stops);
        return BASE_NO_DEADLINE;
    }
    if (now_ns >= feeding->drain_due_ns) {
        feeding->drained = true;
        feeding->drain_due_ns = now_ns + LAUNCH_DRAINED_MS * BASE_NS_PER_MS;
        if (!feeding->ended) {
            cancel_what_runs(session);
        }
    }
    return feeding->drain_due_ns;
}

static void say_stop(launch_session *session, const char *name, bool training)
{
    char stops[STOPS_BYTES];
    if (session->options->label != NULL) {
        launch_screen_say(&session->screen,
                          "%s: ending the measuring; the job itself is done, and its record is "
                          "written; %s again ends at once",
                          name, name);
        return;
    }
    describe_waits(session, stops);
    launch_screen_say(&session->screen,
                      "%s: ending after the current %s%s; %s again ends at once%s", name,
                      proto_job_is_local(session->job) ? "round of local steps" : "step",
                      training ? ", states and record are saved" : "", name, stops);
}

void launch_stop(launch_session *session, int signal_number, bool again)
{
    const char *name = signal_number == SIGINT    ? "Ctrl-C"
                       : signal_number == SIGTERM ? "SIGTERM"
                       : signal_number == SIGUSR1 ? "SIGUSR1"
                                                  : "SIGHUP";
    const bool first = session->stop_signal == 0 && session->feeding.drain_signal == 0;
    const bool ending = session->abort_due_ns != BASE_NO_DEADLINE || session->result->paused;
    if (ending && first) {
        if (session->options->tried_again || session->result->paused) {
            session->stop_signal = signal_number;
            launch_screen_say(&session->screen, "%s: it is not tried again", name);
        }
        return; /* the job is ending already, within a second */
    }
    if (!first && !again) {
        return; /* an engine signals all launchers at once */
    }
    if (session->options->program != NULL && first) {
        pass_on(session, signal_number, name);
        return;
    }
    const bool training = proto_mode_get(session->job->job.mode)->trains;
    const bool under_way =
        training ? session->result->ready : session->joined_count == session->world_size;
    if (first && under_way && launch_feed_drain(session, signal_number)) {
        launch_screen_say(
            &session->screen,
            "%s: no more requests are taken, and those that run end within %.0f s; %s "
            "again ends at once",
            name, (double)session->options->feed->drain_ms / 1000, name);
        return;
    }
    session->stop_signal = signal_number;
    if (first && under_way) {
        say_stop(session, name, training);
        send_stop(session, name);
        return;
    }
    launch_blame(session, LAUNCH_BLAME_CAUSE, PROTO_NO_RANK, BASE_EXIT_SIGNAL_BASE + signal_number,
                 "ended at once by %s%s", name,
                 under_way || session->options->label != NULL ||
                         session->options->program != NULL || session->options->attempt > 1
                     ? ""
                 : training ? " before the first step: there is nothing to save"
                            : " before the first step");
    launch_kill_ranks(session, base_now_ns());
}
