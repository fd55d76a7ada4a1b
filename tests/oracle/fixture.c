/* Reads the *.fixture files of tests/oracle: named lists of numbers. Used by tests that compare
 * with another implementation. */
#include "fixture.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support.h"

enum { FIXTURE_BYTES_MAX = 4 << 20, NAME_BYTES = 128 };

void fixture_open(fixture *file, const char *name)
{
    char path[BASE_PATH_BYTES];
    base_error error;
    (void)snprintf(path, sizeof path, "%s/%s", FIXTURE_DIRECTORY, name);
    assert_ok(base_file_read(path, FIXTURE_BYTES_MAX, &file->data, &file->size_bytes, &error),
              &error);
}

void fixture_close(fixture *file)
{
    free(file->data);
    file->data = NULL;
}

static size_t take_size(const char **at)
{
    uint32_t value;
    memcpy(&value, *at, sizeof value);
    *at += sizeof value;
    return value;
}

static float *find(const fixture *file, size_t *count, const char *name)
{
    const char *at = file->data;
    const char *end = at + file->size_bytes;
    while (at < end) {
        const size_t name_bytes = take_size(&at);
        const int here = name_bytes == strlen(name) && memcmp(at, name, name_bytes) == 0;
        at += name_bytes;
        *count = take_size(&at);
        if (here) {
            float *values = malloc(*count * sizeof *values);
            assert_non_null(values);
            memcpy(values, at, *count * sizeof *values);
            return values;
        }
        at += *count * sizeof(float);
    }
    fail_msg("no record %s in the fixture", name);
    return NULL;
}

float *fixture_get(const fixture *file, size_t *count, const char *name, ...)
{
    char text[NAME_BYTES];
    va_list args;
    va_start(args, name);
    (void)vsnprintf(text, sizeof text, name, args);
    va_end(args);
    return find(file, count, text);
}

int32_t *fixture_get_ints(const fixture *file, size_t *count, const char *name, ...)
{
    char text[NAME_BYTES];
    va_list args;
    va_start(args, name);
    (void)vsnprintf(text, sizeof text, name, args);
    va_end(args);
    float *values = find(file, count, text);
    int32_t *integers = malloc(*count * sizeof *integers);
    assert_non_null(integers);
    for (size_t i = 0; i < *count; i++) {
        integers[i] = (int32_t)values[i];
    }
    free(values);
    return integers;
}
