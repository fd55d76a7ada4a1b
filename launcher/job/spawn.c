/* Forks and executes one rank with its environment, pipes and inherited descriptors. Called by
 * start.c for each rank; watch.c and ending.c signal the process through it. */
#include "job/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "job/environment.h"
#include "job/subreaper.h"

enum { EXIT_NOT_STARTED = 127, NO_FD = -1 };

/* What the child needs. It is prepared before the fork, because the child may only make system
 * calls. */
typedef struct child_plan {
    const launch_spawn_options *options;
    char **environment;
    int null_fd;
    int out_fd;
    int err_fd;
    pid_t launcher;
} child_plan;

void launch_process_signal(const launch_process *process, int signal_number)
{
    if (process->has_subreaper && signal_number == SIGKILL) {
        (void)kill(process->pid, LAUNCH_SUBREAPER_KILL);
        (void)kill(process->pid, SIGCONT); /* a stopped process would not receive the signal */
    } else {
        (void)kill(-process->pid, signal_number);
    }
}

void launch_process_reap(launch_process *process)
{
    siginfo_t info;
    /* as long as the zombie keeps the number, this reaches whatever the process has started */
    (void)kill(-process->pid, SIGKILL);
    (void)waitid(P_PID, (id_t)process->pid, &info, WEXITED);
    (void)close(process->pidfd);
    process->pidfd = NO_FD;
}

int launch_spawn_variables(const launch_spawn_options *options,
                           char variables[LAUNCH_VARIABLES][LAUNCH_VARIABLE_BYTES])
{
    const struct {
        const char *name;
        int value;
    } numbers[] = {
        {"RANK", options->rank},
        {"WORLD_SIZE", options->world_size},
        {"LOCAL_RANK", options->local_rank},
        {"LOCAL_WORLD_SIZE", options->local_world_size},
        {"OMP_NUM_THREADS", options->threads},
        {"RINGFENCE_HOST_TIMEOUT_MS", options->host_timeout_ms},
        {"RINGFENCE_JOB_FD", options->job_fd},
        {"RINGFENCE_KEY_FD", options->key_fd},
        {"RINGFENCE_LIFELINE_FD", options->lifeline_fd},
        {"RINGFENCE_LEASE_FD", options->lease_fd},
        {"RINGFENCE_BIND_TO_GPU", options->bind_to_gpu ? 1 : 0},
    };
    const char *const texts[][2] = {
        {"RINGFENCE_JOB_ROOT", options->root},
        {"RINGFENCE_JOB_FILES", options->files},
        {"RINGFENCE_INTERFACE", options->interface},
        {"MASTER_ADDR", options->address},
        {"MASTER_PORT", options->port},
        {"OMP_DYNAMIC", "false"},
    };
    int count = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)snprintf(variables[count++], LAUNCH_VARIABLE_BYTES, "%s=%d", numbers[i].name,
                       numbers[i].value);
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        (void)snprintf(variables[count++], LAUNCH_VARIABLE_BYTES, "%s=%s", texts[i][0],
                       texts[i][1]);
    }
    if (options->ports[0] != '\0') { /* else the user's own variable counts */
        (void)snprintf(variables[count++], LAUNCH_VARIABLE_BYTES, "RINGFENCE_COLL_PORTS=%s",
                       options->ports);
    }
    BASE_ASSERT(count <= LAUNCH_VARIABLES);
    return count;
}

/* NULL: no memory. */
static char **make_environment(const launch_spawn_options *options,
                               char variables[LAUNCH_VARIABLES][LAUNCH_VARIABLE_BYTES])
{
    char *ours[LAUNCH_VARIABLES];
    const int count = launch_spawn_variables(options, variables);
    for (int i = 0; i < count; i++) {
        ours[i] = variables[i];
    }
    return launch_environment_make(environ, ours, count, options->lease_fd >= 0);
}

static BASE_NORETURN void child_fail_because(const char *what, const char *path, const char *why)
{
    const char *const parts[] = {what, path, ": ", why != NULL ? why : "?", "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        (void)!write(STDERR_FILENO, parts[i], strlen(parts[i]));
    }
    _exit(EXIT_NOT_STARTED);
}

static BASE_NORETURN void child_fail(const char *what, const char *path)
{
    child_fail_because(what, path, strerrordesc_np(errno));
}

/* After execve: errno does not tell a script whose interpreter is missing from a missing file. */
static BASE_NORETURN void child_cannot_run(const char *path)
{
    const int why = errno;
    if (why == ENOENT && access(path, F_OK) == 0) {
        child_fail_because("cannot run ", path,
                           "its interpreter is not there: see its first line, which must not end "
                           "with CR LF");
    }
    if (why == ENOEXEC) {
        child_fail_because("cannot run ", path,
                           "Exec format error: no program of this machine, and no script that "
                           "begins with #!");
    }
    errno = why;
    child_fail("cannot run ", path);
}

