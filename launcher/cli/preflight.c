/* Runs `rank --check` on the job, and `rank --check-model` on a checkpoint. Only the rank program knows
 * which checkpoints, prompts and world sizes a mode takes, and how many tokens a sentence has. Called by
 * run() in cli.c and by plan_command.c. */
#include "cli/preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/file.h"
#include "cli/run_job.h"

/* Makes a file with JOB.json. */
static base_status put_job(const launch_options *options, int *fd, base_error *reterr)
{
    char *text = NULL;
    size_t text_bytes = 0;
    base_status status = proto_job_write(&options->job, "", &text, &text_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    *fd = memfd_create("job", MFD_CLOEXEC);
    status = *fd >= 0 ? base_fd_write(*fd, "JOB.json", text, text_bytes, reterr)
                      : base_fail_errno(reterr, errno, "cannot make a file for the job");
    free(text);
    return status;
}

/* What the rank program is asked. */
typedef struct question {
    const char *rank_path;
    const char *option;
    const char *value; /* NULL: none */
    int stdin_fd;
} question;

static base_status spawn(const question *asked, int says_fd, pid_t *pid, base_error *reterr)
{
    posix_spawn_file_actions_t actions;
    char program[] = "rank";
    char *const argv[] = {program, (char *)asked->option, (char *)asked->value, NULL};
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed == 0) {
        failed = posix_spawn_file_actions_adddup2(&actions, asked->stdin_fd, STDIN_FILENO);
        failed = failed != 0 ? failed
                             : posix_spawn_file_actions_adddup2(&actions, says_fd, STDOUT_FILENO);
        failed = failed != 0 ? failed
                             : posix_spawn(pid, asked->rank_path, &actions, NULL, argv, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    return failed == 0 ? BASE_OK
                       : base_fail_errno(reterr, failed, "cannot start %s", asked->rank_path);
}

/* Reads the program's output, without its newline. Reads to the end, so that the program never
 * waits. */
static void listen_to(int fd, char said[BASE_ERROR_MESSAGE_BYTES])
{
    char rest[BASE_ERROR_MESSAGE_BYTES];
    size_t used = 0;
    for (;;) {
        const size_t room = BASE_ERROR_MESSAGE_BYTES - 1 - used;
        const ssize_t got = read(fd, room > 0 ? said + used : rest, room > 0 ? room : sizeof rest);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        used += room > 0 ? (size_t)got : 0;
    }
    said[used] = '\0';
    said[strcspn(said, "\n")] = '\0';
}

/* Returns the program's exit code. *reterr has its output. */
static int ask(const question *asked, base_error *reterr)
{
    pid_t pid = -1;
    int wait_status = 0;
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        (void)base_fail_errno(reterr, errno, "cannot make a pipe");
        return BASE_EXIT_ERROR;
    }
    const base_status status = spawn(asked, pipe_fds[1], &pid, reterr);
    (void)close(pipe_fds[1]);
    if (status == BASE_OK) {
        listen_to(pipe_fds[0], reterr->message);
    }
    (void)close(pipe_fds[0]);
    if (status != BASE_OK) {
        return BASE_EXIT_ERROR;
    }
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(wait_status) && (WEXITSTATUS(wait_status) == 0 || reterr->message[0] != '\0')) {
        return WEXITSTATUS(wait_status);
    }
    (void)base_fail(reterr, BASE_ERR_PEER, "%s %s ended with the status %d", asked->rank_path,
                    asked->option, wait_status);
    return BASE_EXIT_ERROR;
}

int launch_preflight_model(const char *directory, const char *rank_path, base_error *reterr)
{
    const question asked = {.rank_path = rank_path,
                            .option = "--check-model",
                            .value = directory,
                            .stdin_fd = STDIN_FILENO};
    return ask(&asked, reterr);
}

/* A training on CPUs from nothing with the default context, data and tokenizer needs no check: most
 * sentences fit. The held-out file is looked at before a training, which reads it at its end. */
static bool may_be_refused(const launch_options *options)
{
    const proto_mode_row *mode = proto_mode_get(options->job.job.mode);
    proto_job usual;
    proto_job_defaults(&usual);
    return mode->answers || mode->measures || mode->on_gpus ||
           (mode->trains &&
            (!options->installed_data || options->job.infer.eval ||
             options->job.infer.eval_every > 0 || options->job.model.checkpoint[0] != '\0' ||
             options->job.model.context != usual.model.context));
}

int launch_preflight(const launch_options *options, const char *rank_path)
{
    base_error error = {.message = ""};
    int job_fd = -1;
    int exit_code = BASE_EXIT_ERROR;
    if (!may_be_refused(options)) {
        return BASE_EXIT_DONE;
    }
    if (put_job(options, &job_fd, &error) == BASE_OK) {
        const question asked = {.rank_path = rank_path, .option = "--check", .stdin_fd = job_fd};
        exit_code = ask(&asked, &error);
    }
    if (job_fd >= 0) {
        (void)close(job_fd);
    }
    const bool runs_here = !options->dry_run && options->write_job[0] == '\0';
    if (exit_code == BASE_EXIT_NO_GPU && !runs_here) {
        exit_code = BASE_EXIT_DONE;
    }
    if (exit_code != BASE_EXIT_DONE) {
        (void)launch_report_error(&error);
    }
    return exit_code;
}
