/* Starts a service for the benchmarks, in a directory that is removed at the end. Called by
 * authorize.c. */
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "base/path.h"
#include "budget/server.h"
#include "budget/service_files.h"
#include "service_bench.h"

enum { TREE_FDS = 16 };

static unsigned char secret_key[BUDGET_SECRET_KEY_BYTES];
static bench_service *made; /* removed at exit, whatever ends the bench */
static pid_t owner;
static int ready_fd = -1;

static base_status unlock(void *user, const unsigned char **secret, base_error *reterr)
{
    (void)user;
    (void)reterr;
    *secret = secret_key;
    return BASE_OK;
}

static void release(void *user)
{
    (void)user;
}

static void ready(void *user, const char *endpoint, const char *redeem_endpoint)
{
    (void)user;
    (void)endpoint;
    (void)redeem_endpoint;
    (void)!write(ready_fd, "r", 1);
}

const unsigned char *bench_secret(void)
{
    return secret_key;
}

static void remove_at_exit(void)
{
    if (getpid() == owner && made != NULL) {
        bench_remove(made);
    }
}

void bench_make(bench_service *bench, const char *parent)
{
    base_error error = {0};
    uint8_t public_key[BUDGET_PUBLIC_KEY_BYTES];
    char path[BASE_PATH_BYTES + 16];
    char absolute[BASE_PATH_BYTES];
    if (realpath(parent, absolute) == NULL) {
        (void)base_fail_errno(&error, errno, "%s", parent);
        bench_die("--dir", &error);
    }
    (void)snprintf(bench->dir, sizeof bench->dir, "%.*s/budget-bench-XXXXXX", BASE_PATH_BYTES - 64,
                   absolute);
    if (budget_crypto_init(&error) != BASE_OK || mkdtemp(bench->dir) == NULL) {
        (void)base_fail_errno(&error, errno, "%s", bench->dir);
        bench_die("cannot make a directory", &error);
    }
    made = bench;
    owner = getpid();
    (void)atexit(remove_at_exit);
    (void)signal(SIGPIPE, SIG_IGN); /* the directory goes, whoever reads our figures */
    (void)crypto_sign_keypair(public_key, secret_key);
    if (base_path_join(bench->dir, BUDGET_FILE_KEYRING, path, &error) != BASE_OK ||
        budget_keyring_add(&bench->keyring, public_key, 1, &error) != BASE_OK ||
        budget_keyring_write(path, &bench->keyring, &error) != BASE_OK ||
        budget_service_init(bench->dir, secret_key, &error) != BASE_OK) {
        bench_die("cannot make the service's directory", &error);
    }
}

_Noreturn static void serve(const bench_service *bench)
{
    base_error error = {0};
    const budget_serve_options options = {
        .dir = bench->dir,
        .signer = {.unlock = unlock, .release = release},
        .ready = ready,
    };
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    const base_status status = budget_serve(&options, &error);
    if (status != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
    }
    _exit(status == BASE_OK ? BASE_EXIT_DONE : BASE_EXIT_ERROR);
}

void bench_start(bench_service *bench)
{
    base_error why = {0};
    int fds[2];
    char byte = 0;
    if (pipe(fds) != 0) {
        (void)base_fail_errno(&why, errno, "pipe");
        bench_die("cannot start", &why);
    }
    bench->pid = fork();
    if (bench->pid == 0) {
        ready_fd = fds[1];
        serve(bench);
    }
    (void)close(fds[1]);
    if (read(fds[0], &byte, 1) != 1) {
        (void)base_fail(&why, BASE_ERR_STATE, "it ended");
        bench_die("the service", &why);
    }
    (void)close(fds[0]);
    budget_client *admin = bench_client(bench, "admin");
    if (budget_account_create(admin, "bench", INT64_C(1000000000000), &why) > BUDGET_REFUSED ||
        budget_account_create(admin, "bench/lab", INT64_C(900000000000), &why) > BUDGET_REFUSED) {
        bench_die("cannot make the accounts", &why);
    }
    budget_client_close(admin);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status;
    (void)kind;
    (void)walk;
    return remove(path);
}

void bench_remove(bench_service *bench)
{
    made = NULL;
    if (bench->pid > 0) {
        (void)kill(bench->pid, SIGTERM);
        while (waitpid(bench->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    (void)nftw(bench->dir, remove_entry, TREE_FDS, FTW_DEPTH | FTW_PHYS);
}

double bench_rss_mib(const bench_service *bench)
{
    char path[64];
    char line[256];
    unsigned long peak_kib = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)bench->pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            peak_kib = strtoul(line + 6, NULL, 10);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return (double)peak_kib / 1024;
}
