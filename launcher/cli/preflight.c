/* Runs `rank --check` on the job, and `rank --check-model` on a checkpoint. Only the rank program knows
 * which checkpoints, prompts and world sizes a mode takes, and how many tokens a sentence has. Called by
 * run() in cli.c and by plan_command.c. */
#include "cli/preflight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/exitcode.h"
#include "base/file.h"
#include "cli/run_job.h"

#define TIMEOUT_NS                                                                                 \
    (300 * BASE_NS_PER_S) /* of a check: it reads headers and texts, and no weights */

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

/* The first line of the program's output. */
static void read_answer(int fd, char said[BASE_ERROR_MESSAGE_BYTES])
{
    const ssize_t got = pread(fd, said, BASE_ERROR_MESSAGE_BYTES - 1, 0);
    said[got > 0 ? got : 0] = '\0';
    said[strcspn(said, "\n")] = '\0';
}

/* Returns the program's exit code. *reterr has its output. */
static int ask(const question *asked, base_error *reterr)
{
    int wait_status = 0;
    const int says_fd = memfd_create("answer", MFD_CLOEXEC);
    if (says_fd < 0) {
        (void)base_fail_errno(reterr, errno, "cannot make a file for an answer");
        return BASE_EXIT_ERROR;
    }
    const base_child child = {.program = asked->rank_path,
                              .argv =
                                  (const char *const[]){"rank", asked->option, asked->value, NULL},
                              .stdin_fd = asked->stdin_fd,
                              .stdout_fd = says_fd,
                              .stderr_fd = STDERR_FILENO,
                              .timeout_ns = TIMEOUT_NS};
    const base_status status = base_child_run(&child, &wait_status, reterr);
    if (status == BASE_OK) {
        read_answer(says_fd, reterr->message);
    }
    (void)close(says_fd);
    if (status != BASE_OK) {
        return BASE_EXIT_ERROR;
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
 * sentences fit; but experts may not be in every layout. The held-out file is looked at before a training, which reads it at its end. */
static bool may_be_refused(const launch_options *options)
{
    const proto_mode_row *mode = proto_mode_get(options->job.job.mode);
    proto_job usual;
    proto_job_defaults(&usual);
    return mode->answers || mode->measures || mode->on_gpus ||
           (mode->trains &&
            (!options->installed_data || options->job.infer.eval ||
             options->job.infer.eval_every > 0 || options->job.model.checkpoint[0] != '\0' ||
             options->job.model.experts > 0 || options->job.model.context != usual.model.context));
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
    base_fd_close(&job_fd);
    const bool runs_here = !options->dry_run && options->write_job[0] == '\0';
    if (exit_code == BASE_EXIT_NO_GPU && !runs_here) {
        exit_code = BASE_EXIT_DONE;
    }
    if (exit_code != BASE_EXIT_DONE) {
        (void)launch_report_error(&error);
    }
    return exit_code;
}
