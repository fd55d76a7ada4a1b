/* Watches the ranks' processes: their output, exits, signals and stops. Called by job_run.c. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/file.h"
#include "base/text.h"
#include "job/session.h"
#include "job/writer.h"

enum {
    READ_BYTES = 16 * 1024,
    READS_AT_ONCE = 8,
    READS_LAST = 64 /* all of the largest pipe */,
    NO_FD = -1
};

static void log_output(launch_session *session, launch_rank *rank, const char *data, size_t bytes)
{
    base_error error;
    if (rank->log_fd >= 0 &&
        base_fd_write(rank->log_fd, "a rank's log file", data, bytes, &error) != BASE_OK) {
        launch_screen_say(&session->screen, "warning: %s; it is not written any more",
                          error.message);
        (void)close(rank->log_fd);
        rank->log_fd = NO_FD;
    }
}

void launch_watch_printed(launch_session *session, int index, int fd_number, const char *data,
                          size_t bytes, bool last)
{
    if (bytes > 0) {
        log_output(session, &session->ranks[index], data, bytes);
        if (session->options->on_tail != NULL) {
            launch_tail_add(&session->ranks[index].tail, data, bytes);
        }
        launch_lines_add(session->lines, index, fd_number, data, bytes, base_now_ns());
    }
    if (last) {
        launch_lines_end(session->lines, index, fd_number, base_now_ns());
    }
}

void launch_watch_output(launch_session *session, int index, int fd_number, bool last)
{
    launch_rank *rank = &session->ranks[index];
    int *fd = fd_number == STDOUT_FILENO ? &rank->process.out_fd : &rank->process.err_fd;
    char data[READ_BYTES];
    bool ended = *fd < 0;
    bool empty = false;
    for (int i = 0; !ended && !empty && i < (last ? READS_LAST : READS_AT_ONCE); i++) {
        if (!last && !launch_writer_has_room(fd_number)) {
            return; /* the rank waits, once its pipe is full */
        }
        const ssize_t got = read(*fd, data, sizeof data);
        if (got > 0) {
            launch_watch_printed(session, index, fd_number, data, (size_t)got, false);
        } else if (got == 0) {
            ended = true;
        } else if (errno != EINTR) {
            empty = true; /* EAGAIN: a child of the rank's may still hold the pipe */
        }
    }
    if (*fd >= 0 && (ended || last)) {
        (void)close(*fd);
        *fd = NO_FD;
        launch_watch_printed(session, index, fd_number, NULL, 0, true);
    }
}

/* " after 3 steps": how far a rank came. Empty for a program that has not joined. */
static void progress_text(const launch_session *session, const launch_rank *rank, char *text,
                          size_t size_bytes)
{
    const bool program = session->options->program != NULL;
    text[0] = '\0';
    if (!rank->joined) {
        if (!program || session->joined_count > 0) {
            (void)snprintf(text, size_bytes, " before it joined");
        }
    } else if (rank->finished) {
        (void)snprintf(text, size_bytes, " after it had finished");
    } else if (program) {
        (void)snprintf(text, size_bytes, " before it had finished");
    } else if (launch_rank_is_answering(rank)) {
        (void)snprintf(text, size_bytes, " while answering");
    } else if (!rank->ready) {
        (void)snprintf(text, size_bytes, " while starting");
    } else {
        (void)snprintf(text, size_bytes, " after %" PRId64 " step%s", rank->steps_reported,
                       rank->steps_reported == 1 ? "" : "s");
    }
}

/* Blames a rank that exited by itself without giving a reason. */
static void blame_exit(launch_session *session, int index, int exit_code)
{
    const launch_rank *rank = &session->ranks[index];
    const bool program = session->options->program != NULL;
    const char *reason =
        exit_code == 0 ? ": it had not finished" : ": its own output has the reason";
    char when[64];
    progress_text(session, rank, when, sizeof when);
    /* the exit code of a user's program is a cause: the program chose it */
    LAUNCH_BLAME_OWN(session, program && exit_code != 0 ? LAUNCH_BLAME_CAUSE : LAUNCH_BLAME_UNCLEAR,
                     index, exit_code != 0 ? exit_code : BASE_EXIT_ERROR,
                     "rank %d (pid %d) exited with code %d%s%s", index, launch_rank_pid(rank),
                     exit_code, when, program ? "" : reason);
}

