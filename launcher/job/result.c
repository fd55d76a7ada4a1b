/* What is left of a job when its ranks have ended: its result, and their last output. Called by job_run.c. */
#include <inttypes.h>

#include "base/exitcode.h"
#include "job/head.h"
#include "job/session.h"
#include "record/summary.h"

/* A new model's loss over that of its first step, when it knew nothing: from here on it diverges. */
static const double NEW_LOSS_GROWTH = 1.5;

void launch_result_deliver_tails(const launch_session *session)
{
    const launch_job_options *options = session->options;
    for (int rank = 0; session->cause.blame != 0 && rank < session->world_size; rank++) {
        const launch_tail *tail = &session->ranks[rank].tail;
        if (options->on_tail != NULL && tail->used > 0) {
            options->on_tail(options->user, rank, tail->data, tail->used);
        }
    }
}

/* The figures of a job whose ranks were ready. They follow the same rules as the record's. */
static base_status fill_figures(const launch_session *session, launch_job_result *result,
                                base_error *reterr)
{
    const launch_record_end end = {0};
    launch_summary summary;
    const base_status status = launch_summary_init(
        &summary, session->steps, launch_session_first_index(session), &end, reterr);
    if (status != BASE_OK) {
        return status;
    }
    result->steps_done = (int64_t)(session->steps->first + summary.steps_done);
    result->loss_first = summary.loss_first;
    result->loss_last = summary.loss_last;
    result->tokens_per_second = summary.tokens_per_second;
    result->allreduce_ms_p50 = summary.allreduce_ms.p50;
    result->allreduce_ms_p95 = summary.allreduce_ms.p95;
    result->steps_measured = summary.steps_done - summary.measured_first;
    result->mean_step = summary.mean_step;
    launch_summary_fini(&summary);
    return BASE_OK;
}

base_status launch_result_fill(launch_session *session, base_error *reterr)
{
    launch_job_result *result = session->result;
    const base_status status = result->ready ? fill_figures(session, result, reterr) : BASE_OK;
    result->stop_signal = session->stop_signal;
    launch_head_judge(session); /* how far the attempt has come is known now */
    const bool partial = session->stop_signal != 0 || session->cause.blame != 0;
    for (int rank = 0; rank < session->world_size && partial; rank++) {
        result->ranks[rank].eval_total = 0; /* a part of the ranks gives no accuracy */
        result->ranks[rank].eval_correct = 0;
    }
    if (result->paused && session->stop_signal != 0 && session->cause.blame == 0) {
        launch_screen_say(
            &session->screen,
            "the ranks had ended at the checkpoint of step %" PRId64
            " already, for hosts that wait: it has the model, and no states are saved",
            result->steps_done);
    }
    if (session->cause.blame != 0) {
        result->cause = session->cause.error;
        result->fails_again = session->cause.fails_again;
        const int own =
            session->cause.rank >= 0 ? session->ranks[session->cause.rank].exit_code : 0;
        result->exit_status = own != 0 ? own : session->cause.exit_status;
    } else if (session->stop_signal != 0) {
        result->exit_status = BASE_EXIT_SIGNAL_BASE + session->stop_signal;
    }
    return status;
}

/* Once in a job. */
static void warn_of_growth(launch_session *session, double first, double last)
{
    char message[LAUNCH_LOSS_MESSAGE_BYTES];
    if (session->warned_of_growth || session->options->label != NULL) {
        return;
    }
    session->warned_of_growth = true;
    launch_loss_message(first, last, message);
    launch_screen_say(&session->screen, "warning: %s", message);
}

void launch_result_watch_growth(launch_session *session)
{
    const launch_steps *steps = session->steps;
    const size_t count = launch_steps_count(steps);
    const bool is_new = steps->first == 0 && session->job->model.checkpoint[0] == '\0';
    if (is_new && count > 0 && steps->losses[count - 1] > NEW_LOSS_GROWTH * steps->losses[0]) {
        warn_of_growth(session, steps->losses[0], steps->losses[count - 1]);
    }
}

void launch_result_warn_of_growth(launch_session *session)
{
    const launch_job_result *result = session->result;
    if (session->cause.blame == 0 && launch_loss_grew(result->loss_first, result->loss_last)) {
        warn_of_growth(session, result->loss_first, result->loss_last);
    }
}
