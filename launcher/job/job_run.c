/* The event loop of one job: starts ranks, polls their pipes, pidfds, signals and messages,
 * enforces deadlines, and collects the result. Called by cli.c for the job and by scaling.c for its
 * measurements. */
#include "launch/job_run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/file.h"
#include "engine/parent.h"
#include "job/head.h"
#include "job/session.h"
#include "job/signals.h"
#include "job/writer.h"

enum {
    NO_FD = -1,
    FIXED_POLLS = 2 * PROTO_BUS_FDS + 2, /* the bus, the other hosts', signals, requests */
    SIGNAL_POLL = 2 * PROTO_BUS_FDS,
    FEED_POLL,
    POLLS_PER_RANK = 3, /* process, stdout, stderr */
    POLL_MS_MAX = 1000,
};

/* ---- before the loop ---- */

static base_status open_logs(launch_session *session, base_error *reterr)
{
    const char *directory = session->options->log_dir;
    const bool again = session->options->attempt > 1; /* the logs of those before have the reason */
    if (directory == NULL) {
        return BASE_OK;
    }
    base_status status = base_mkdirs(directory, reterr);
    for (int rank = 0; rank < session->world_size && status == BASE_OK; rank++) {
        char path[BASE_PATH_BYTES + 32];
        (void)snprintf(path, sizeof path, "%s/rank-%d.log", directory, rank);
        session->ranks[rank].log_fd = open(
            path, O_WRONLY | O_CREAT | (again ? O_APPEND : O_TRUNC) | O_CLOEXEC | O_NOCTTY, 0666);
        if (session->ranks[rank].log_fd < 0) {
            status = base_fail_errno(reterr, errno, "cannot write %s", path);
        } else if (again) {
            (void)dprintf(session->ranks[rank].log_fd, "--- attempt %d ---\n",
                          session->options->attempt);
        }
    }
    return status;
}

static void print_line(void *user, int fd, const char *line, size_t line_bytes)
{
    launch_session *session = user;
    /* The chatter of our ranks is of interest only in the job itself. A user's program is run for
     * its output. */
    const bool chatter = fd == STDOUT_FILENO && session->options->program == NULL;
    if (chatter && (session->options->quiet || session->options->label != NULL)) {
        return;
    }
    launch_screen_write(&session->screen, fd, line, line_bytes);
}

/* Notes why ranks are not bound, and warns if the user wanted them bound. */
static void note_binding(launch_session *session)
{
    const launch_job_options *options = session->options;
    launch_job_result *result = session->result;
    const bool near_gpus = options->bind && proto_mode_get(session->job->job.mode)->on_gpus;
    if (session->affinity.bound || near_gpus) { /* such a rank binds itself, and says so */
        return;
    }
    (void)snprintf(result->unbound, sizeof result->unbound, "%s",
                   options->bind ? session->affinity.why_not : "--no-bind");
    result->cpus_taken = session->affinity.taken;
    if (options->bind && !options->quiet && options->label == NULL) {
        launch_screen_say(&session->screen, "warning: ranks are not bound to CPUs of their own: %s",
                          result->unbound);
    }
}

static bool has_engine(const launch_session *session)
{
    const launch_place *place = session->options->place;
    return place != NULL && place->engine != LAUNCH_ENGINE_NONE;
}