/* Whether our own signal ended the rank. A dying process closes its connection before the launcher
 * sees its end, on a busy machine long before. SIGTERM may have been sent in between, and is then
 * not the cause. But if a rank dies of something else after it was sent SIGTERM, SIGTERM is the
 * cause. */
static bool is_by_us(const launch_rank *rank, int signal_number)
{
    if (rank->ended_with == 0 || rank->ended_with == signal_number) {
        return rank->ended_with != 0;
    }
    return signal_number != SIGKILL && !rank->unreachable;
}

/* Whether the rank's process still ran when Abort was sent to all. */
static bool was_notified(const launch_session *session, const launch_rank *rank)
{
    const int64_t seen_ns = rank->exit_due_ns - LAUNCH_LAST_MESSAGES_MS * BASE_NS_PER_MS;
    return session->abort_sent_ns != 0 &&
           (rank->exit_due_ns == 0 || seen_ns >= session->abort_sent_ns);
}

/* Why a signal that is not the launcher's ended a process, and what to do: what is known if memory did
 * not run out. */
static const char *signal_reason(int signal_number, bool program)
{
    switch (signal_number) {
    case SIGKILL:
        return ": not by the launcher, and no lack of memory shows; start the job again";
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
    case SIGQUIT:
        return ": somebody sent it; start the job again";
    case SIGXFSZ:
        return ": a file would be larger than ulimit -f allows";
    case SIGXCPU:
        return LAUNCH_TIME_USED_UP;
    case SIGBUS:
        return ": a bug, or no memory is left for what it shares";
    default:
        return program ? ": a bug in the program" : ": a bug; please report it";
    }
}

/* Decides what the end of a process means. */
static void assess_exit(launch_session *session, int index, const siginfo_t *info)
{
    const launch_rank *rank = &session->ranks[index];
    const bool by_signal = info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED;
    const bool program = session->options->program != NULL;
    const pid_t pid = launch_rank_pid(rank);
    if (program && session->stop_signal != 0) {
        return; /* the user's signal was passed on to it */
    }
    if (by_signal && !is_by_us(rank, info->si_status)) {
        char when[64];
        const char *name = sigabbrev_np(info->si_status);
        const char *memory = rank->node != 0
                                 ? rank->remote.reason
                                 : launch_oom_reason(&session->oom, info->si_status, pid);
        progress_text(session, rank, when, sizeof when);
        LAUNCH_BLAME_OWN(
            session, LAUNCH_BLAME_CAUSE, index, BASE_EXIT_SIGNAL_BASE + info->si_status,
            "rank %d (pid %d) was ended by SIG%s%s%s", index, pid, name != NULL ? name : "?", when,
            memory[0] != '\0' ? memory : signal_reason(info->si_status, program));
        return;
    }
    const bool unfinished = !rank->finished && (!program || session->joined_count > 0);
    if (!by_signal && info->si_status == 0 && !unfinished) {
        return;
    }
    if (was_notified(session, rank)) {
        launch_blame(session, LAUNCH_BLAME_ABORTED, index, BASE_EXIT_ERROR,
                     "rank %d (pid %d) was aborted", index, pid);
    } else if (rank->reported_exit_code < 0) {
        blame_exit(session, index, info->si_status);
    }
}

/* Whether messages of an ended rank may still come. Until a thread of the bus has read them, they
 * are in the connection. On a busy machine that may be after the launcher sees that the process has
 * ended. */
static bool messages_may_come(launch_rank *rank, int64_t now_ns)
{
    if (!rank->joined || rank->finished || rank->link_ended) {
        return false;
    }
    if (rank->exit_due_ns == 0) {
        rank->exit_due_ns = now_ns + LAUNCH_LAST_MESSAGES_MS * BASE_NS_PER_MS;
    }
    return now_ns < rank->exit_due_ns;
}

