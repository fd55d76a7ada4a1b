/* What every test includes: cmocka with what it needs, temporary directories, and status
 * assertions. */
#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka after the four headers it relies on */
#include <cmocka.h>

#include "base/limits.h"
#include "base/status.h"

#ifdef __clang_analyzer__
/* fail() does not return; cmocka's header does not say so to the analyser.
 * NOLINTNEXTLINE(readability-redundant-declaration) */
void _fail(const char *file, int line) __attribute__((noreturn));
#endif

/* Fails the test with the error's own message unless status is BASE_OK. The statuses of libcoll are
 * the same numbers. */
#define assert_ok(call, error)                                                                     \
    do {                                                                                           \
        (error)->message[0] = '\0';                                                                \
        const base_status assert_ok_status = (base_status)(call);                                  \
        if (assert_ok_status != BASE_OK) {                                                         \
            fail_msg("%s: %s: %s", #call, base_status_name(assert_ok_status), (error)->message);   \
        }                                                                                          \
    } while (0)

#define assert_status(call, expected)                                                              \
    do {                                                                                           \
        const base_status assert_status_got = (base_status)(call);                                 \
        if (assert_status_got != (base_status)(expected)) {                                        \
            fail_msg("%s: %s, expected %s", #call, base_status_name(assert_status_got),            \
                     base_status_name((base_status)(expected)));                                   \
        }                                                                                          \
    } while (0)

/* Fails the test, and shows the text, unless `part` is in it. */
#define assert_has(text, part)                                                                     \
    do {                                                                                           \
        const char *assert_has_text = (text);                                                      \
        const char *assert_has_part = (part);                                                      \
        if (strstr(assert_has_text, assert_has_part) == NULL) {                                    \
            fail_msg("'%s' is not in: %s", assert_has_part, assert_has_text);                      \
        }                                                                                          \
    } while (0)

/* How often `part` is in the text, and whether it is. */
int test_count(const char *text, const char *part);
bool test_has(const char *text, const char *part);

/* The exit code of a test program or script if a part of it could not run here and the rest passed.
 * ctest then says "skipped". If a test calls cmocka's skip(), cmocka_run_group_tests returns it
 * instead of 0. */
enum { TEST_EXIT_SKIPPED = 77 };

/* Whether a sanitizer is built in, under which a test takes ten times as long, and may do less. */
enum {
#ifdef __SANITIZE_ADDRESS__
    TEST_HAS_ASAN = 1,
#else
    TEST_HAS_ASAN = 0,
#endif
#ifdef __SANITIZE_THREAD__
    TEST_HAS_TSAN = 1,
#else
    TEST_HAS_TSAN = 0,
#endif
    TEST_HAS_SANITIZER = TEST_HAS_ASAN || TEST_HAS_TSAN,
};

/* How many descriptors this process has open. Only for comparison. */
int test_open_descriptors(void);

/* A command line's words, as main gets them: those of `line` between its blanks. */
enum { TEST_WORDS_MAX = 40 };
typedef struct test_words {
    char text[512];
    char *argv[TEST_WORDS_MAX + 1];
} test_words;

/* Their number. */
int test_words_split(test_words *words, const char *line);

/* A new directory under $TMPDIR. test_directory_remove removes it with its content. */
typedef struct test_directory {
    char path[BASE_PATH_BYTES];
} test_directory;

void test_directory_make(test_directory *directory);
void test_directory_remove(test_directory *directory);

/* directory/name in one of four static buffers, which take turns. */
const char *test_directory_path(const test_directory *directory, const char *name);

/* Makes the file directory/name with this text, and the directories that it needs. */
void test_directory_put(const test_directory *directory, const char *name, const char *text);

/* The whole file, with a NUL behind it; the caller frees it. size_bytes: NULL: not wanted. */
void *test_file_read(const char *path, size_t *size_bytes);

/* Replaces the first `from` in the file by `to`, which is as long. */
void test_file_change(const char *path, const char *from, const char *to);

/* A directory for all tests of a program, and its group setup and teardown. */
extern test_directory test_shared_directory;
int test_shared_directory_make(void **state);
int test_shared_directory_remove(void **state);

/* The same in it as test_directory_path and test_directory_put. */
const char *test_shared_path(const char *name);
void test_shared_put(const char *name, const char *text);

/* A test with a test_shared_directory of its own. */
#define TEST_IN_DIRECTORY(test)                                                                    \
    cmocka_unit_test_setup_teardown(test, test_shared_directory_make, test_shared_directory_remove)

/* Makes a locale in the directory whose numbers have a comma, and lets this process use it. Skips
 * the test if it cannot be made. setlocale(LC_ALL, "C") goes back. */
void test_use_comma_locale(const test_directory *directory);

/* One change that makes a text wrong: its first `from` becomes `to`. */
typedef struct test_change {
    const char *from;
    const char *to;
    const char *named; /* in the message of the error */
} test_change;

/* Fails the test unless `parse` refuses the text after each of the changes, made alone, and names
 * what is wrong. */
void test_changes_are_refused(const char *text, const test_change *changes, size_t count,
                              base_status (*parse)(const char *text, base_error *error));

#endif
