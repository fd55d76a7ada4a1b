/* trace.json of a real job, and what holds for all of them. */
#ifndef TEST_TRACE_FILE_H
#define TEST_TRACE_FILE_H

#include "training.h"

enum { TRACE_FILE_STEPS_MAX = 64 };

typedef struct trace_span {
    int rank;
    int thread; /* 1: the rank's own */
    int step;
    int64_t begin_ns;
    int64_t end_ns;
    const char *name;
    const char *category;
    const json_t *args;
} trace_span;

typedef struct trace_file {
    json_t *file;
    trace_span *spans; /* by rank, thread and begin; the longer one first */
    size_t count;
    int steps[TRACE_FILE_STEPS_MAX]; /* of rank 0 */
    int step_count;
} trace_file;

/* Reads the run's; the test fails if it is no JSON. The caller frees it. */
trace_file trace_file_read(const training_run *run);
void trace_file_free(trace_file *of);

bool trace_file_is(const trace_span *of, const char *category);

/* The integer under that key; -1: there is none. */
int trace_file_integer(const json_t *object, const char *key);

/* Fails unless spans of one thread are nested or apart, and all lie in their step. */
void trace_file_check_nesting(const trace_file *in);

/* Fails unless all ranks have the last `steps` steps before `end`. */
void trace_file_check_steps(const trace_file *in, int ranks, int end, int steps);

#endif