/* Whether the rank's process has ended, and how. It is not reaped yet. */
static bool process_ended(const launch_rank *rank, siginfo_t *info)
{
    if (rank->node != 0) {
        info->si_code = rank->remote.by_signal ? CLD_KILLED : CLD_EXITED;
        info->si_status = rank->remote.status;
        return rank->remote.ended;
    }
    return waitid(P_PID, (id_t)rank->process.pid, info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info->si_pid != 0;
}

void launch_watch_exit(launch_session *session, int index)
{
    launch_rank *rank = &session->ranks[index];
    siginfo_t info = {0};
    if (rank->exited || !process_ended(rank, &info)) {
        return;
    }
    launch_messages_drain(session); /* its last messages came before its end */
    if (info.si_code == CLD_EXITED && messages_may_come(rank, base_now_ns())) {
        return;
    }
    launch_watch_output(session, index, STDOUT_FILENO, true);
    launch_watch_output(session, index, STDERR_FILENO, true);
    if (info.si_code != CLD_EXITED) { /* its own timer may have done it */
        (void)launch_job_lease_due(session, base_now_ns());
    }
    if (info.si_code == CLD_EXITED && rank->ended_with == 0) {
        rank->exit_code = info.si_status;
    }
    assess_exit(session, index, &info);
    if (rank->node == 0) {
        launch_process_reap(&rank->process);
    }
    rank->exited = true;
    session->exited_count++;
}

int64_t launch_watch_exits_due(launch_session *session, int64_t now_ns)
{
    int64_t next_ns = BASE_NO_DEADLINE;
    for (int i = 0; i < session->world_size; i++) {
        const launch_rank *rank = &session->ranks[i];
        if (rank->exit_due_ns == 0 || rank->exited) {
            continue;
        }
        if (rank->link_ended || now_ns >= rank->exit_due_ns) {
            launch_watch_exit(session, i);
        } else if (rank->exit_due_ns < next_ns) {
            next_ns = rank->exit_due_ns;
        }
    }
    return next_ns;
}

static void signal_running(launch_session *session, int signal_number)
{
    for (int i = 0; i < session->world_size; i++) {
        const launch_rank *rank = &session->ranks[i];
        if (rank->started && !rank->exited && !rank->stopped) {
            launch_rank_signal(session, i, signal_number);
        }
    }
}

static void move_deadline(int64_t *deadline_ns, int64_t by_ns)
{
    if (*deadline_ns != BASE_NO_DEADLINE) {
        *deadline_ns += by_ns;
    }
}

void launch_watch_pause(launch_session *session)
{
    sigset_t stop;
    if (session->head != NULL) {
        launch_screen_say(&session->screen, "Ctrl-Z: a job on several hosts is not paused");
        return;
    }
    const int64_t before_ns = base_now_ns();
    launch_screen_clear(&session->screen);
    (void)launch_writer_flush(base_deadline_after_ns(LAUNCH_WRITER_BUSY_MS * BASE_NS_PER_MS));
    signal_running(session, SIGSTOP);
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTSTP);
    (void)raise(SIGTSTP); /* not SIGSTOP: the kernel drops SIGTSTP if nobody could continue us */
    (void)pthread_sigmask(SIG_UNBLOCK, &stop, NULL); /* the launcher stops here */
    (void)pthread_sigmask(SIG_BLOCK, &stop, NULL);
    signal_running(session, SIGCONT);
    const int64_t paused_ns = base_now_ns() - before_ns;
    move_deadline(&session->join_deadline_ns, paused_ns);
    move_deadline(&session->ready_deadline_ns, paused_ns);
    for (int i = 0; i < session->world_size; i++) {
        session->ranks[i].stopped_ns += paused_ns;
    }
}

void launch_watch_halted(launch_session *session, int index, int signal_number, int64_t now_ns)
{
    launch_rank *rank = &session->ranks[index];
    if (signal_number == 0) {
        rank->stopped = false;
    } else if (!rank->stopped) {
        const char *name = sigabbrev_np(signal_number);
        rank->stopped = true;
        rank->stopped_ns = now_ns;
        launch_screen_say(&session->screen,
                          "warning: rank %d (pid %d) is stopped by SIG%s; the job waits %g s for "
                          "it (kill -CONT %d lets it go on)",
                          index, rank->process.pid, name != NULL ? name : "?",
                          (double)session->job->parallel.timeout_ms / 1000, rank->process.pid);
    }
}

