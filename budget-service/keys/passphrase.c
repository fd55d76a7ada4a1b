/* Reads the passphrase from a file, a descriptor, a systemd credential or the terminal, into locked
 * memory. Called by the commands that unlock or make a signing key. */
#include "budget/passphrase.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "budget/secret_file.h"

/* Signals that end a process. While somebody types they are held back, so that the terminal first gets
 * its echo again; and a service that takes them from a descriptor of its own does not look at it yet. */
static int hold_signals(sigset_t *before)
{
    sigset_t held;
    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGINT);
    (void)sigaddset(&held, SIGTERM);
    (void)sigaddset(&held, SIGHUP);
    (void)sigaddset(&held, SIGQUIT);
    (void)sigprocmask(SIG_BLOCK, &held, before);
    return signalfd(-1, &held, SFD_CLOEXEC);
}

/* Reads up to the end, or up to a newline when `line` is set. */
static base_status read_fd(int fd, bool line, int signals, budget_passphrase *into,
                           base_error *reterr)
{
    into->size_bytes = 0;
    for (;;) {
        if (into->size_bytes == sizeof into->text) {
            return base_fail(reterr, BASE_ERR_LIMIT, "a passphrase of more than %d bytes",
                             BUDGET_PASSPHRASE_BYTES_MAX);
        }
        struct pollfd watched[] = {{.fd = fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
        const bool ready = poll(watched, 2, -1) > 0;
        if (ready && watched[1].revents != 0) {
            return base_fail(reterr, BASE_ERR_ABORTED, "interrupted before there was a passphrase");
        }
        const ssize_t got = ready ? read(fd, into->text + into->size_bytes, 1) : -1;
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return base_fail_errno(reterr, errno, "cannot read the passphrase");
        }
        if (got == 0 || (line && into->text[into->size_bytes] == '\n')) {
            return BASE_OK;
        }
        into->size_bytes++;
    }
}

static base_status ask(int terminal, const char *message, int signals, budget_passphrase *into,
                       base_error *reterr)
{
    struct termios before;
    if (tcgetattr(terminal, &before) != 0) {
        return base_fail_errno(reterr, errno, "cannot set up the terminal");
    }
    struct termios silent = before;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    silent.c_lflag |= ECHONL;
    (void)!write(terminal, message, strlen(message));
    if (tcsetattr(terminal, TCSAFLUSH, &silent) != 0) {
        return base_fail_errno(reterr, errno, "cannot set up the terminal");
    }
    const base_status status = read_fd(terminal, true, signals, into, reterr);
    (void)tcsetattr(terminal, TCSAFLUSH, &before);
    return status;
}

static base_status ask_twice(int terminal, bool confirm, int signals, budget_passphrase *into,
                             base_error *reterr)
{
    base_status status = ask(terminal, "Passphrase of the signing key: ", signals, into, reterr);
    if (status != BASE_OK || !confirm) {
        return status;
    }
    budget_passphrase *again = sodium_malloc(sizeof *again);
    if (again == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a passphrase");
    }
    status = ask(terminal, "The same once more: ", signals, again, reterr);
    if (status == BASE_OK && (again->size_bytes != into->size_bytes ||
                              memcmp(again->text, into->text, into->size_bytes) != 0)) {
        status = base_fail(reterr, BASE_ERR_INVALID, "the two passphrases differ");
    }
    sodium_free(again);
    return status;
}

static base_status from_terminal(bool confirm, int signals, budget_passphrase *into,
                                 base_error *reterr)
{
    const int terminal =
        isatty(STDIN_FILENO) == 1 ? open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY) : -1;
    if (terminal < 0) {
        return base_fail(reterr, BASE_ERR_NOTFOUND,
                         "no passphrase: give --passphrase-file FILE or --passphrase-fd N, or put "
                         "%s into $CREDENTIALS_DIRECTORY",
                         BUDGET_PASSPHRASE_CREDENTIAL);
    }
    const base_status status = ask_twice(terminal, confirm, signals, into, reterr);
    (void)close(terminal);
    return status;
}

static base_status from_file(const char *path, budget_passphrase *into, base_error *reterr)
{
    const base_status status =
        budget_secret_file_read(path, into->text, sizeof into->text, &into->size_bytes, reterr);
    return status == BASE_OK ? status : base_error_prepend(reterr, status, "passphrase");
}

/* The credential, when the directory is set and has it. */
static bool credential_path(char path[BASE_PATH_BYTES])
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");
    if (directory == NULL || directory[0] == '\0') {
        return false;
    }
    const int length =
        snprintf(path, BASE_PATH_BYTES, "%s/" BUDGET_PASSPHRASE_CREDENTIAL, directory);
    return length < BASE_PATH_BYTES && access(path, F_OK) == 0;
}

static base_status read_source(const budget_passphrase_source *source, int signals,
                               budget_passphrase *into, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    if (source->file != NULL) {
        return from_file(source->file, into, reterr);
    }
    if (source->fd >= 0) {
        return source->fd != signals /* else nothing was open under this number */
                   ? read_fd(source->fd, false, signals, into, reterr)
                   : base_fail_errno(reterr, EBADF, "cannot read the passphrase");
    }
    if (credential_path(path)) {
        return from_file(path, into, reterr);
    }
    return from_terminal(source->confirm, signals, into, reterr);
}

static base_status finish(budget_passphrase *into, base_error *reterr)
{
    if (into->size_bytes > 0 && into->text[into->size_bytes - 1] == '\n') {
        into->size_bytes--;
    }
    if (into->size_bytes == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "the passphrase is empty");
    }
    if (into->size_bytes > BUDGET_PASSPHRASE_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a passphrase of more than %d bytes",
                         BUDGET_PASSPHRASE_BYTES_MAX);
    }
    if (memchr(into->text, '\0', into->size_bytes) != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "the passphrase has a NUL in it");
    }
    into->text[into->size_bytes] = '\0';
    return BASE_OK;
}

base_status budget_passphrase_open(const budget_passphrase_source *source,
                                   budget_passphrase **passphrase, base_error *reterr)
{
    budget_passphrase *into = sodium_malloc(sizeof *into);
    if (into == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a passphrase");
    }
    sigset_t before;
    int signals = hold_signals(&before);
    base_status status = read_source(source, signals, into, reterr);
    base_fd_close(&signals);
    (void)sigprocmask(SIG_SETMASK, &before, NULL); /* one that was held ends the process here */
    if (status == BASE_OK) {
        status = finish(into, reterr);
    }
    if (status != BASE_OK) {
        sodium_free(into);
        return status;
    }
    *passphrase = into;
    return BASE_OK;
}

void budget_passphrase_close(budget_passphrase *passphrase)
{
    sodium_free(passphrase);
}
