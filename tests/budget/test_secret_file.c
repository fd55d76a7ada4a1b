/* budget/secret_file.h: who may have written or read a secret decides whether it is accepted. */
#include "budget/secret_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { NOBODY = 65534 };

static int make_directory(void **state)
{
    static test_directory directory;
    test_directory_make(&directory);
    *state = &directory;
    return chmod(directory.path, 0755);
}

static int remove_directory(void **state)
{
    test_directory_remove(*state);
    return 0;
}

static const char *file_with_mode(const test_directory *directory, const char *name, mode_t mode)
{
    const char *path = test_directory_path(directory, name);
    base_error error = {0};
    assert_ok(budget_secret_file_create(path, "secret", 6, &error), &error);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static void a_file_is_made_once_and_for_us_alone(void **state)
{
    const char *path = test_directory_path(*state, "key");
    base_error error = {0};
    struct stat file;
    char data[8];
    size_t size_bytes = 0;
    const mode_t mask = umask(0);
    assert_ok(budget_secret_file_create(path, "secret", 6, &error), &error);
    (void)umask(mask);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 07777, 0600);
    assert_status(budget_secret_file_create(path, "other", 5, &error), BASE_ERR_STATE);
    assert_ok(budget_secret_file_read(path, data, sizeof data, &size_bytes, &error), &error);
    assert_int_equal(size_bytes, 6);
    assert_memory_equal(data, "secret", 6);
    assert_status(budget_secret_file_read(path, data, 5, &size_bytes, &error), BASE_ERR_LIMIT);
    assert_ok(budget_secret_file_read(path, data, 6, &size_bytes, &error), &error);
}

/* Nothing is written through a link that somebody laid there first. */
static void a_link_in_the_way_is_not_followed(void **state)
{
    char link_path[BASE_PATH_BYTES];
    base_error error = {0};
    (void)snprintf(link_path, sizeof link_path, "%s", test_directory_path(*state, "laid"));
    assert_int_equal(symlink(test_directory_path(*state, "target"), link_path), 0);
    assert_status(budget_secret_file_create(link_path, "secret", 6, &error), BASE_ERR_STATE);
    assert_int_equal(access(test_directory_path(*state, "target"), F_OK), -1);
}

static void every_bit_for_others_is_refused(void **state)
{
    static const mode_t modes[] = {0601, 0602, 0604, 0610, 0620, 0640, 0644, 0660, 0666, 0777};
    const char *path = file_with_mode(*state, "open", 0600);
    char data[8];
    size_t size_bytes = 0;
    base_error error = {0};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_status(budget_secret_file_read(path, data, sizeof data, &size_bytes, &error),
                      BASE_ERR_AUTH);
        assert_non_null(strstr(error.message, "chmod 600"));
    }
    assert_int_equal(chmod(path, 0400), 0);
    assert_ok(budget_secret_file_read(path, data, sizeof data, &size_bytes, &error), &error);
}

static void only_regular_files_are_read(void **state)
{
    const char *fifo = test_directory_path(*state, "fifo");
    char data[8];
    size_t size_bytes = 0;
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_status(budget_secret_file_read(fifo, data, sizeof data, &size_bytes, NULL),
                  BASE_ERR_AUTH);
    assert_status(budget_secret_file_read("/", data, sizeof data, &size_bytes, NULL),
                  BASE_ERR_AUTH);
    assert_status(budget_secret_file_read(test_directory_path(*state, "none"), data, sizeof data,
                                          &size_bytes, NULL),
                  BASE_ERR_NOTFOUND);
}

/* The status of a read in a process of another user; its exit code is minus the status. */
static base_status read_as_nobody(const char *path)
{
    int ended = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char data[8];
        size_t size_bytes = 0;
        if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) {
            _exit(100);
        }
        _exit(-budget_secret_file_read(path, data, sizeof data, &size_bytes, NULL));
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    return -WEXITSTATUS(ended);
}

/* As Kubernetes and Docker mount them: root's, readable by all, behind symbolic links. */
static void mounted_secrets_are_accepted(void **state)
{
    const char *path = file_with_mode(*state, "mounted", 0444);
    const char *link_path = test_directory_path(*state, "link");
    char data[8];
    size_t size_bytes = 0;
    base_error error = {0};
    if (geteuid() != 0) {
        skip(); /* only root can make a file of root's */
    }
    assert_int_equal(symlink("mounted", link_path), 0);
    assert_ok(budget_secret_file_read(link_path, data, sizeof data, &size_bytes, &error), &error);
    assert_status(budget_secret_file_read(path, data, sizeof data, &size_bytes, &error),
                  BASE_ERR_AUTH);
    assert_status(read_as_nobody(path), BASE_OK);
    assert_status(read_as_nobody(link_path), BASE_OK);
    assert_int_equal(chmod(path, 0664), 0);
    assert_status(read_as_nobody(link_path), BASE_ERR_AUTH);
    assert_status(budget_secret_file_read(link_path, data, sizeof data, &size_bytes, &error),
                  BASE_ERR_AUTH);
}

static void a_stranger_s_file_is_refused(void **state)
{
    const char *path = file_with_mode(*state, "stranger", 0600);
    char data[8];
    size_t size_bytes = 0;
    base_error error = {0};
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(chown(path, NOBODY, NOBODY), 0);
    assert_status(budget_secret_file_read(path, data, sizeof data, &size_bytes, &error),
                  BASE_ERR_AUTH);
    assert_status(read_as_nobody(path), BASE_OK);
}

/* What is written is read; a pair whose halves do not belong together, or that is cut, is none. */
static void a_pair_is_read_whole_or_not_at_all(void **state)
{
    const char *path = test_directory_path(*state, "job.key");
    base_error error = {0};
    proto_keypair pair;
    proto_keypair other;
    proto_keypair got;
    proto_keypair_make(&pair);
    proto_keypair_make(&other);
    assert_status(budget_keypair_read(path, " is none", &got, &error), BASE_ERR_NOTFOUND);
    assert_ok(budget_keypair_create(path, &pair, &error), &error);
    assert_status(budget_keypair_create(path, &other, &error), BASE_ERR_STATE);
    assert_ok(budget_keypair_read(path, " is none", &got, &error), &error);
    assert_memory_equal(&got, &pair, sizeof pair);
    assert_int_equal(truncate(path, 129), 0);
    assert_status(budget_keypair_read(path, " is none", &got, &error), BASE_ERR_AUTH);
    assert_int_equal(unlink(path), 0);
    memcpy(pair.public_key, other.public_key, sizeof pair.public_key);
    assert_ok(budget_keypair_create(path, &pair, &error), &error);
    assert_status(budget_keypair_read(path, " is none", &got, &error), BASE_ERR_AUTH);
    assert_non_null(strstr(error.message, "job.key is none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_is_made_once_and_for_us_alone, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(a_link_in_the_way_is_not_followed, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(every_bit_for_others_is_refused, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(only_regular_files_are_read, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(mounted_secrets_are_accepted, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(a_pair_is_read_whole_or_not_at_all, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(a_stranger_s_file_is_refused, make_directory,
                                        remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
