/* Jobs of fake ranks under the real launcher: a directory with small data, and command lines. */
#ifndef TEST_FAKE_JOB_H
#define TEST_FAKE_JOB_H

#include <stdbool.h>

#include "program.h"

/* Makes a directory with data.jsonl and tokenizer.json. A job leaves nothing in it but its
 * --out. */
void fake_job_setup(test_directory *directory);
void fake_job_teardown(test_directory *directory);

/* Starts the launcher on the directory's data with --out DIRECTORY/out; flags are NULL-terminated
 * and variables ("FAKE_WHAT=kill") too. */
void fake_job_start(test_program *program, const test_directory *directory,
                    const char *const *flags, const char *const *variables);

/* The same in a shell: script ends with exec "$0" "$@", which is the launcher. NULL: no shell. */
void fake_job_start_in_shell(test_program *program, const test_directory *directory,
                             const char *script, const char *const *flags,
                             const char *const *variables);

/* Starts the job, waits, and checks that no process is left. Returns the exit status. */
int fake_job_run(test_program *program, const test_directory *directory, const char *const *flags,
                 const char *const *variables);

/* Whether the directory has such a file or directory; and the content of such a file, which the
 * caller frees. */
bool fake_job_left(const test_directory *directory, const char *name);
char *fake_job_read(const test_directory *directory, const char *name);

#define FAKE_ENDLESS "100000000" /* steps */

/* Starts an endless job, whose ranks print their steps. Returns when it trains. */
void fake_job_start_endless(test_program *program, const test_directory *directory);

#endif
