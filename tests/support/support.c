/* Temporary directories, child processes and status assertions for tests; a skipped test becomes an
 * exit status of its own. Linked into every test. */
#include "support.h"

#include <dirent.h>
#include <ftw.h>
#include <locale.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool has_skipped;

void __real__skip(const char *file, int line);
void __wrap__skip(const char *file, int line);
int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);

void __wrap__skip(const char *file, int line)
{
    has_skipped = true;
    __real__skip(file, line);
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown)
{
    const int failed = __real__cmocka_run_group_tests(name, tests, count, setup, teardown);
    return failed == 0 && has_skipped ? TEST_EXIT_SKIPPED : failed;
}

void test_folder_make(test_folder *folder)
{
    const char *parent = getenv("TMPDIR");
    (void)snprintf(folder->path, sizeof folder->path, "%s/ringfence-test-XXXXXX",
                   parent != NULL ? parent : "/tmp");
    if (mkdtemp(folder->path) == NULL) {
        fail_msg("cannot make %s", folder->path);
    }
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void test_folder_remove(test_folder *folder)
{
    if (folder->path[0] != '\0' &&
        nftw(folder->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        fail_msg("cannot remove %s", folder->path);
    }
    folder->path[0] = '\0';
}

const char *test_folder_path(const test_folder *folder, const char *name)
{
    static char paths[4][BASE_PATH_BYTES + 256];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder->path, name);
    return path;
}

void test_use_comma_locale(const test_folder *folder)
{
    const char *path = test_folder_path(folder, "comma");
    const char *const arguments[] = {"localedef", "-i", "de_DE", "-f", "UTF-8", path, NULL};
    pid_t pid = 0;
    int ended = 0;
    if (posix_spawnp(&pid, arguments[0], NULL, NULL, (char *const *)(uintptr_t)arguments,
                     environ) != 0 ||
        waitpid(pid, &ended, 0) != pid || setenv("LOCPATH", folder->path, 1) != 0 ||
        setlocale(LC_ALL, "comma") == NULL || localeconv()->decimal_point[0] != ',') {
        print_message("skipped: localedef makes no locale (Debian: package locales)\n");
        skip();
    }
}

int test_open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(folder);
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count;
}
