/* budget/checkpoint.h, and what the ledger does where its checkpoints do not fit. */
#include "budget/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audited_ledger.h"

static bool sync_fails;
static int synced_count;
static struct stat synced[8]; /* the first since synced_count was 0 */

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
    if (sync_fails) {
        errno = EIO;
        return -1;
    }
    if (synced_count < 8) {
        assert_int_equal(fstat(fd, &synced[synced_count++]), 0);
    }
    return __real_fsync(fd);
}

static bool is_synced(const char *path)
{
    struct stat info;
    bool found = false;
    assert_int_equal(stat(path, &info), 0);
    for (int i = 0; i < synced_count; i++) {
        found |= synced[i].st_ino == info.st_ino && synced[i].st_size == info.st_size;
    }
    return found;
}

/* Their first line, and their name: else a loss of power soon afterwards leaves a ledger without any. */
static void new_checkpoints_are_on_disk(void **state)
{
    ledger_fixture *fixture = *state;
    const char *directory = fixture->directory.path;
    char path[BASE_PATH_BYTES];
    audited_close(fixture);
    (void)snprintf(path, sizeof path, "%s/checkpoints", directory);
    (void)unlink(path);
    (void)unlink(test_directory_path(&fixture->directory, "ledger.db"));
    sync_fails = true;
    assert_status(budget_ledger_create(&fixture->options, &fixture->error), BASE_ERR_IO);
    assert_non_null(strstr(fixture->error.message, "to disk"));
    sync_fails = false;
    (void)unlink(path);
    (void)unlink(test_directory_path(&fixture->directory, "ledger.db"));
    synced_count = 0;
    assert_ok(budget_ledger_create(&fixture->options, &fixture->error), &fixture->error);
    assert_true(is_synced(path));
    assert_true(is_synced(directory));
    fixture_reopen(fixture);
}

static void a_restored_backup_is_noticed(void **state)
{
    ledger_fixture *fixture = *state;
    uint64_t sequence = 0;
    uint64_t newest = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    audited_close(fixture);
    audited_copy(fixture, "ledger.db", "old.db");
    audited_copy(fixture, "checkpoints", "old.checkpoints");
    fixture_reopen(fixture);
    assert_granted(fixture_authorize(fixture, "phase", "newer", 10));
    budget_ledger_head(fixture->ledger, &sequence, head);
    audited_close(fixture);
    audited_copy(fixture, "checkpoints", "kept.checkpoints");
    audited_copy(fixture, "old.db", "ledger.db");
    assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  BASE_ERR_MISMATCH); /* the ledger alone */
    assert_non_null(strstr(fixture->error.message, "older copy"));
    audited_copy(fixture, "old.checkpoints", "checkpoints");
    fixture_reopen(fixture); /* with its checkpoint: here only others notice */
    assert_status(budget_ledger_remembers(fixture->ledger, sequence, head, NULL),
                  BASE_ERR_MISMATCH);
    assert_status(budget_checkpoint_check(
                      fixture->ledger, test_directory_path(&fixture->directory, "kept.checkpoints"),
                      &newest, &fixture->error),
                  BASE_ERR_MISMATCH);
    assert_granted(fixture_authorize(fixture, "phase", "another", 10));
    assert_granted(fixture_authorize(fixture, "phase", "one-more", 10));
    assert_status(budget_ledger_remembers(fixture->ledger, sequence, head, &fixture->error),
                  BASE_ERR_MISMATCH); /* gone on: the row is there, but another */
    assert_non_null(strstr(fixture->error.message, "another one"));
}

static void overwrite(ledger_fixture *fixture, const char *name, long offset, const char *text)
{
    const int fd = open(test_directory_path(&fixture->directory, name), O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    const off_t at = lseek(fd, offset, offset < 0 ? SEEK_END : SEEK_SET);
    assert_int_equal(pwrite(fd, text, strlen(text), at), strlen(text));
    (void)close(fd);
}

/* Opens a ledger that its checkpoint does not fit, with the digest that the refusal names. Returns
 * the digest. */
static const char *accept_refused(ledger_fixture *fixture)
{
    static const char before[] = "serve --accept-checkpoint ";
    static char digest[64];
    assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  BASE_ERR_MISMATCH);
    const char *named = strstr(fixture->error.message, before);
    assert_non_null(named);
    (void)snprintf(digest, sizeof digest, "%s", named + sizeof before - 1);
    assert_int_equal(strlen(digest), 32);
    fixture->options.accept_checkpoint = digest;
    fixture_reopen(fixture);
    fixture->options.accept_checkpoint = NULL;
    return digest;
}