/* Undoes what the launcher blocks and ignores for itself. */
static void restore_signals(void)
{
    sigset_t none;
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGXFSZ, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Forks the subreaper of a user's program. Returns in the program's own process. */
static void fork_subreaper(const child_plan *plan)
{
    const int kept[] = {plan->null_fd,         plan->out_fd,          plan->err_fd,
                        plan->options->job_fd, plan->options->key_fd, plan->options->lifeline_fd};
    launch_subreaper_fork(kept, sizeof kept / sizeof kept[0], plan->options->lifeline_fd);
}

static BASE_NORETURN void run_child(const child_plan *plan)
{
    const launch_spawn_options *options = plan->options;
    (void)setpgid(0, 0);
    if (options->program != NULL) {
        fork_subreaper(plan);
    } else if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != plan->launcher) {
        _exit(EXIT_NOT_STARTED); /* the launcher died in between */
    }
    if (dup2(plan->null_fd, STDIN_FILENO) < 0 || dup2(plan->out_fd, STDOUT_FILENO) < 0 ||
        dup2(plan->err_fd, STDERR_FILENO) < 0) {
        _exit(EXIT_NOT_STARTED);
    }
    if (options->cpus != NULL && sched_setaffinity(0, sizeof *options->cpus, options->cpus) != 0) {
        child_fail("cannot bind to CPUs: ", options->rank_path);
    }
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    if (fcntl(options->job_fd, F_SETFD, 0) != 0 || fcntl(options->key_fd, F_SETFD, 0) != 0 ||
        fcntl(options->lifeline_fd, F_SETFD, 0) != 0 ||
        (options->lease_fd >= 0 && fcntl(options->lease_fd, F_SETFD, 0) != 0)) {
        child_fail("cannot hand descriptors to ", options->rank_path);
    }
    restore_signals();
    char *const alone[] = {(char *)(uintptr_t)options->rank_path, NULL};
    (void)execve(options->rank_path, options->program != NULL ? options->program : alone,
                 plan->environment);
    child_cannot_run(options->rank_path);
}

/* Forks. *process is complete except for its pipes. */
static base_status fork_child(const child_plan *plan, launch_process *process, base_error *reterr)
{
    const pid_t pid = fork();
    if (pid < 0) {
        return base_fail_errno(reterr, errno, "cannot start rank %d", plan->options->rank);
    }
    if (pid == 0) {
        run_child(plan);
    }
    /* parent and child both do this: it must be done before either goes on */
    (void)setpgid(pid, pid);
    process->pid = pid;
    process->has_subreaper = plan->options->program != NULL;
    process->pidfd = pidfd_open(pid, 0);
    if (process->pidfd < 0) {
        const base_status status =
            base_fail_errno(reterr, errno, "cannot watch rank %d", plan->options->rank);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return status;
    }
    return BASE_OK;
}

base_status launch_spawn(const launch_spawn_options *options, launch_process *process,
                         base_error *reterr)
{
    enum { OUT_READ, OUT_WRITE, ERR_READ, ERR_WRITE, NULL_FD, FDS };
    int fds[FDS] = {NO_FD, NO_FD, NO_FD, NO_FD, NO_FD};
    base_status status = BASE_OK;
    char(*variables)[LAUNCH_VARIABLE_BYTES] = calloc(LAUNCH_VARIABLES, sizeof *variables);
    char **environment = variables != NULL ? make_environment(options, variables) : NULL;
    fds[NULL_FD] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (environment == NULL || fds[NULL_FD] < 0 || pipe2(&fds[OUT_READ], O_CLOEXEC) != 0 ||
        pipe2(&fds[ERR_READ], O_CLOEXEC) != 0 || fcntl(fds[OUT_READ], F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(fds[ERR_READ], F_SETFL, O_NONBLOCK) != 0) {
        status = base_fail_errno(reterr, errno, "cannot make pipes for rank %d", options->rank);
    }
    if (status == BASE_OK) {
        const child_plan plan = {
            .options = options,
            .environment = environment,
            .null_fd = fds[NULL_FD],
            .out_fd = fds[OUT_WRITE],
            .err_fd = fds[ERR_WRITE],
            .launcher = getpid(),
        };
        status = fork_child(&plan, process, reterr);
    }
    free(environment);
    free(variables);
    if (status == BASE_OK) {
        process->out_fd = fds[OUT_READ];
        process->err_fd = fds[ERR_READ];
        fds[OUT_READ] = NO_FD;
        fds[ERR_READ] = NO_FD;
    }
    for (int i = 0; i < FDS; i++) {
        base_fd_close(&fds[i]);
    }
    return status;
}