static base_status session_open(launch_session *session, base_error *reterr)
{
    const proto_job *job = session->job;
    const int world_size = session->world_size;
    session->result->world_size = world_size;
    session->result->ranks = calloc((size_t)world_size, sizeof session->result->ranks[0]);
    session->ranks = calloc((size_t)world_size, sizeof session->ranks[0]);
    if (session->result->ranks == NULL || session->ranks == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %d ranks", world_size);
    }
    for (int i = 0; i < world_size; i++) {
        session->ranks[i].process =
            (launch_process){.pidfd = NO_FD, .out_fd = NO_FD, .err_fd = NO_FD};
        session->ranks[i].log_fd = NO_FD;
        session->ranks[i].reported_exit_code = -1;
        session->ranks[i].unreached = -1;
    }
    launch_screen_init(&session->screen, session->options->quiet);
    base_status status = launch_signals_open(&session->signal_fd, reterr);
    if (status == BASE_OK) {
        status = launch_start_job_file(session, reterr);
    }
    if (status == BASE_OK) {
        status = open_logs(session, reterr);
    }
    if (status == BASE_OK) {
        status = launch_lines_create(world_size, print_line, session, &session->lines, reterr);
    }
    session->steps = session->options->steps;
    if (status == BASE_OK && session->steps == NULL) {
        session->steps = &session->own_steps;
        status = launch_steps_of_job(session->steps, job, reterr);
    }
    if (status == BASE_OK && session->options->hosts != NULL) {
        status = launch_head_open(session, reterr);
        session->local_count = status == BASE_OK ? launch_head_own_ranks(session->head) : 0;
    }
    if (status == BASE_OK && session->options->bind && !proto_mode_get(job->job.mode)->on_gpus) {
        status = launch_affinity_init(
            &session->affinity, session->local_count, (int)job->parallel.threads_per_rank,
            has_engine(session) ? LAUNCH_AFFINITY_ENGINE : LAUNCH_AFFINITY_CLAIM, reterr);
    }
    if (status == BASE_OK) {
        note_binding(session);
    }
    launch_oom_open(&session->oom);
    return status;
}

/* ---- the loop ---- */

/* Whether the user asks once more. */
static bool asks_again(const launch_session *session, const struct signalfd_siginfo *info,
                       int64_t now_ns)
{
    return session->asked_signal != 0 && !launch_parent_has_sent(info) &&
           !launch_parent_sent_twice(info, session->asked_signal, session->asked_ns, now_ns);
}