void launch_watch_stops(launch_session *session, int64_t now_ns)
{
    for (int i = 0; i < session->world_size; i++) {
        launch_rank *rank = &session->ranks[i];
        siginfo_t info = {0};
        if (!rank->started || rank->exited || rank->node != 0 ||
            waitid(P_PID, (id_t)rank->process.pid, &info, WSTOPPED | WCONTINUED | WNOHANG) != 0 ||
            info.si_pid == 0) {
            continue;
        }
        launch_watch_halted(session, i, info.si_code == CLD_STOPPED ? info.si_status : 0, now_ns);
    }
}

int64_t launch_watch_stop_deadlines(launch_session *session, int64_t now_ns)
{
    int64_t next_ns = BASE_NO_DEADLINE;
    for (int i = 0; i < session->world_size; i++) {
        const launch_rank *rank = &session->ranks[i];
        if (!rank->stopped || rank->exited || session->abort_due_ns != BASE_NO_DEADLINE) {
            continue;
        }
        const int64_t due_ns =
            rank->stopped_ns + session->job->parallel.timeout_ms * BASE_NS_PER_MS;
        if (now_ns >= due_ns) {
            LAUNCH_BLAME_OWN(session, LAUNCH_BLAME_CAUSE, i, BASE_EXIT_ERROR,
                             "rank %d (pid %d) has been stopped for more than %g s", i,
                             rank->process.pid, (double)session->job->parallel.timeout_ms / 1000);
        } else if (due_ns < next_ns) {
            next_ns = due_ns;
        }
    }
    return next_ns;
}

int launch_watch_find_stopped(const launch_session *session, int64_t now_ns)
{
    const int64_t long_ns = session->job->parallel.timeout_ms * BASE_NS_PER_MS / 2;
    for (int i = 0; i < session->world_size; i++) {
        const launch_rank *rank = &session->ranks[i];
        if (rank->stopped && !rank->exited && now_ns - rank->stopped_ns >= long_ns) {
            return i;
        }
    }
    return PROTO_NO_RANK;
}

/* The process's state letter and the debugger that traces it (0: none). */
static char process_state(pid_t pid, long *tracer)
{
    char path[64];
    char line[256];
    char state = '?';
    *tracer = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return state;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "State:", 6) == 0) {
            const char *at = line + 6;
            while (isspace((unsigned char)*at)) {
                at++;
            }
            state = *at;
        } else if (strncmp(line, "TracerPid:", 10) == 0) {
            *tracer = strtol(line + 10, NULL, 10);
        }
    }
    (void)fclose(file);
    return state;
}

int64_t launch_watch_unread_ns(int64_t now_ns)
{
    const int64_t stuck_ns =
        launch_writer_has_room(STDOUT_FILENO) ? 0 : launch_writer_stuck_ns(STDOUT_FILENO, now_ns);
    return stuck_ns >= LAUNCH_UNREAD_MS * BASE_NS_PER_MS ? stuck_ns : 0;
}

void launch_watch_describe_stops(const launch_session *session, char *text, size_t size_bytes)
{
    text[0] = '\0';
    for (int i = 0; i < session->world_size; i++) {
        const launch_rank *rank = &session->ranks[i];
        long tracer = 0;
        const bool runs = rank->started && !rank->exited;
        const char state = !runs             ? '?'
                           : rank->node == 0 ? process_state(launch_rank_pid(rank), &tracer)
                           : rank->stopped   ? 'T'
                                             : '?';
        if (state == 't' || (state == 'T' && tracer != 0)) {
            base_text_append(text, size_bytes,
                             " (rank %d, pid %d, is held by the debugger with pid %ld)", i,
                             launch_rank_pid(rank), tracer);
        } else if (state == 'T') {
            base_text_append(text, size_bytes,
                             " (rank %d, pid %d, is stopped: SIGSTOP or the like)", i,
                             launch_rank_pid(rank));
        }
    }
    const int64_t stuck_ns = launch_watch_unread_ns(base_now_ns());
    if (stuck_ns > 0) {
        base_text_append(text, size_bytes,
                         " (nobody has read standard output for %.0f s: ranks that print wait)",
                         (double)stuck_ns / BASE_NS_PER_S);
    }
}
