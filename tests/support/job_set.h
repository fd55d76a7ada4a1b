/* Sets a job's fields by their keys, as the options of a command line do. */
#ifndef TEST_JOB_SET_H
#define TEST_JOB_SET_H

#include "base/fields.h"
#include "proto/job.h"
#include "support.h"

/* Also checks the range. BASE_ERR_INVALID: the field cannot have this value. */
static inline base_status test_job_set(proto_job *job, const char *key, const char *value,
                                       base_error *reterr)
{
    const base_field *field = base_fields_find(&proto_job_fields, key);
    assert_non_null(field);
    return base_field_set(field, job, value, reterr);
}

#endif