static void checkpoints_are_believed_when_signed(void **state)
{
    ledger_fixture *fixture = *state;
    uint64_t newest = 0;
    uint64_t sequence = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    const char *path = test_directory_path(&fixture->directory, "checkpoints");
    budget_ledger_head(fixture->ledger, &sequence, head);
    assert_ok(budget_checkpoint_check(fixture->ledger, path, &newest, &fixture->error),
              &fixture->error);
    assert_int_equal(newest, sequence);
    audited_close(fixture);
    overwrite(fixture, "checkpoints", -3, "00");
    assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  BASE_ERR_MISMATCH);
    assert_non_null(strstr(fixture->error.message, "bad signature"));
    (void)unlink(test_directory_path(&fixture->directory, "checkpoints"));
    assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  BASE_ERR_MISMATCH);
    assert_non_null(strstr(fixture->error.message, "is missing"));
    audited_copy(fixture, "ledger.lock", "checkpoints"); /* empty */
    assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  BASE_ERR_MISMATCH);
    accept_refused(fixture);
    fixture_reopen(fixture);
    assert_true(audited(fixture, 100).good);
}

/* An admin accepts what he has looked at: this backup, and none that is restored later. */
static void a_later_backup_is_not_accepted(void **state)
{
    ledger_fixture *fixture = *state;
    char digest[64];
    audited_close(fixture);
    audited_copy(fixture, "ledger.db", "old.db");
    fixture_reopen(fixture);
    assert_granted(fixture_authorize(fixture, "phase", "newer", 10));
    audited_close(fixture);
    audited_copy(fixture, "old.db", "ledger.db");
    (void)snprintf(digest, sizeof digest, "%s", accept_refused(fixture));
    assert_granted(fixture_authorize(fixture, "phase", "newest", 10));
    fixture->options.accept_checkpoint = digest;
    fixture_reopen(fixture); /* fits, so that nothing is accepted */
    audited_close(fixture);

    audited_copy(fixture, "old.db", "ledger.db"); /* once more: other rows are missing now */
    assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  BASE_ERR_MISMATCH);
    assert_non_null(strstr(fixture->error.message, "this is not what was accepted"));
    (void)unlink(test_directory_path(&fixture->directory, "checkpoints"));
    assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  BASE_ERR_MISMATCH);
    assert_non_null(strstr(fixture->error.message, "this is not what was accepted"));
    assert_string_not_equal(accept_refused(fixture), digest);
}

static void a_torn_checkpoint_is_mended(void **state)
{
    ledger_fixture *fixture = *state;
    audited_close(fixture);
    const int fd = open(test_directory_path(&fixture->directory, "checkpoints"),
                        O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, "v1 20 abc", 9), 9);
    (void)close(fd);
    fixture_reopen(fixture);
    assert_granted(fixture_authorize(fixture, "phase", "newer", 10));
    fixture_reopen(fixture);
}

/* Of the file that the ledger has open. */
static int checkpoint_fd(const ledger_fixture *fixture)
{
    struct stat wanted;
    struct stat found;
    assert_int_equal(stat(test_directory_path(&fixture->directory, "checkpoints"), &wanted), 0);
    for (int fd = 0; fd < 1024; fd++) {
        if (fstat(fd, &found) == 0 && found.st_dev == wanted.st_dev &&
            found.st_ino == wanted.st_ino) {
            return fd;
        }
    }
    fail_msg("the checkpoints are not open");
    return -1;
}

/* The rows are on disk then. So nothing is taken back: the ledger goes no further, and the next one
 * that opens it has all of them, a clock's repair among them. */
static void no_room_for_a_checkpoint_breaks_the_ledger(void **state)
{
    ledger_fixture *fixture = *state;
    budget_answer answer;
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    assert_true(dup2(full, checkpoint_fd(fixture)) >= 0);
    (void)close(full);
    fixture->clock.wall_ms += (int64_t)3600 * 1000;
    fixture_begin(fixture);
    assert_ok(budget_ledger_clock_repair(fixture->ledger, NULL, &answer, &fixture->error),
              &fixture->error);
    assert_granted(answer);
    assert_status(budget_ledger_commit(fixture->ledger, &fixture->error), BASE_ERR_IO);
    assert_non_null(strstr(fixture->error.message, "checkpoints"));
    assert_true(budget_ledger_broken(fixture->ledger));
    assert_status(budget_ledger_begin(fixture->ledger, &fixture->clock, NULL), BASE_ERR_STATE);
    fixture_reopen(fixture);
    int64_t wall_ms = 0;
    int64_t skew_ms = 0;
    assert_ok(
        budget_ledger_now(fixture->ledger, &fixture->clock, &wall_ms, &skew_ms, &fixture->error),
        &fixture->error);
    assert_int_equal(skew_ms, 0);
    assert_granted(fixture_authorize(fixture, "phase", "newer", 10));
    assert_true(audited(fixture, 100).good);
}

int main(void)
{
#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, audited_make, audited_remove)
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(new_checkpoints_are_on_disk),
        LEDGER_TEST(a_restored_backup_is_noticed),
        LEDGER_TEST(checkpoints_are_believed_when_signed),
        LEDGER_TEST(a_later_backup_is_not_accepted),
        LEDGER_TEST(a_torn_checkpoint_is_mended),
        LEDGER_TEST(no_room_for_a_checkpoint_breaks_the_ledger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
