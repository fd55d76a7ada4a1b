/* Real jobs of the real launcher and rank, small ones:
 * shared by the integration and fault tests. */
#ifndef TEST_TRAINING_H
#define TEST_TRAINING_H

#include <jansson.h>

#include "program.h"
#include "support.h"

enum { TRAINING_FLAGS_MAX = 32 };

/* One run: the launcher's flags after those of a small model (NULL-terminated), and its
 * directory. */
typedef struct training_run {
    test_program program;
    char out[BASE_PATH_BYTES];
} training_run;

/* Starts `launcher --mode ddp-cpu --out DIRECTORY/NAME` with a small model and `flags`. */
void training_start(training_run *run, const test_directory *directory, const char *name,
                    const char *const *flags);

/* The same, and waits for it to end with `exit_code`; its output is shown if it does not. */
void training_expect(training_run *run, const test_directory *directory, const char *name,
                     int exit_code, const char *const *flags);

/* A run that is refused before it starts, with exit code 2, in one line on stderr that has these words. It
 * leaves no directory. */
void training_expect_refused(training_run *run, const char *const *flags, const char *says);

/* The whole of OUT/file, as test_file_read. */
void *training_file(const training_run *run, const char *file, size_t *size_bytes);

/* Fails unless both runs' files have the same bytes. */
void training_assert_same_file(const training_run *a, const char *file_a, const training_run *b,
                               const char *file_b);

/* Fails unless both runs' files have other bytes, as many. */
void training_assert_other_file(const training_run *a, const training_run *b, const char *file);

/* Fails unless the line "files: " of a dry run has exactly what is in the directory now. What is below checkpoints/
 * counts as that. */
void training_assert_files(const test_program *dry, const char *directory);

/* The same of the model, and of rank 0's state. */
void training_assert_same_model(const training_run *a, const training_run *b);

/* Waits until a training has a checkpoint of so many steps, or of more: it may have removed that
 * one. */
void training_wait_checkpoint(const training_run *run, uint64_t step);

/* A training that is started from here on waits, in each attempt, at its first checkpoint of so
 * many steps or more: what is to happen to it happens before it is done. 0: none does. */
void training_gate_at(uint64_t step);

/* This one waits no longer. */
void training_open_gate(const training_run *run);

/* The process of a rank of a job that runs. */
pid_t training_rank_pid(const training_run *run, int rank);

/* Kills the rank once the job takes steps. The launcher ends with 137, and names the rank. */
void training_expect_killed(training_run *run, int rank);

/* OUT/file, and the manifest; json_decref them. */
json_t *training_json(const training_run *run, const char *file);
json_t *training_manifest(const training_run *run);

/* Fails unless the manifest says that the ranks have the same bytes. */
void training_assert_equivalent(const training_run *run);

/* The row of a list whose `key` is `name`; without one the test fails. */
const json_t *training_row(const json_t *of, const char *list, const char *key, const char *name);

/* The rows of the directory's timings.jsonl as a list; json_decref it. */
json_t *training_timings(const char *directory);

/* The last number there under this key; NaN: there is none. */
double training_last(const training_run *run, const char *key);

#endif
