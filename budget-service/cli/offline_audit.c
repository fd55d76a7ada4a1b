/* Audits a copy of the ledger while no service runs, and checks its signed checkpoints. Called by
 * `budget-service audit` (report.c). */
#include "offline_audit.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "budget/audit.h"
#include "budget/checkpoint.h"
#include "budget/clock.h"
#include "budget/service_files.h"
#include "directory_lock.h"
#include "key_store.h"

enum { COPY_BYTES = 1 << 20, SLICE_ROWS = 10000 };

static const char *const files[] = {BUDGET_FILE_LEDGER, BUDGET_FILE_LEDGER "-wal", "checkpoints"};
enum { FILE_COUNT = sizeof files / sizeof files[0] };

static base_status copy_bytes(int from, int into, const char *name, base_error *reterr)
{
    static char bytes[COPY_BYTES];
    for (;;) {
        const ssize_t got = read(from, bytes, sizeof bytes);
        if (got < 0) {
            return base_fail_errno(reterr, errno, "cannot read %s", name);
        }
        if (got == 0) {
            return BASE_OK;
        }
        const base_status status = base_fd_write(into, name, bytes, (size_t)got, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
}

/* One that is not there is not copied: the ledger's own opening says what is missing. */
static base_status copy_file(const char *dir, const char *directory, const char *name,
                             base_error *reterr)
{
    char source[BASE_PATH_BYTES];
    char target[BASE_PATH_BYTES];
    base_status status = base_path_join(dir, name, source, reterr);
    if (status == BASE_OK) {
        status = base_path_join(directory, name, target, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    const int from = open(source, O_RDONLY | O_CLOEXEC);
    if (from < 0) {
        return errno == ENOENT ? BASE_OK : base_fail_errno(reterr, errno, "cannot open %s", source);
    }
    const int into = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    status = into < 0 ? base_fail_errno(reterr, errno, "cannot make %s", target)
                      : copy_bytes(from, into, name, reterr);
    if (into >= 0 && close(into) != 0 && status == BASE_OK) {
        status = base_fail_errno(reterr, errno, "cannot write %s", target);
    }
    (void)close(from);
    return status;
}

static void remove_copy(const char *directory)
{
    static const char *const made[] = {"ledger.db",   "ledger.db-wal", "ledger.db-shm",
                                       "checkpoints", "ledger.lock",   "ledger.db-journal"};
    char path[BASE_PATH_BYTES];
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        if (base_path_join(directory, made[i], path, NULL) == BASE_OK) {
            (void)unlink(path);
        }
    }
    (void)rmdir(directory);
}

static base_status verify(void *context, const void *message, size_t message_bytes,
                          const uint8_t signature[64], const char *kid, base_error *reterr)
{
    const budget_public_key *key = budget_keyring_find(context, kid);
    if (key == NULL ||
        crypto_sign_verify_detached(signature, message, message_bytes, key->key) != 0) {
        return base_fail(reterr, BASE_ERR_AUTH, "a checkpoint is not signed by a key of ours");
    }
    return BASE_OK;
}

static base_status walk(budget_ledger *ledger, budget_audit_report *result, base_error *reterr)
{
    budget_audit *audit = NULL;
    bool done = false;
    base_status status = budget_audit_begin(ledger, &audit, reterr);
    while (status == BASE_OK && !done) {
        status = budget_audit_step(audit, SLICE_ROWS, &done, reterr);
    }
    if (status == BASE_OK) {
        *result = *budget_audit_get(audit);
    }
    budget_audit_end(audit);
    return status;
}

static void find(budget_audit_report *result, const char *finding)
{
    result->good = false;
    result->finding_count = 1;
    (void)snprintf(result->findings[0], sizeof result->findings[0], "%s", finding);
}

/* Against a copy of the checkpoints from elsewhere. A file that cannot be read is no finding. */
static base_status compare(budget_ledger *ledger, const char *checkpoint,
                           budget_audit_report *result, base_error *reterr)
{
    uint64_t newest = 0;
    base_error why = {0};
    const base_status status = budget_checkpoint_check(ledger, checkpoint, &newest, &why);
    if (status == BASE_ERR_MISMATCH) {
        find(result, why.message);
    } else if (status != BASE_OK) {
        return base_fail(reterr, status, "%s", why.message);
    } else if (newest == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s has no checkpoint", checkpoint);
    }
    return BASE_OK;
}

/* The checkpoints first, strictly; then the rows, whatever the checkpoints said. */
static base_status audit_copy(const char *directory, const char *checkpoint, const key_store *store,
                              budget_audit_report *result, base_error *reterr)
{
    budget_ledger *ledger = NULL;
    base_error strict = {0};
    budget_ledger_options options = {
        .dir = directory, .signer = {.context = (void *)&store->keyring, .verify = verify}};
    base_status status = budget_clock_read(&options.clock, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = budget_ledger_open(&options, &ledger, &strict);
    if (status == BASE_ERR_MISMATCH) {
        options.any_checkpoint = true;
        status = budget_ledger_open(&options, &ledger, reterr);
    }
    if (status != BASE_OK) {
        find(result, strict.message);
        return BASE_OK;
    }
    status = walk(ledger, result, reterr);
    if (status != BASE_OK) {
        find(result, reterr->message);
        status = BASE_OK;
    } else if (result->good && strict.message[0] != '\0') {
        find(result, strict.message);
    }
    if (result->good && checkpoint != NULL) {
        status = compare(ledger, checkpoint, result, reterr);
    }
    budget_ledger_close(ledger);
    return status;
}

/* A message about the copy is one about the directory that was copied. */
static void name_original(char *message, size_t message_bytes, const char *directory,
                          const char *dir)
{
    char before[BUDGET_AUDIT_FINDING_BYTES];
    (void)snprintf(before, sizeof before, "%s", message);
    char *at = strstr(before, directory);
    if (at != NULL) {
        *at = '\0';
        (void)snprintf(message, message_bytes, "%s%s%s", before, dir, at + strlen(directory));
    }
}

static base_status copy_and_audit(const char *dir, const char *checkpoint, const key_store *store,
                                  budget_audit_report *result, base_error *reterr)
{
    char directory[BASE_PATH_BYTES];
    const char *base = getenv("TMPDIR");
    base_status status = base_path_join(base != NULL && base[0] != '\0' ? base : "/tmp",
                                        "budget-audit-XXXXXX", directory, reterr);
    if (status == BASE_OK && mkdtemp(directory) == NULL) {
        return base_fail_errno(reterr, errno, "cannot make a directory for a copy of the ledger");
    }
    if (status != BASE_OK) {
        return status;
    }
    for (int i = 0; i < FILE_COUNT && status == BASE_OK; i++) {
        status = copy_file(dir, directory, files[i], reterr);
    }
    if (status == BASE_OK) {
        status = audit_copy(directory, checkpoint, store, result, reterr);
    }
    for (int i = 0; i < BUDGET_AUDIT_FINDINGS_KEPT; i++) {
        name_original(result->findings[i], sizeof result->findings[i], directory, dir);
    }
    remove_copy(directory);
    return status;
}

base_status offline_audit(const char *dir, const char *checkpoint, budget_audit_report *result,
                          base_error *reterr)
{
    static key_store store;
    char path[BASE_PATH_BYTES];
    int lock = -1;
    *result = (budget_audit_report){0};
    if (base_path_join(dir, BUDGET_FILE_LEDGER, path, NULL) != BASE_OK || access(path, F_OK) != 0) {
        return base_fail(reterr, BASE_ERR_NOTFOUND, "%s has no ledger", dir);
    }
    base_status status = key_store_read(&store, dir, reterr);
    if (status == BASE_OK) {
        status = directory_lock(dir, &lock, reterr);
    }
    if (status == BASE_OK) {
        status = copy_and_audit(dir, checkpoint, &store, result, reterr);
        directory_unlock(lock);
    }
    return status;
}