static void take_signals(launch_session *session)
{
    const launch_place *place = session->options->place;
    const bool usr1_ends = place != NULL && place->in_slurm;
    struct signalfd_siginfo info;
    while (read(session->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            launch_watch_stops(session, base_now_ns());
        } else if (info.ssi_signo == SIGUSR1 && !usr1_ends) {
            launch_flights_request(session);
        } else if (info.ssi_signo == SIGTSTP) {
            launch_watch_pause(session);
        } else {
            const int64_t now_ns = base_now_ns();
            launch_stop(session, (int)info.ssi_signo, asks_again(session, &info, now_ns));
            if (session->asked_signal == 0) {
                session->asked_signal = (int)info.ssi_signo;
                session->asked_ns = now_ns;
            }
        }
    }
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Does whatever is due. Returns when it must be called again. */
static int64_t handle_due(launch_session *session)
{
    const int64_t now_ns = base_now_ns();
    int64_t next_ns = launch_rendezvous_deadlines(session, now_ns);
    next_ns = earlier(next_ns, launch_head_due(session, now_ns));
    next_ns = earlier(next_ns, launch_watch_stop_deadlines(session, now_ns));
    next_ns = earlier(next_ns, launch_job_lease_due(session, now_ns));
    next_ns = earlier(next_ns, launch_watch_exits_due(session, now_ns));
    next_ns = earlier(next_ns, launch_end_ranks(session, now_ns));
    next_ns = earlier(next_ns, launch_stop_drain_due(session, now_ns));
    next_ns = earlier(next_ns, launch_flights_deliver_due(session, now_ns));
    launch_stop_explain(session, now_ns);
    launch_lines_flush(session->lines, now_ns);
    next_ns = earlier(next_ns, launch_lines_deadline_ns(session->lines));
    if (session->abort_due_ns == BASE_NO_DEADLINE) {
        launch_progress_update(session, now_ns, false);
    }
    return next_ns;
}

/* Whether standard output and error take more. Else somebody waits for room: a rank that prints, an
 * agent, or requests. */
static bool has_room(void)
{
    return launch_writer_has_room(STDOUT_FILENO) && launch_writer_has_room(STDERR_FILENO);
}

static int fill_polls(const launch_session *session, struct pollfd *polls)
{
    const bool out_room = launch_writer_has_room(STDOUT_FILENO);
    const bool err_room = launch_writer_has_room(STDERR_FILENO);
    proto_bus_polls(session->bus, polls);
    launch_head_polls(session, polls + PROTO_BUS_FDS);
    polls[SIGNAL_POLL] = (struct pollfd){.fd = session->signal_fd, .events = POLLIN};
    polls[FEED_POLL] = (struct pollfd){.fd = launch_feed_fd(session), .events = POLLIN};
    for (int i = 0; i < session->local_count; i++) {
        const launch_process *process = &session->ranks[i].process;
        /* the end is known: nothing to wake for */
        const bool known = session->ranks[i].exit_due_ns != 0;
        struct pollfd *rank = &polls[FIXED_POLLS + i * POLLS_PER_RANK];
        rank[0] = (struct pollfd){.fd = known ? NO_FD : process->pidfd, .events = POLLIN};
        rank[1] = (struct pollfd){.fd = out_room ? process->out_fd : NO_FD, .events = POLLIN};
        rank[2] = (struct pollfd){.fd = err_room ? process->err_fd : NO_FD, .events = POLLIN};
    }
    return FIXED_POLLS + session->local_count * POLLS_PER_RANK;
}

/* All ranks have ended, and no message from them can still explain the failure. */
static bool is_over(const launch_session *session)
{
    if (session->exited_count < session->started_count) {
        return false;
    }
    return session->cause.blame <= LAUNCH_BLAME_CAUSE || session->abort_sent_ns != 0;
}

static base_status supervise(launch_session *session, base_error *reterr)
{
    const size_t poll_count = FIXED_POLLS + (size_t)session->local_count * POLLS_PER_RANK;
    struct pollfd *polls = calloc(poll_count, sizeof polls[0]);
    if (polls == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to watch the ranks");
    }
    for (;;) {
        launch_messages_drain(session);
        launch_head_drain(session);
        session->sent = false;
        const bool had_room =
            has_room(); /* the writer makes room at any time: then look again soon */
        launch_feed_step(session);
        const int64_t next_ns = handle_due(session);
        if (is_over(session)) {
            break;
        }
        if (session->sent) {
            continue; /* sending may have consumed the bus's wake-up: look again before sleeping */
        }
        const int wait_ms = had_room && has_room() ? POLL_MS_MAX : LAUNCH_WRITER_BUSY_MS;
        const int count = fill_polls(session, polls);
        if (poll(polls, (nfds_t)count, base_deadline_poll_ms(next_ns, wait_ms)) <= 0) {
            continue;
        }
        if (polls[SIGNAL_POLL].revents != 0) {
            take_signals(session);
        }
        session->feeding.readable = polls[FEED_POLL].revents != 0;
        for (int i = 0; i < session->local_count; i++) {
            const struct pollfd *rank = &polls[FIXED_POLLS + i * POLLS_PER_RANK];
            if (rank[1].revents != 0) {
                launch_watch_output(session, i, STDOUT_FILENO, false);
            }
            if (rank[2].revents != 0) {
                launch_watch_output(session, i, STDERR_FILENO, false);
            }
            if (rank[0].revents != 0) {
                launch_watch_exit(session, i);
            }
        }
    }
    free(polls);
    return BASE_OK;
}

/* ---- after the loop ---- */

/* Kills what runs if starting failed half-way. */
static void kill_all(launch_session *session)
{
    for (int i = 0; session->ranks != NULL && i < session->local_count; i++) {
        launch_rank *rank = &session->ranks[i];
        if (rank->started && !rank->exited) {
            siginfo_t info;
            launch_process_signal(&rank->process, SIGKILL);
            (void)waitid(P_PID, (id_t)rank->process.pid, &info, WEXITED);
            rank->exited = true;
        }
    }
}

static void session_close(launch_session *session)
{
    kill_all(session);
    if (session->result->goes_on) {
        launch_head_leave_attempt(session);
    } else {
        launch_head_close(session,
                          session->result->exit_status != 0 ? session->result->exit_status
                          : session->over                   ? BASE_EXIT_DONE
                                                            : BASE_EXIT_ERROR,
                          session->cause.error.message);
    }
    launch_screen_clear(&session->screen);
    launch_lines_destroy(session->lines);
    proto_bus_close(session->bus);
    launch_affinity_fini(&session->affinity);
    launch_steps_fini(&session->own_steps);
    launch_outputs_fini(&session->outputs);
    for (int i = 0; session->ranks != NULL && i < session->world_size; i++) {
        base_fd_close(&session->ranks[i].process.pidfd);
        base_fd_close(&session->ranks[i].process.out_fd);
        base_fd_close(&session->ranks[i].process.err_fd);
        base_fd_close(&session->ranks[i].log_fd);
        free(session->ranks[i].flight);
        launch_tail_fini(&session->ranks[i].tail);
    }
    base_fd_close(&session->job_fd);
    base_fd_close(&session->lifeline_fd);
    base_fd_close(&session->master_port_fd);
    base_fd_close(&session->signal_fd);
    launch_oom_close(&session->oom);
    free(session->ranks);
}

/* All that is not zero at the start. */
static void session_init(launch_session *session, const launch_job_options *options,
                         launch_job_result *result)
{
    session->options = options;
    session->result = result;
    session->job = options->job;
    session->root = options->root != NULL ? options->root : "";
    session->world_size = (int)options->job->job.world_size;
    session->local_count = (int)options->job->job.world_size;
    session->job_fd = NO_FD;
    session->lifeline_fd = NO_FD;
    session->master_port_fd = NO_FD;
    session->signal_fd = NO_FD;
    session->oom.kmsg_fd = NO_FD;
    session->started_ns = base_now_ns();
    session->join_deadline_ns = BASE_NO_DEADLINE;
    session->ready_deadline_ns = BASE_NO_DEADLINE;
    session->abort_due_ns = BASE_NO_DEADLINE;
    session->progress_step = 1;
    if (options->kept_head != NULL) {
        session->head = *options->kept_head;
        *options->kept_head = NULL;
    }
    launch_open_requests_init(&session->feeding.requests, (int)options->job->infer.max_num_seqs);
}

base_status launch_job_run(const launch_job_options *options, launch_job_result *result,
                           base_error *reterr)
{
    sigset_t mask_before;
    *result = (launch_job_result){.loss_first = NAN,
                                  .loss_last = NAN,
                                  .tokens_per_second = NAN,
                                  .allreduce_ms_p50 = NAN,
                                  .allreduce_ms_p95 = NAN};
    launch_session *session = calloc(1, sizeof *session); /* it is large for a stack */
    if (session == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a job");
    }
    session_init(session, options, result);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
    base_status status = session_open(session, reterr);
    if (status == BASE_OK && session->head != NULL) {
        launch_head_gather(session);
    }
    if (status == BASE_OK && session->cause.blame == 0 && !session->is_short) {
        launch_job_redeem(session);
    }
    if (status == BASE_OK && session->cause.blame == 0 && !session->is_short) {
        result->started = true;
        status = launch_start_ranks(session, reterr);
        status = status == BASE_OK ? supervise(session, reterr) : status;
    }
    if (status == BASE_OK) {
        launch_progress_update(session, base_now_ns(), true);
        launch_flights_deliver(session, true);
        launch_result_deliver_tails(session);
        launch_feed_abandon(session);
        status = launch_result_fill(session, reterr);
        session->over = status == BASE_OK;
        result->paused = result->paused && session->stop_signal == 0 && session->cause.blame == 0;
        result->goes_on = session->over &&
                          (result->paused || (session->is_short && session->cause.blame == 0) ||
                           (options->goes_on != NULL && options->goes_on(options->user, result)));
    }
    if (status == BASE_OK) {
        launch_result_warn_of_growth(session);
    } else if (session->cause.blame == 0) {
        session->cause.error = *reterr; /* for the other hosts */
    }
    session_close(session);
    result->stop_signal = session->stop_signal; /* also before there were ranks */
    if (session->stop_signal != 0 && options->hosts != NULL &&
        options->hosts->place.engine != LAUNCH_ENGINE_NONE) {
        launch_signals_ignore_stops();
    }
    (void)pthread_sigmask(SIG_SETMASK, &mask_before, NULL);
    result->wall_seconds = (double)(base_now_ns() - session->started_ns) / BASE_NS_PER_S;
    free(session);
    return status;
}

void launch_job_result_fini(launch_job_result *result)
{
    free(result->ranks);
    free(result->experts);
    result->ranks = NULL;
    result->experts = NULL;
}
