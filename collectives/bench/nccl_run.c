/* Starts the launcher for coll-bench on GPUs, and takes its prefixes off. Called by main.c. */
#include "nccl_run.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/limits.h"
#include "base/log.h"

enum { FLAGS_MAX = 64, OWN_FLAGS = 9, WORDS_BYTES = 1024, RANKS_BYTES = 16 };

static const char prefix[] = "[rank 0] "; /* the launcher's, before each line of a rank */

int bench_own_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            return i;
        }
    }
    return argc;
}

/* Our own arguments in one string, without --transport, which getopt lets people shorten. */
static bool join(int argc, char **argv, char words[WORDS_BYTES])
{
    size_t used = 0;
    words[0] = '\0';
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--tr", 4) == 0) {
            i += strchr(argv[i], '=') == NULL ? 1 : 0;
            continue;
        }
        const int length =
            snprintf(words + used, WORDS_BYTES - used, "%s%s", used > 0 ? " " : "", argv[i]);
        if (strchr(argv[i], ' ') != NULL || length < 0 || (size_t)length >= WORDS_BYTES - used) {
            return false;
        }
        used += (size_t)length;
    }
    return true;
}

static bool has_token(char **flags)
{
    for (; *flags != NULL; flags++) {
        if (strncmp(*flags, "--token", 7) == 0 || strncmp(*flags, "--authorize", 11) == 0) {
            return true;
        }
    }
    return false;
}

/* In the child: becomes the launcher that is beside this program. */
static void become_launcher(int ranks, const char *words, char **flags)
{
    char path[BASE_PATH_BYTES] = "";
    char count[RANKS_BYTES];
    const char *arguments[FLAGS_MAX + OWN_FLAGS + 1] = {
        "launcher", "--mode", "bench-nccl", "--ranks", count, "--bench", words};
    int used = 7;
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof "launcher");
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return;
    }
    memcpy(slash + 1, "launcher", sizeof "launcher");
    (void)snprintf(count, sizeof count, "%d", ranks);
    if (!has_token(flags)) {
        arguments[used++] = "--authorize";
        arguments[used++] = "local";
    }
    for (int i = 0; i < FLAGS_MAX && flags[i] != NULL; i++) {
        arguments[used++] = flags[i];
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)execv(path, (char *const *)arguments);
    base_log(BASE_LOG_ERROR, "cannot start %s: %s", path, strerror(errno));
}

/* Rows and comments of rank 0 as they are; what else ranks say becomes a comment. */
static void print_lines(FILE *from)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, from) > 0) {
        const size_t skip = strncmp(line, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
        const bool table = skip > 0 && (line[skip] == '#' || line[skip] == ' ');
        (void)printf("%s%s", table ? "" : "# ", table ? line + skip : line);
        (void)fflush(stdout);
    }
    free(line);
}

int bench_run_nccl(int ranks, int argc, char **argv)
{
    char words[WORDS_BYTES];
    int ends[2];
    char **flags = argv[argc] != NULL ? argv + argc + 1 : argv + argc;
    int count = 0;
    while (flags[count] != NULL) {
        count++;
    }
    if (!join(argc, argv, words) || count > FLAGS_MAX) {
        base_log(BASE_LOG_ERROR,
                 "with --transport nccl: no spaces in arguments, at most %d bytes "
                 "of them, and %d flags of the launcher",
                 WORDS_BYTES - 1, FLAGS_MAX);
        return BASE_EXIT_USAGE;
    }
    if (pipe(ends) != 0) {
        base_log(BASE_LOG_ERROR, "cannot make a pipe: %s", strerror(errno));
        return BASE_EXIT_ERROR;
    }
    const pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        become_launcher(ranks, words, flags);
        _exit(BASE_EXIT_ERROR);
    }
    (void)signal(SIGINT, SIG_IGN); /* the terminal sends it to the launcher, too, which ends */
    (void)close(ends[1]);
    FILE *from = fdopen(ends[0], "r");
    int status = 0;
    if (child < 0 || from == NULL) {
        base_log(BASE_LOG_ERROR, "cannot start the launcher: %s", strerror(errno));
        return BASE_EXIT_ERROR;
    }
    print_lines(from);
    (void)fclose(from);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : BASE_EXIT_SIGNAL_BASE + WTERMSIG(status);
}
