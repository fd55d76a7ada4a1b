/* Jobs of fake ranks under the real launcher: a folder with small data, and command lines. */
#ifndef TEST_FAKE_JOB_H
#define TEST_FAKE_JOB_H

#include <stdbool.h>

#include "program.h"

/* Fresh folder with data.jsonl and tokenizer.json; nothing of a job is left in it but its --out. */
void fake_job_setup(test_folder *folder);
void fake_job_teardown(test_folder *folder);

/* Starts the launcher on the folder's data with --out FOLDER/out; flags are NULL-terminated and
 * variables ("FAKE_WHAT=kill") too. */
void fake_job_start(test_program *program, const test_folder *folder, const char *const *flags,
                    const char *const *variables);

/* Starts, waits, checks that no process is left; the exit status. */
int fake_job_run(test_program *program, const test_folder *folder, const char *const *flags,
                 const char *const *variables);

/* Whether the folder has such a file or folder; and what is in such a file, to be freed. */
bool fake_job_left(const test_folder *folder, const char *name);
char *fake_job_read(const test_folder *folder, const char *name);

#define FAKE_ENDLESS "100000000" /* steps */

/* Starts a job of so many, whose ranks print their steps; returns when it trains. */
void fake_job_start_endless(test_program *program, const test_folder *folder);

#define FAKE_LIST(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

#endif
