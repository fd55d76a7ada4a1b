/* Jobs of fake ranks under the real launcher: a directory with small data, and command lines. */
#ifndef TEST_FAKE_JOB_H
#define TEST_FAKE_JOB_H

#include <stdbool.h>

#include "program.h"

/* A test with a test_shared_directory of its own, in which are data.jsonl and tokenizer.json. A job leaves
 * nothing in it but its --out. */
#define FAKE_JOB_TEST(test) cmocka_unit_test_setup_teardown(test, fake_job_setup, fake_job_teardown)
int fake_job_setup(void **state);
int fake_job_teardown(void **state);

/* Starts the launcher on the directory's data with --out DIRECTORY/out; flags are NULL-terminated
 * and variables ("FAKE_WHAT=kill") too. */
void fake_job_start(test_program *program, const char *const *flags, const char *const *variables);

/* The same in a shell: script ends with exec "$0" "$@", which is the launcher. NULL: no shell. */
void fake_job_start_in_shell(test_program *program, const char *script, const char *const *flags,
                             const char *const *variables);

/* Starts the job, waits, and checks that no process is left. Returns the exit status. */
int fake_job_run(test_program *program, const char *const *flags, const char *const *variables);

/* Whether the directory has such a file or directory; and the content of such a file, which the
 * caller frees. */
bool fake_job_left(const char *name);
char *fake_job_read(const char *name);

#define FAKE_ENDLESS "100000000" /* steps */

/* Starts an endless job, whose ranks print their steps. Returns when it trains. */
void fake_job_start_endless(test_program *program);

#endif
