/* Reads the *.fixture files that make_model_fixtures.py writes: named lists of float32. */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

typedef struct fixture {
    void *data;
    size_t size_bytes;
} fixture;

/* Reads tests/oracle/<name>, or fails the test. */
void fixture_open(fixture *file, const char *name);
void fixture_close(fixture *file);

/* A copy of the record's values (the caller frees it) and their number; fails the test if there is
 * no such record. The name is a printf format. */
float *fixture_get(const fixture *file, size_t *count, const char *name, ...)
    __attribute__((format(printf, 3, 4)));

/* The same as integers. */
int32_t *fixture_get_ints(const fixture *file, size_t *count, const char *name, ...)
    __attribute__((format(printf, 3, 4)));

#endif
