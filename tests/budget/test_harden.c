/* A process that holds the key, and another of the same user that wants it. Runs as root too: both
 * become nobody first, since root is out of scope. */
#include "budget/harden.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "budget/secret_key.h"
#include "budget/token.h"
#include "support.h"

enum { NOBODY = 65534 };

typedef struct holder {
    pid_t process;
    int ready;   /* a byte comes when it holds the key */
    int release; /* closed to end it */
    uint64_t address;
} holder;

static void hold(bool harden, int ready, int release)
{
    budget_secret_key *key = NULL;
    char byte = 0;
    /* Changing the user has made the process undumpable already: undo that, so that it is our call
     * that is tried. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0 || (harden && budget_harden_process(NULL) != 0) ||
        budget_crypto_init(NULL) != BASE_OK || budget_secret_key_make(&key, NULL) != BASE_OK) {
        _exit(1);
    }
    const uint64_t address = (uintptr_t)budget_secret_key_bytes(key);
    (void)!write(ready, &address, sizeof address);
    (void)!read(release, &byte, 1);
    _exit(0);
}

static holder start_holder(bool harden)
{
    int ready[2];
    int release[2];
    holder started = {0};
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(release, O_CLOEXEC), 0);
    started.process = fork();
    assert_true(started.process >= 0);
    if (started.process == 0) {
        (void)close(release[1]);
        hold(harden, ready[1], release[0]);
    }
    (void)close(ready[1]);
    (void)close(release[0]);
    assert_int_equal(read(ready[0], &started.address, sizeof started.address),
                     sizeof started.address);
    (void)close(ready[0]);
    started.release = release[1];
    return started;
}

static void end_holder(holder *held)
{
    int ended = 0;
    (void)close(held->release);
    assert_int_equal(waitpid(held->process, &ended, 0), held->process);
    assert_int_equal(ended, 0);
}

/* Bytes of the key that are read; -1 and errno when it cannot be opened. */
static ssize_t read_memory(const holder *held)
{
    char path[64];
    uint8_t bytes[BUDGET_SECRET_KEY_BYTES];
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)held->process);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    const ssize_t got = pread(fd, bytes, sizeof bytes, (off_t)held->address);
    (void)close(fd);
    return got;
}

/* One field of /proc/PID/status, in kB. Our own process may always read its own. */
static long locked_kb(void)
{
    char line[256];
    long value = -1;
    FILE *status = fopen("/proc/self/status", "re");
    assert_non_null(status);
    while (fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "VmLck:", 6) == 0) {
            value = strtol(line + 6, NULL, 10);
        }
    }
    (void)fclose(status);
    return value;
}

static void the_key_s_memory_is_locked(void **state)
{
    (void)state;
    budget_secret_key *key = NULL;
    base_error error = {0};
    assert_ok(budget_crypto_init(&error), &error);
    const long before = locked_kb();
    assert_ok(budget_secret_key_make(&key, &error), &error);
    assert_true(locked_kb() > before);
    budget_secret_key_free(key);
}

/* Without our call the parent reads the key: what the next test shows is due to the call. */
static void an_open_process_can_be_read(void **state)
{
    (void)state;
    holder held = start_holder(false);
    assert_int_equal(read_memory(&held), BUDGET_SECRET_KEY_BYTES);
    end_holder(&held);
}

static void a_hardened_process_cannot_be_read_or_traced(void **state)
{
    (void)state;
    holder held = start_holder(true);
    assert_int_equal(read_memory(&held), -1);
    assert_int_equal(errno, EACCES);
    assert_int_equal(ptrace(PTRACE_SEIZE, held.process, NULL, NULL), -1);
    assert_int_equal(errno, EPERM);
    end_holder(&held);
}

/* gcore, where gdb is installed: it must fail and leave no core. */
static void gcore_gets_nothing(void **state)
{
    (void)state;
    test_directory directory;
    char command[BASE_PATH_BYTES + 128];
    char core[BASE_PATH_BYTES + 32];
    if (system("command -v gcore >/dev/null 2>&1") != 0) { /* NOLINT(cert-env33-c) */
        skip();
    }
    test_directory_make(&directory);
    holder held = start_holder(true);
    (void)snprintf(command, sizeof command, "gcore -o %s/core %d >/dev/null 2>&1 </dev/null",
                   directory.path, (int)held.process);
    assert_int_not_equal(system(command), 0); /* NOLINT(cert-env33-c) */
    (void)snprintf(core, sizeof core, "%s/core.%d", directory.path, (int)held.process);
    assert_int_equal(access(core, F_OK), -1);
    end_holder(&held);
    test_directory_remove(&directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_s_memory_is_locked),
        cmocka_unit_test(an_open_process_can_be_read),
        cmocka_unit_test(a_hardened_process_cannot_be_read_or_traced),
        cmocka_unit_test(gcore_gets_nothing),
    };
    if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
