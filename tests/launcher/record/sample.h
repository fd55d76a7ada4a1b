/* A made-up run, whose figures are the same every time and shaped like a real run's. */
#ifndef TEST_SAMPLE_H
#define TEST_SAMPLE_H

#include <jansson.h>

#include "record/record.h"
#include "support.h"

enum { SAMPLE_RANKS_MAX = 16, SAMPLE_POINTS_MAX = 8 };

typedef struct sample {
    char out[BASE_PATH_BYTES];
    proto_job job;
    launch_record_options options;
    launch_rank_info ranks[SAMPLE_RANKS_MAX];
    launch_scaling_point scaling[SAMPLE_POINTS_MAX];
    launch_record_end end;
} sample;

/* A job of that many ranks and steps with its record in test_shared_directory/NAME, and the end of a good
 * run, with one scaling point, of one rank. The caller changes what it tests. Pointers lead into *made. */
void sample_make(sample *made, const char *name, int ranks, int steps);

/* A point of three rounds. Its step is only compute and optimizer. */
launch_scaling_point sample_point(int ranks, double tokens_per_second, double compute_ms,
                                  double optimizer_ms);

/* The report of a rank for a step: about 11 ms, of which 9 are compute; the loss falls. */
launch_step sample_step(const sample *from, uint64_t step, int rank);

/* Opens the record, and begins it. Fails the test on any error, as do the next two. */
launch_record *sample_begin(const sample *from, uint64_t first_step);

/* Adds the step to the record's, and writes it. */
void sample_add(launch_record *record, const launch_step *step);

/* The same. BASE_ERR_INVALID if it is not the rank's next. */
base_status sample_report(launch_record *record, const launch_step *step, base_error *reterr);

/* Finishes and closes it. */
void sample_end(const sample *from, launch_record *record);

/* A whole record with `steps` steps of every rank. */
void sample_write(const sample *from, uint64_t steps);

/* The text of a file of the record, which the caller frees. */
char *sample_text(const sample *from, const char *name);

/* A JSON file of the record. The caller releases it; the test fails if it is not one. */
json_t *sample_load(const char *directory, const char *name);

/* Writes the record, and returns its manifest, which the caller releases. */
json_t *sample_manifest(const sample *from, uint64_t steps);

/* The number under that key. Fails the test if there is none. */
double sample_number(const json_t *object, const char *key);

/* Fails the test unless every element is closed in order, every attribute is quoted, and no text holds a
 * bare < or >. */
void sample_assert_well_formed(const char *page);

/* Fails the test unless the values agree to a millionth. */
void sample_assert_near(double value, double expected);

#endif
