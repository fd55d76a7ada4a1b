/* Runs a program in a test: starts it, waits for its output, signals it, and takes its exit status.
 * The test's process becomes a subreaper, so that it finds whatever a program leaves behind. */
#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

#include "support.h"

enum { TEST_PROGRAM_OUTPUT_BYTES = 4096 * 1024, TEST_PROGRAM_ARGS_MAX = 80 };

/* A list that NULL ends: of arguments, of flags or of variables. */
#define FLAGS(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

typedef struct test_program {
    pid_t pid;
    int fds[2];                              /* its stdout and stderr */
    char text[2][TEST_PROGRAM_OUTPUT_BYTES]; /* what it has printed so far */
    size_t text_bytes[2];
    bool unread; /* from its start on: what it prints on stdout is not read for now */
} test_program;

enum { TEST_STDOUT = 0, TEST_STDERR = 1 };

/* Starts `arguments` (NULL-terminated) with "NAME=VALUE" pairs (NULL-terminated) added to the
 * environment, in a process group of its own. */
void test_program_start(test_program *program, const char *const *arguments,
                        const char *const *variables);

/* The same with a pipe as its standard input. Returns the end to write to, which the caller
 * closes. */
int test_program_start_fed(test_program *program, const char *const *arguments,
                           const char *const *variables);

/* Reads until `text` is in the stream; fails the test at the stream's end or after a minute. */
void test_program_wait_text(test_program *program, int stream, const char *text);

/* Reads until the program has ended. Returns its exit code, or 128 + the signal. Fails after a
 * minute. */
int test_program_wait(test_program *program);

/* Fails the test unless the process has no children left, running or not. Call after wait. */
void test_program_assert_no_children(void);

/* Waits until no children are left; fails after a minute. For processes that die a moment later. */
void test_program_wait_no_children(void);

/* The number after `before` in a stream: "pid " gives a pid. Fails if it is not there. */
long test_program_number_after(const test_program *program, int stream, const char *before);

#endif
