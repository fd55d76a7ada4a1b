/* Temporary directories, child processes and status assertions for tests. A program with a skipped
 * test gets an exit status of its own. Linked into every test. */
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

#include "base/file.h"

static bool has_skipped;
static int directory_count; /* that exist */

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
    if (failed == 0 && directory_count != 0) {
        (void)fprintf(stderr, "%s: %d directories were not removed\n", name, directory_count);
        return 1;
    }
    return failed == 0 && has_skipped ? TEST_EXIT_SKIPPED : failed;
}

void test_directory_make(test_directory *directory)
{
    const char *parent = getenv("TMPDIR");
    (void)snprintf(directory->path, sizeof directory->path, "%s/ringfence-test-XXXXXX",
                   parent != NULL ? parent : "/tmp");
    if (mkdtemp(directory->path) == NULL) {
        fail_msg("cannot make %s", directory->path);
    }
    directory_count += 1;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void test_directory_remove(test_directory *directory)
{
    if (directory->path[0] == '\0') {
        return;
    }
    if (nftw(directory->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        fail_msg("cannot remove %s", directory->path);
    }
    directory->path[0] = '\0';
    directory_count -= 1;
}

test_directory test_shared_directory;

int test_shared_directory_make(void **state)
{
    (void)state;
    test_directory_make(&test_shared_directory);
    return 0;
}

int test_shared_directory_remove(void **state)
{
    (void)state;
    test_directory_remove(&test_shared_directory);
    return 0;
}

const char *test_directory_path(const test_directory *directory, const char *name)
{
    static _Thread_local char paths[4][BASE_PATH_BYTES + 256]; /* ranks may be threads */
    static _Thread_local unsigned turn;
    char *path = paths[turn++ % 4];
    if (directory->path[0] == '\0') { /* else it would be at the root */
        fail_msg("there is no directory for %s", name);
    }
    (void)snprintf(path, sizeof paths[0], "%s/%s", directory->path, name);
    return path;
}

void test_directory_put(const test_directory *directory, const char *name, const char *text)
{
    const char *path = test_directory_path(directory, name);
    char parent[BASE_PATH_BYTES];
    base_error error;
    assert_true((size_t)snprintf(parent, sizeof parent, "%s", path) < sizeof parent);
    *strrchr(parent, '/') = '\0';
    assert_ok(base_mkdirs(parent, &error), &error);
    assert_ok(base_file_write(path, text, strlen(text), &error), &error);
}

const char *test_shared_path(const char *name)
{
    return test_directory_path(&test_shared_directory, name);
}

void test_shared_put(const char *name, const char *text)
{
    test_directory_put(&test_shared_directory, name, text);
}

void test_use_comma_locale(const test_directory *directory)
{
    static const char source[] =
        "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n";
    const char *from = test_directory_path(directory, "source");
    const char *path = test_directory_path(directory, "comma");
    /* It has no other category, of which localedef warns. */
    const char *const arguments[] = {"localedef", "--quiet",        "-c", "-i", from,
                                     "-f",        "ANSI_X3.4-1968", path, NULL};
    pid_t pid = 0;
    int ended = 0;
    test_directory_put(directory, "source", source);
    if (posix_spawnp(&pid, arguments[0], NULL, NULL, (char *const *)(uintptr_t)arguments,
                     environ) != 0 ||
        waitpid(pid, &ended, 0) != pid || setenv("LOCPATH", directory->path, 1) != 0 ||
        setlocale(LC_ALL, "comma") == NULL || localeconv()->decimal_point[0] != ',') {
        print_message("skipped: localedef makes no locale (Debian: package locales)\n");
        skip();
    }
}

int test_count(const char *text, const char *part)
{
    const size_t length = strlen(part);
    int count = 0; /* not strstr: AddressSanitizer's measures the text at each call */
    for (const char *end = text + strlen(text), *at = text;
         (at = memmem(at, (size_t)(end - at), part, length)) != NULL; at++) {
        count++;
    }
    return count;
}

bool test_has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

int test_open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    (void)closedir(directory);
    return count;
}

void test_changes_are_refused(const char *text, const test_change *changes, size_t count,
                              base_status (*parse)(const char *text, base_error *error))
{
    for (size_t i = 0; i < count; i++) {
        const test_change *change = &changes[i];
        const size_t size_bytes = strlen(text) + strlen(change->to) + 1;
        base_error error = {.message = ""};
        char *changed = malloc(size_bytes);
        const char *at = strstr(text, change->from);
        assert_non_null(at);
        assert_non_null(changed);
        (void)snprintf(changed, size_bytes, "%.*s%s%s", (int)(at - text), text, change->to,
                       at + strlen(change->from));
        if (parse(changed, &error) == BASE_OK || strstr(error.message, change->named) == NULL) {
            fail_msg("%s instead of %s: '%s' does not name %s", change->to, change->from,
                     error.message, change->named);
        }
        free(changed);
    }
}

void *test_file_read(const char *path, size_t *size_bytes)
{
    enum { BYTES_MAX = 1 << 26 };
    base_error error;
    void *bytes = NULL;
    size_t count = 0;
    assert_ok(base_file_read(path, BYTES_MAX, &bytes, &count, &error), &error);
    if (size_bytes != NULL) {
        *size_bytes = count;
    }
    return bytes;
}

void test_file_change(const char *path, const char *from, const char *to)
{
    base_error error;
    size_t size_bytes = 0;
    void *bytes = test_file_read(path, &size_bytes);
    void *found = memmem(bytes, size_bytes, from, strlen(from));
    assert_non_null(found);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(found, to, strlen(to));
    assert_ok(base_file_write(path, bytes, size_bytes, &error), &error);
    free(bytes);
}

int test_words_split(test_words *words, const char *line)
{
    int argc = 0;
    char *rest = NULL;
    assert_true(strlen(line) < sizeof words->text);
    memcpy(words->text, line, strlen(line) + 1);
    for (char *word = strtok_r(words->text, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < TEST_WORDS_MAX);
        words->argv[argc++] = word;
    }
    words->argv[argc] = NULL;
    return argc;
}
